"""The tables and plots of docs/performance.md, from bench/results: `python -m bench report`; no number by hand.

What stands between `<!-- bench NAME -->` and `<!-- end -->` is written anew; plots go to docs/plots.
"""

from __future__ import annotations

import math
import re
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import machine, plots, results, show
from bench.measure import EDGES

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "performance.md"
PLOTS = DOCS / "plots"
_MARKED = re.compile(r"(<!-- bench (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_NONE = "-"
Table = tuple[list[str], list[list[str]]]
Draw = Callable[[str, str], None]
"""Keeps a plot under a name."""


def throughput(found: dict[str, Any]) -> Table:
    """The table of W1 or W2."""
    heads = ["system", "cold, events/s", "least to most", "warm, events/s", "least to most", "from launch, s"]
    rows = []
    for one in _ranked(found["systems"]):
        rates = [*_rate(one, "cold"), *_rate(one, "warm")]
        rows.append([one["label"], *rates, _launch(one), _memory(one), one["guarantee"]])
        if "cold" not in one:
            rows[-1][1] = _failed(one)
    return [*heads, "peak memory, GB", "guarantee"], rows


def _ranked(systems: dict[str, Any]) -> list[dict[str, Any]]:
    """Quickest first; those without a number last."""
    return sorted(systems.values(), key=lambda one: -one.get("cold", {}).get("median", 0))


def _rate(one: dict[str, Any], kind: str) -> list[str]:
    if kind not in one:
        return [_NONE, _NONE]
    return [f"{one[kind]['median']:,}", f"{one[kind]['least']:,} to {one[kind]['most']:,}"]


def _launch(one: dict[str, Any]) -> str:
    return f"{one['from_launch']['median']:g}" if "from_launch" in one else _NONE


def _memory(one: dict[str, Any]) -> str:
    return f"{sum(one['memory'].values()) / 1e9:.2f}" if "memory" in one else _NONE


def _failed(one: dict[str, Any]) -> str:
    """Why a system has no number, short enough for a table."""
    text = " ".join(str(next(iter(one.get("failed", ["not measured"])))).split())
    return f"none: {text if len(text) <= 80 else '…' + text[-78:]}"


def ratios(found: dict[str, Any]) -> str:
    """What ours is, of each of the others: cold and warm."""
    ours = found["systems"].get("headrace", {})
    lines = []
    for name, one in found["systems"].items():
        parts = [
            f"{ours[kind]['median'] / one[kind]['median']:.2f} {kind}"
            for kind in ("cold", "warm")
            if kind in ours and kind in one
        ]
        if name != "headrace" and parts:
            lines.append(f"{one['label']}: {', '.join(parts)}")
    return "Headrace's rate, of that of " + "; ".join(lines) + "." if lines else ""


def throughput_text(found: dict[str, Any]) -> str:
    """The table and bars for a terminal."""
    cold = {one["label"]: one["cold"]["median"] for one in _ranked(found["systems"]) if "cold" in one}
    return f"{show.table(*throughput(found))}\n\n{show.bars(cold)}\n\n{ratios(found)}\n{machine.show(found['machine'])}"


def _throughput_part(found: dict[str, Any], draw: Draw) -> str:
    values = {
        one["label"]: (one["cold"]["median"], one["cold"]["least"], one["cold"]["most"])
        for one in _ranked(found["systems"])
        if "cold" in one
    }
    name = found["work"]
    draw(name, plots.bars(f"{name.upper()}, events a second, cold", values, ""))
    shown = [show.markdown(*throughput(found)), f"![{name}](plots/{name}.svg)", ratios(found), _source(found)]
    return "\n\n".join(part for part in shown if part)


def _source(found: dict[str, Any]) -> str:
    """The command, the day, the arguments and the machine."""
    told = {
        k: found[k]
        for k in ("events", "rounds", "seconds", "minutes", "rate", "crossed", "goal", "also")
        if found.get(k)
    }
    shown = "".join(f", {v:,} {k}" if isinstance(v, int) else f", {k} {v}" for k, v in told.items())
    unfinished = "" if found.get("whole", True) else " **This run was cut short.**"
    return f"`{found['command']}`, {found['at']}{shown}; {_on(found)}{_stolen(found)}.{unfinished}\n"


def _stolen(found: Any) -> str:
    """What other machines took of this one's processors during the runs: no number says more of how it was disturbed.

    >>> _stolen({"runs": [{"stolen": 0.4}, {"at": {"1": {"stolen": 12.0}}}]})
    ', of whose processors others took 0.4 to 12.0 %'
    """
    said = sorted(_all(found, "stolen"))
    return f", of whose processors others took {said[0]:.1f} to {said[-1]:.1f} %" if said else ""


def _all(found: Any, name: str) -> Iterator[float]:
    """Every value of this name, however deep."""
    parts = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    if isinstance(found, dict) and name in found:
        yield found[name]
    for part in parts:
        yield from _all(part, name)


def _on(found: dict[str, Any]) -> str:
    given = found["machine"]
    return machine.show(given) if isinstance(given, dict) and "memory_gb" in given else str(given)


TAIL = ("p50", "p95", "p99", "p99.9", "max")


def _note(one: dict[str, Any]) -> str:
    return _failed({"failed": [one["failed"]]}) if "failed" in one else ""


def _tail(one: dict[str, Any]) -> list[str]:
    """The tail of a latency, with the least and the most where there were several rounds."""
    if "latency" not in one:
        return [_NONE] * len(TAIL)
    around = {p: f" ({low:,.1f} to {high:,.1f})" for p, (low, high) in one.get("spread", {}).items()}
    return [f"{one['latency'][p]:,.1f}{around.get(p, '')}" for p in TAIL]


def latency(done: dict[str, Any]) -> Table:
    """The table of W3 for one work at one rate."""
    rows = []
    for one in sorted(done.values(), key=lambda one: one.get("latency", {}).get("p99", float("inf"))):
        shown = _tail(one)
        first = f"{one['first_result']:.1f}" if "first_result" in one else _NONE
        crossed = str(one.get("checkpoints", _NONE))
        rows.append([one["label"], *shown, crossed, first, _memory(one), one.get("guarantee", _NONE), _note(one)])
    more = ["checkpoints", "first result after, s", "peak memory, GB", "guarantee", ""]
    return ["system", *(f"{p}, ms" for p in TAIL), *more], rows


def latency_text(found: dict[str, Any]) -> str:
    """Tables and histograms for a terminal."""
    parts = []
    for name, done in found["runs"].items():
        parts.append(f"{name} events/s\n{show.table(*latency(done))}")
        parts += [f"{one['label']}\n{show.histogram(one['histogram'])}" for one in done.values() if "histogram" in one]
    return "\n\n".join([*parts, machine.show(found["machine"])])


def _latency_part(found: dict[str, Any], draw: Draw) -> str:
    parts = []
    for name, done in found["runs"].items():
        work, _, rate = name.partition(" ")
        series = {one["label"]: _cumulated(one["histogram"]) for one in done.values() if "histogram" in one}
        title = f"{work}, {int(rate):,} events/s: share of events that took longer, in percent"
        plot = plots.lines(title, series, "milliseconds", "percent")
        draw(f"w3-{work}-{rate}", plot)
        shown = [f"**{work}, {int(rate):,} events/s**", "", show.markdown(*latency(done)), ""]
        parts.append("\n".join([*shown, f"![{name}](plots/w3-{work}-{rate}.svg)", ""]))
    return "\n".join([*parts, _source(found)])


def _cumulated(counts: Sequence[int]) -> list[tuple[float, float]]:
    """For each end of a histogram's classes, the percentage above it."""
    total, above = sum(counts), sum(counts)
    points = []
    for edge, count in zip(EDGES, counts):
        above -= count
        points.append((edge, 100 * above / total))
    return points


def _settings(found: dict[str, Any], head: str, said: str) -> Table:
    """The table of latency against a setting."""
    rows = [
        [f"{work}, {said.format(one['label'])}", *_tail(one), str(one.get("checkpoints", _NONE)), _note(one)]
        for work, done in found["runs"].items()
        for one in done.values()
    ]
    return [head, *(f"{p}, ms" for p in TAIL), "checkpoints crossed", ""], rows


def _settings_text(found: dict[str, Any], table: Table) -> str:
    parts = [
        f"{work}, {one['label']}\n{show.histogram(one['histogram'])}"
        for work, done in found["runs"].items()
        for one in done.values()
        if "histogram" in one
    ]
    return "\n\n".join([show.table(*table), *parts, machine.show(found["machine"])])


def _settings_part(found: dict[str, Any], table: Table, name: str, draw: Draw) -> str:
    shown = [show.markdown(*table), ""]
    for work, done in found["runs"].items():
        series = {one["label"]: _cumulated(one["histogram"]) for one in done.values() if "histogram" in one}
        title = f"{work}: share of events that took longer, in percent"
        draw(f"{name}-{work}", plots.lines(title, series, "milliseconds", "percent"))
        shown += [f"![{work}](plots/{name}-{work}.svg)", ""]
    return "\n".join([*shown, _source(found)])


def pauses(found: dict[str, Any]) -> Table:
    """The table of latency against the interval between checkpoints."""
    return _settings(found, "work, checkpoint", "every {}")


def pauses_text(found: dict[str, Any]) -> str:
    """The table and histograms for a terminal."""
    return _settings_text(found, pauses(found))


def _pauses_part(found: dict[str, Any], draw: Draw) -> str:
    return _settings_part(found, pauses(found), "pauses", draw)


def slots(found: dict[str, Any]) -> Table:
    """The table of latency against slots."""
    heads, rows = _settings(found, "work, slots", "{} slots")
    late = [_late(one) for done in found["runs"].values() for one in done.values()]
    return [*heads[:-1], "backlog", ""], [[*row[:-1], said, row[-1]] for row, said in zip(rows, late, strict=True)]


def slots_text(found: dict[str, Any]) -> str:
    """The table and histograms for a terminal."""
    return _settings_text(found, slots(found))


def _slots_part(found: dict[str, Any], draw: Draw) -> str:
    return _settings_part(found, slots(found), "slots", draw)


def _late(one: dict[str, Any]) -> str:
    """In how many seconds there was a backlog."""
    if "backlog" not in one:
        return _NONE
    return f"in {len(one['backlog'])} s" if one["backlog"] else "never"


def soak(found: dict[str, Any]) -> Table:
    """The table of a long run: the whole of it."""
    rows = []
    for work, one in found["runs"].items():
        crossed = str(one.get("checkpoints", _NONE))
        name = f"{work}, {found['minutes']:g} minutes"
        rows.append([name, *_tail(one), crossed, _late(one), _memory(one), _note(one)])
    heads = ["work", *(f"{p}, ms" for p in TAIL), "checkpoints crossed", "backlog", "peak memory, GB", ""]
    return heads, rows


def soak_text(found: dict[str, Any]) -> str:
    """The table, and that of the minutes, for a terminal."""
    parts = [show.table(*soak(found))]
    for one in found["runs"].values():
        heads = ["minute", *(f"{p}, ms" for p in TAIL)]
        rows = [[str(m["minute"]), *(f"{m[p]:,.1f}" for p in TAIL)] for m in one.get("minutes", ())]
        parts.append(show.table(heads, rows))
        if one.get("backlog"):
            parts.append(f"backlog in the seconds {', '.join(map(str, one['backlog']))}")
    return "\n\n".join([*parts, machine.show(found["machine"])])


def _soak_part(found: dict[str, Any], draw: Draw) -> str:
    shown = [show.markdown(*soak(found)), ""]
    for work, one in found["runs"].items():
        given = one.get("minutes", ())
        series = {p: [(float(m["minute"]), m[p]) for m in given] for p in ("p50", "p99", "max")}
        title = f"{work}, {found['rate']:,} events/s: latency of each minute"
        draw(f"soak-{work}", plots.lines(title, series, "minute", "ms", even=True))
        shown += [f"![{work}](plots/soak-{work}.svg)", ""]
    return "\n".join([*shown, _source(found)])


def load(found: dict[str, Any]) -> Table:
    """The table of latency against load."""
    rows = []
    for work, systems in found["runs"].items():
        for one in systems.values():
            for step in one["steps"]:
                tail = step.get("latency", {})
                shown = [f"{tail[p]:,.1f}" if p in tail else _NONE for p in ("p50", "p95", "p99", "max")]
                note = _failed({"failed": [step["verdict"]]}) if step["verdict"] else ""
                rate = f"{step['asked']:,}" if "asked" in step else _NONE
                rows.append([f"{work}: {one['label']}", rate, *shown, _memory(one), note])
    return ["work and system", "events/s", "p50, ms", "p95, ms", "p99, ms", "max, ms", "peak memory, GB", ""], rows


def load_text(found: dict[str, Any]) -> str:
    """The table for a terminal."""
    return f"{show.table(*load(found))}\n\n{machine.show(found['machine'])}"


def _load_part(found: dict[str, Any], draw: Draw) -> str:
    shown = [show.markdown(*load(found)), ""]
    for work, systems in found["runs"].items():
        series = {
            one["label"]: [(s["asked"], s["latency"]["p99"]) for s in one["steps"] if "latency" in s]
            for one in systems.values()
        }
        draw(f"load-{work}", plots.lines(f"{work}: 99th percentile against load", series, "events/s", "ms"))
        shown += [f"![{work}](plots/load-{work}.svg)", ""]
    return "\n".join([*shown, _source(found)])


def scale(found: dict[str, Any], kind: str) -> Table:
    """The table over cores or over keys."""
    given = found["runs"].get(kind, {})
    sizes = sorted({int(size) for one in given.values() for size in one["at"]})
    rows = []
    for one in given.values():
        cells, medians = [], []
        for size in sizes:
            good = [run for run in one["at"].get(str(size), ()) if "failed" not in run]
            rates = [run["rate"] if "rate" in run else run["rates"][0] for run in good]
            memory = max((sum(run["memory"].values()) for run in good), default=0)
            medians.append(statistics.median(rates) if rates else math.nan)
            cells.append(f"{medians[-1]:,.0f} ({memory / 1e9:.2f})" if rates else "none")
        grown = medians[-1] / medians[0]
        rows.append([one["label"], *cells, _NONE if math.isnan(grown) else f"{grown:.2f}"])
    return ["events/s (peak memory, GB)", *(f"{kind}: {size:,}" for size in sizes), "last of first"], rows


def scale_text(found: dict[str, Any]) -> str:
    """The tables for a terminal."""
    parts = [show.table(*scale(found, kind)) for kind in found["runs"]]
    return "\n\n".join([*parts, machine.show(found["machine"])])


def _scale_part(found: dict[str, Any], draw: Draw) -> str:
    shown = [f"{show.markdown(*scale(found, kind))}\n" for kind in found["runs"]]
    given = found["runs"].get("keys", {})
    series = {
        one["label"]: [
            (float(size), float(run["rate"])) for size, runs in one["at"].items() for run in runs[:1] if "rate" in run
        ]
        for one in given.values()
    }
    if any(series.values()):
        draw("scale-keys", plots.lines("events/s against keys", series, "keys", "events/s"))
        shown.append("![keys](plots/scale-keys.svg)\n")
    return "\n".join([*shown, _source(found)])


def _split(forms: dict[str, Any]) -> Table:
    """The table of a time cut into stages, in each form."""
    rows = [
        [
            stage,
            *(f"{f[stage]['median']:.2f} ({f[stage]['least']:.2f} to {f[stage]['most']:.2f})" for f in forms.values()),
        ]
        for stage in next(iter(forms.values()))
    ]
    return ["stage", *(f"{name}, s" for name in forms)], rows


def start(found: dict[str, Any]) -> Table:
    """The table of a start."""
    return _split(found["split"])


def start_text(found: dict[str, Any]) -> str:
    """The table and bars for a terminal."""
    ours = next(iter(found["split"].values()))
    bars = show.bars({stage: 1000 * one["median"] for stage, one in ours.items()}, " ms")
    return f"{show.table(*start(found))}\n\n{bars}\n\n{machine.show(found['machine'])}"


def _start_part(found: dict[str, Any], _: Draw) -> str:
    return f"{show.markdown(*start(found))}\n\n{_source(found)}"


def _recovery_part(found: dict[str, Any], _: Draw) -> str:
    return f"{show.markdown(*_split(found['kinds']))}\n\n{_source(found)}"


def rules(found: dict[str, Any]) -> Table:
    """The table of what each rule gives."""
    rows = []
    for work, done in found["runs"].items():
        for name, one in done.items():
            with_, without = one["with"]["median"], one["without"]["median"]
            rows.append(
                [f"{name}: {one['what']}", work.upper(), f"{with_:,}", f"{without:,}", f"{with_ / without:.2f}"]
            )
    return ["rule", "work", "with, events/s", "without", "gives"], rows


def rules_text(found: dict[str, Any]) -> str:
    """The table for a terminal."""
    return f"{show.table(*rules(found))}\n\n{machine.show(found['machine'])}"


def _rules_part(found: dict[str, Any], _: Draw) -> str:
    return f"{show.markdown(*rules(found))}\n\n{_source(found)}"


PARTS: dict[str, Callable[[dict[str, Any], Draw], str]] = {
    "w1": _throughput_part,
    "w2": _throughput_part,
    "w3": _latency_part,
    "pauses": _pauses_part,
    "soak": _soak_part,
    "slots": _slots_part,
    "load": _load_part,
    "scale": _scale_part,
    "start": _start_part,
    "recovery": _recovery_part,
    "rules": _rules_part,
}
"""Each result and how it is shown."""


def page(text: str, draw: Draw) -> str:
    """The page with what stands between its marks made anew."""

    def fill(mark: re.Match[str]) -> str:
        found = results.kept(mark[2])
        body = PARTS[mark[2]](found, draw) if found else f"Not measured yet: `make bench-{mark[2]}`.\n"
        return f"{mark[1]}{body}{mark[4]}"

    return _MARKED.sub(fill, text)


def _keep(name: str, plot: str) -> None:
    PLOTS.mkdir(exist_ok=True)
    (PLOTS / f"{name}.svg").write_text(plot, encoding="utf-8")


def write() -> None:
    """Writes the page and its plots."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), _keep), encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    """Writes the page and its plots, or with `--print` prints it and writes nothing."""
    if "--print" in arguments:
        sys.stdout.write(page(PAGE.read_text(encoding="utf-8"), lambda name, plot: None))
    else:
        write()
