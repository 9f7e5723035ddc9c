"""Windows that depend on the order of a key's records: by count, sliding with each record, sessions with a limit.

Plain Python over times in microseconds; what else a record holds does not matter here. Records come in the order of
their times, and those of one time in the order of their text, so the answer does not depend on how the input was cut
into batches. A window is a stretch of a list of records, not a copy of them: windows that overlap share what they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal, NamedTuple

Row = tuple[Any, ...]
_AT = itemgetter(0)


class Stretch(NamedTuple):
    """A window: its first and last moment, where its records begin in the list, and how many they are."""

    start: int
    end: int
    first: int
    size: int


class Turn(NamedTuple):
    """What became of a key's records: the windows that are closed, and from where on records are still needed."""

    closed: list[Stretch]
    kept: int


@dataclass(frozen=True, kw_only=True)
class Fold:
    """How windows are made of records in order; a value that travels to the workers."""

    kind: Literal["count", "sliding", "session"]
    size: int
    """How many records, or how many microseconds: the length, or the pause that ends a session."""
    step: int = 0
    """After how many records a window is given."""
    most: int | None = None
    """How long a session may be."""

    def over(self, times: Sequence[int], old: int, seen: int, until: float) -> Turn:
        """What the next records close, by the times of those kept before (`old` of them) and then of the next ones.

        `seen` is how many a key has had in all before these, `until` the time up to which nothing else can come.
        """
        if self.kind == "count":
            return self._count(times, old, seen)
        return self._sliding(times, old, until) if self.kind == "sliding" else self._session(times, old, until)

    def _count(self, times: Sequence[int], old: int, seen: int) -> Turn:
        closed = []
        last = 0
        for end in range(old + self.step - seen % self.step, len(times) + 1, self.step):
            first = max(0, end - self.size)
            closed.append(Stretch(times[first], times[end - 1], first, end - first))
            last = end
        return Turn(closed, last if self.step == self.size else max(0, len(times) - self.size + 1))

    def _sliding(self, times: Sequence[int], old: int, until: float) -> Turn:
        closed = []
        first, last = 0, len(times) - 1
        for index in range(old, len(times)):
            at = times[index]
            if index < last and times[index + 1] == at:
                continue  # all records of one moment are in its window
            begins = at - self.size
            while times[first] <= begins:
                first += 1
            closed.append(Stretch(begins, at, first, index + 1 - first))
        while first <= last and times[first] + self.size <= until:
            first += 1
        return Turn(closed, first)

    def _session(self, times: Sequence[int], old: int, until: float) -> Turn:
        closed = []
        first = 0
        for index in range(max(old, 1), len(times)):
            at = times[index]
            if at > times[index - 1] + self.size or at >= times[first] + self._most:
                closed.append(self._ended(times, first, index))
                first = index
        if first < len(times) and (last := self._ended(times, first, len(times))).end <= until:
            closed.append(last)
            first = len(times)
        return Turn(closed, first)

    @property
    def _most(self) -> float:
        return float("inf") if self.most is None else self.most

    def _ended(self, times: Sequence[int], first: int, end: int) -> Stretch:
        over = int(min(times[end - 1] + self.size, times[first] + self._most))
        return Stretch(times[first], over, first, end - first)

    def deadline(self, kept: Sequence[int]) -> int | None:
        """When to look again at what is kept, even if no record comes; None: it stays until one does."""
        if not kept or self.kind == "count":
            return None
        return kept[-1] + self.size if self.kind == "sliding" else self._ended(kept, 0, len(kept)).end


def in_order(rows: Iterable[Row]) -> list[Row]:
    """By time, then by content."""
    found = sorted(rows, key=_AT)
    times = [row[0] for row in found]
    if len(set(times)) == len(times):  # the text of a record is dear, and most often not needed
        return found
    return sorted(found, key=lambda row: (row[0], repr(row[1:])))


def pieces(closed: Sequence[Stretch], most: int = 256) -> Iterator[tuple[int, int, Sequence[Stretch]]]:
    """The windows a few at a time, each time with the piece of the list they lie in."""
    for at in range(0, len(closed), most):
        some = closed[at : at + most]
        yield some[0].first, some[-1].first + some[-1].size, some  # a later window neither begins nor ends before it
