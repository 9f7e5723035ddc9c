"""Tables and plots in the terminal and in Markdown. Pure: text in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.measure import EDGES

WIDTH = 40


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, the first to the left, the others to the right.

    >>> print(table(["a", "b"], [["x", "1,000"]]))
    a      b
    x  1,000
    """
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]

    def line(row: Sequence[str]) -> str:
        cells = [cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        return "  ".join(cells).rstrip()

    return "\n".join(line(row) for row in [heads, *rows])


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as Markdown.

    >>> print(markdown(["a", "b"], [["x", "1"]]))
    | a | b |
    | --- | ---: |
    | x | 1 |
    """
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, rule, *rows])


def bars(values: Mapping[str, float], unit: str = "") -> str:
    """A bar for each, to the length of the largest.

    >>> print(bars({"a": 2, "b": 1}).splitlines()[1].count("█"))
    20
    """
    most = max(values.values(), default=1) or 1
    names = max(map(len, values), default=0)
    return "\n".join(
        f"{name:{names}} {'█' * max(1, round(WIDTH * value / most))} {value:,.0f}{unit}"
        for name, value in values.items()
    )


def histogram(counts: Sequence[int]) -> str:
    """Classes with anything in them, each with its share."""
    total = sum(counts) or 1
    most = max(counts, default=0) or 1
    lines = []
    for number, count in enumerate(counts):
        if count:
            bound = f"<= {EDGES[number]:g}" if number < len(EDGES) else f"> {EDGES[-1]:g}"
            share = f"{100 * count / total:.2f} %"
            lines.append(f"{bound:>9} ms {'█' * max(1, round(WIDTH * count / most))} {share}")
    return "\n".join(lines)
