"""What the demo's table shows, worked out from the counts per second. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

BARS = "▁▂▃▄▅▆▇█"
SECONDS = 30
OPEN = timedelta(seconds=1)
"""The newest second is still being counted, so the one before it is the last that is told."""
RECENT = timedelta(seconds=5)


@dataclass(frozen=True, kw_only=True)
class Velocity:
    """How fast one tag goes: records per second, against the seconds before, and its last half minute."""

    tag: str
    rate: float
    before: float
    history: tuple[int, ...]

    @property
    def trend(self) -> str:
        """An arrow, and by how much the rate has changed."""
        change = self.rate - self.before
        if abs(change) < 0.15 * max(self.before, 0.4):
            return "→"
        return f"▲ +{change:.1f}" if change > 0 else f"▼ {change:.1f}"

    @property
    def line(self) -> str:
        """The history as a row of bars."""
        most = max(self.history) or 1
        return "".join(BARS[min(len(BARS) - 1, n * (len(BARS) - 1) // most)] if n else " " for n in self.history)


def velocities(counts: Iterable[tuple[datetime, str, int]], now: datetime, top: int) -> list[Velocity]:
    """The fastest tags as of the newest second, from (second, tag, count)."""
    by_tag: dict[str, dict[int, int]] = {}
    for second, tag, count in counts:
        age = round((now - second).total_seconds())
        if 0 <= age < SECONDS:
            by_tag.setdefault(tag, {})[age] = count
    recent = round(RECENT.total_seconds())
    found = [
        Velocity(
            tag=tag,
            rate=sum(ages.get(a, 0) for a in range(recent)) / recent,
            before=sum(ages.get(a, 0) for a in range(recent, 2 * recent)) / recent,
            history=tuple(ages.get(a, 0) for a in reversed(range(SECONDS))),
        )
        for tag, ages in by_tag.items()
    ]
    return sorted(found, key=lambda v: (-v.rate, -sum(v.history), v.tag))[:top]
