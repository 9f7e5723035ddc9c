"""A flow as a picture: boxes in layers from left to right, wires between them, as SVG. Pure.

Each part stands in the layer behind all it reads from; within a layer parts are ordered so that wires cross little, and
a wire that passes a layer has room there.
Colours tell kinds apart, and so do shape and mark, for those who do not see colours.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise

from headrace.model import OUT, Flow, Part, Port, Sink, Source, Step

_HEIGHT, _PASSAGE, _GAP, _BETWEEN, _EDGE = 44, 12, 16, 72, 16
_CHARACTER = 8.0
"""Width of a character of the names, in a 12 px font; names are cut where a box would become too wide."""
_WIDEST = 26
_COLOURS = {
    "source": ("#e6f4ea", "#2e7d4f"),
    "table": ("#e6f4ea", "#2e7d4f"),
    "plain": ("#eef3fb", "#3b6db3"),
    "python": ("#fff6e0", "#a8741a"),
    "state": ("#f1ebfa", "#6f4bb0"),
    "sink": ("#fdece7", "#b5472b"),
}
_MARKS = {"source": "⇥", "table": "▦", "plain": "ƒ", "python": "λ", "state": "Σ", "sink": "⇲"}
_FONT = "ui-sans-serif, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Box:
    """A place in a layer: of a part, or, without one, where a wire passes through."""

    part: Part | None
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True)
class Wire:
    """One input of a part; `via` are the places between the layers' boxes that it passes through."""

    port: Port
    to: str
    index: int
    via: tuple[str, ...] = ()


def kind_of(part: Part) -> str:
    """What a part is drawn as: source, table, sink, or a step that is plain, in Python, or remembers."""
    if isinstance(part, Source):
        return "source" if part.table is None else "table"
    if isinstance(part, Sink):
        return "sink"
    if part.options.state(()) is not None:
        return "state"
    return "python" if getattr(part.options, "python", None) is not None else "plain"


def layout(flow: Flow) -> tuple[list[list[str]], list[Wire]]:
    """What stands in each layer, and the wires; a wire over several layers has a place of its own in those between."""
    depth: dict[str, int] = {}
    for part in flow.ordered():
        above = [depth[port.step] for port in part.inputs if port.step in depth]
        depth[part.name] = max(above, default=-1) + 1
    for part in flow:  # those on a circle have no depth
        depth.setdefault(part.name, 0)
    drawn: list[list[str]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for part in flow:
        drawn[depth[part.name]].append(part.name)
    wires = []
    for part in flow:
        for index, port in enumerate(part.inputs):
            if port.step in depth:
                between = range(depth[port.step] + 1, depth[part.name])
                via = tuple(f"{port}>{part.name}>{index}>{layer}" for layer in between)
                for layer, name in zip(between, via, strict=True):
                    drawn[layer].append(name)
                wires.append(Wire(port, part.name, index, via))
    return _untangled(drawn, wires), wires


def _untangled(drawn: list[list[str]], wires: list[Wire]) -> list[list[str]]:
    """The layers with what hangs together at about the same height: each by the mean of its neighbours, to and fro."""
    before: dict[str, list[str]] = {}
    behind: dict[str, list[str]] = {}
    for wire in wires:
        way = (wire.port.step, *wire.via, wire.to)
        for one, next_ in pairwise(way):
            behind.setdefault(one, []).append(next_)
            before.setdefault(next_, []).append(one)
    for _ in range(6):
        for layers, neighbours in ((drawn[1:], before), (drawn[-2::-1], behind)):
            for layer in layers:
                places = {name: (i + 0.5) / len(one) for one in drawn for i, name in enumerate(one)}
                means = {n: [places[other] for other in neighbours.get(n, [])] or [places[n]] for n in layer}
                layer.sort(key=lambda name, means=means: sum(means[name]) / len(means[name]))  # type: ignore[misc]
    return drawn


def boxes(flow: Flow, drawn: list[list[str]]) -> dict[str, Box]:
    """Everything in the layers with its place."""

    def height(name: str) -> float:
        return _HEIGHT if name in flow else _PASSAGE

    totals = [sum(height(name) + _GAP for name in layer) - _GAP for layer in drawn]
    found: dict[str, Box] = {}
    x = float(_EDGE)
    for layer, total in zip(drawn, totals, strict=True):
        width = max((_width(flow[name]) for name in layer if name in flow), default=0.0)
        y = _EDGE + (max(totals) - total) / 2
        for name in layer:
            part = flow[name] if name in flow else None  # noqa: SIM401 - a flow is no dict
            found[name] = Box(part, x, y, width, height(name))
            y += height(name) + _GAP
        x += width + _BETWEEN
    return found


def _width(part: Part) -> float:
    longest = max(len(_cut(part.name)), len(_cut(_does(part))) * 0.9)
    return max(96.0, longest * _CHARACTER + 46)


def _does(part: Part) -> str:
    return part.operator if isinstance(part, Step) else part.connector


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def svg(flow: Flow) -> str:
    """The picture of a flow, as a whole SVG document."""
    drawn, wires = layout(flow)
    placed = boxes(flow, drawn)
    right = max((box.x + box.width for box in placed.values()), default=120.0) + _EDGE
    bottom = max((box.y + box.height for box in placed.values()), default=40.0) + _EDGE
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{right:.0f}" height="{bottom:.0f}"'
            f' viewBox="0 0 {right:.0f} {bottom:.0f}" role="img" font-family="{_FONT}">',
            f"<title>flow {escape(flow.name)}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0,0.5 L7.5,4 L0,7.5 z" fill="#7b8494"/></marker></defs>',
            f'<rect width="{right:.0f}" height="{bottom:.0f}" rx="8" fill="#ffffff"/>',
            *(_wire(wire, placed, flow) for wire in wires),
            *(_box(box, box.part) for box in placed.values() if box.part is not None),
            "</svg>",
        ]
    )


def _wire(wire: Wire, placed: dict[str, Box], flow: Flow) -> str:
    start, end = placed[wire.port.step], placed[wire.to]
    y2 = end.y + end.height * (wire.index + 1) / (len(flow[wire.to].inputs) + 1)
    stops = [(start.x + start.width, start.middle)]
    for name in wire.via:
        stops += [(placed[name].x, placed[name].middle), (placed[name].x + placed[name].width, placed[name].middle)]
    stops.append((end.x - 2, y2))
    path = f"M{stops[0][0]:.1f},{stops[0][1]:.1f}"
    for (x1, y1), (x2, y) in pairwise(stops):
        bend = (x2 - x1) / 2
        path += f" C{x1 + bend:.1f},{y1:.1f} {x2 - bend:.1f},{y:.1f} {x2:.1f},{y:.1f}"
    drawn = f'<path d="{path}" fill="none" stroke="#7b8494" stroke-width="1.6" marker-end="url(#tip)"/>'
    if wire.port.port == OUT:
        return drawn
    # Half way into the wire's first bend, where those of several ports have parted.
    (x1, y1), (x2, y) = stops[0], stops[1]
    x, y = x1 + 0.5 * (x2 - x1), y1 + 0.5 * (y - y1) - 5
    look = 'font-size="10.5" text-anchor="middle" fill="#555e6d" stroke="#ffffff" stroke-width="3" paint-order="stroke"'
    return f'{drawn}\n<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(wire.port.port)}</text>'


def _box(box: Box, part: Part) -> str:
    kind = kind_of(part)
    fill, edge = _COLOURS[kind]
    corner = _HEIGHT / 2 if kind in ("source", "sink", "table") else 8
    heavy = 2.2 if kind == "state" else 1.4
    x = box.x + (16 if corner > 8 else 12)
    return "\n".join(
        [
            f'<g class="{kind}"><title>{escape(f"{part.name}: {_does(part)} ({kind})")}</title>',
            f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{_HEIGHT}" rx="{corner:.0f}"'
            f' fill="{fill}" stroke="{edge}" stroke-width="{heavy}"/>',
            f'<text x="{x:.1f}" y="{box.middle + 5.5:.1f}" font-size="15" fill="{edge}">{_MARKS[kind]}</text>',
            f'<text x="{x + 22:.1f}" y="{box.y + 19:.1f}" font-size="12" font-weight="600" fill="#1d2430">'
            f"{escape(_cut(part.name))}</text>",
            f'<text x="{x + 22:.1f}" y="{box.y + 34:.1f}" font-size="10.5" fill="#555e6d">'
            f"{escape(_cut(_does(part)))}</text>",
            "</g>",
        ]
    )
