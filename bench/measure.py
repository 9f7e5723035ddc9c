"""Many measurements in a few numbers: a median with its spread, the tail of a latency, a histogram. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

TAIL = (50.0, 95.0, 99.0, 99.9)
EDGES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0)
"""Upper ends, in milliseconds, of a histogram's classes: even steps on a scale of factors."""


def spread(values: Sequence[float], digits: int = 0) -> dict[str, Any]:
    """Median, ends and all of them.

    >>> spread([3, 1, 2])
    {'median': 2, 'least': 1, 'most': 3, 'all': [3, 1, 2]}
    """

    def neat(value: float) -> float:
        return round(value, digits) if digits else round(value)

    return {
        "median": neat(statistics.median(values)),
        "least": neat(min(values)),
        "most": neat(max(values)),
        "all": [neat(v) for v in values],
    }


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value that so many percent are not above; `ordered` goes up.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([1.0, 2.0, 3.0, 4.0], 99.9)
    (2.0, 4.0)
    """
    place = -(-len(ordered) * percent // 100)
    return ordered[max(0, min(len(ordered) - 1, int(place) - 1))]


def tail(milliseconds: Sequence[float]) -> dict[str, float]:
    """A latency as it is felt: the middle, the rare, the rarest, the worst."""
    ordered = sorted(milliseconds)
    return {f"p{p:g}": round(percentile(ordered, p), 2) for p in TAIL} | {"max": round(ordered[-1], 2)}


def histogram(milliseconds: Sequence[float]) -> list[int]:
    """How many are in each class of `EDGES`, and last how many above.

    >>> histogram([0.1, 0.5, 3.0, 99999.0])[:4], histogram([0.1, 99999.0])[-1]
    ([2, 0, 0, 1], 1)
    """
    counts = [0] * (len(EDGES) + 1)
    for value in milliseconds:
        counts[next((i for i, edge in enumerate(EDGES) if value <= edge), len(EDGES))] += 1
    return counts
