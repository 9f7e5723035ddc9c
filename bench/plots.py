"""Plots as SVG, written by hand: bars and lines are rectangles and paths. Pure: numbers in, text out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP = 720, 26, 210, 110, 34
_COLOURS = ("#1f6feb", "#8250df", "#bf8700", "#1a7f37", "#cf222e", "#57606a", "#0a3069", "#953800")
_STYLE = (
    "text{font:12px sans-serif;fill:#24292f}.t{font-weight:bold;font-size:13px}.a{fill:#57606a}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.a{fill:#8d96a0}}"
)


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f"<style>{_STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def bars(title: str, values: Mapping[str, tuple[float, float, float]], unit: str) -> str:
    """A bar for each name: median, and a line from the least to the most."""
    most = max((high for _, _, high in values.values()), default=1.0) or 1.0
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    parts = [f'<text class="t" x="8" y="20">{escape(title)}</text>']
    for number, (name, (median, low, high)) in enumerate(values.items()):
        y = _TOP + number * _ROW
        colour = _COLOURS[0] if number == 0 else "#8c959f"
        middle = y + 9
        parts += [
            f'<text x="{_LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{_LEFT}" y="{y}" width="{max(1.0, median * scale):.1f}" height="18" fill="{colour}"/>',
            f'<path d="M{_LEFT + low * scale:.1f} {middle}H{_LEFT + high * scale:.1f}" stroke="#cf222e" '
            'stroke-width="2"/>',
            f'<text x="{_LEFT + max(median, high) * scale + 6:.1f}" y="{y + 13}">{median:,.0f}{escape(unit)}</text>',
        ]
    return _svg(_WIDTH, _TOP + len(values) * _ROW + 10, parts)


def lines(
    title: str, series: Mapping[str, Sequence[tuple[float, float]]], across: str, up: str, *, even: bool = False
) -> str:
    """A line for each name, both axes in factors of ten; `even` is one across in even steps from nought, as time is."""
    points = [p for found in series.values() for p in found if p[0] > 0 and p[1] > 0]
    if not points:
        return _svg(_WIDTH, 60, [f'<text class="t" x="8" y="20">{escape(title)}: nothing was measured</text>'])
    (left, right), (low, high) = (_decades([p[i] for p in points]) for i in (0, 1))
    most = max(p[0] for p in points)
    box_left, box_top, box_right, box_bottom = 70, 34, _WIDTH - 190, 330

    def x(value: float) -> float:
        share = value / most if even else (math.log10(value) - left) / (right - left)
        return box_left + share * (box_right - box_left)

    def y(value: float) -> float:
        return box_bottom - (math.log10(value) - low) / (high - low) * (box_bottom - box_top)

    parts = [f'<text class="t" x="8" y="20">{escape(title)}</text>']
    ticks = {f"{most * k / 5:g}": most * k / 5 for k in range(6)} if even else None
    for shown, value in (ticks or {_short(power): 10.0**power for power in range(left, right + 1)}).items():
        at = x(value)
        parts.append(f'<path d="M{at:.1f} {box_top}V{box_bottom}" stroke="#8c959f" stroke-opacity="0.35"/>')
        parts.append(f'<text class="a" x="{at:.1f}" y="{box_bottom + 16}" text-anchor="middle">{shown}</text>')
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<path d="M{box_left} {at:.1f}H{box_right}" stroke="#8c959f" stroke-opacity="0.35"/>')
        parts.append(f'<text class="a" x="{box_left - 6}" y="{at + 4:.1f}" text-anchor="end">{_short(power)}</text>')
    for number, (name, found) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        drawn = [(x(a), y(b)) for a, b in sorted(found) if a > 0 and b > 0]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in drawn)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>' if path else "")
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in drawn]
        key = box_top + 8 + number * 18
        parts.append(f'<rect x="{box_right + 14}" y="{key - 9}" width="12" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{box_right + 32}" y="{key}">{escape(name)}</text>')
    parts.append(
        f'<text class="a" x="{(box_left + box_right) / 2:.0f}" y="{box_bottom + 34}" text-anchor="middle">'
        f"{escape(across)}</text>"
    )
    parts.append(f'<text class="a" x="8" y="{box_top - 2}">{escape(up)}</text>')
    return _svg(_WIDTH, box_bottom + 44, [part for part in parts if part])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around some values, at least one apart."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _short(power: int) -> str:
    """A power of ten as an axis shows it.

    >>> [_short(p) for p in (-1, 0, 3, 6)]
    ['0.1', '1', '1 k', '1 M']
    """
    if power < 0:
        return f"{10.0**power:g}"
    size, rest = divmod(power, 3)
    return f"{10**rest} {('', 'k', 'M', 'G')[size]}".strip()
