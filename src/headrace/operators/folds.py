"""Windows that depend on the order of a key's records: by count, sliding with each record, sessions with a limit.

Plain Python over tuples that begin with a time in microseconds. Records come in the order of their times, and those of
one time in the order of their text, so the answer does not depend on how the input was cut into batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Row = tuple[Any, ...]
Closed = tuple[int, int, list[Row]]
"""The first and last moment of a window, and its records."""


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

    def over(self, held: list[Row], seen: int, ready: Iterable[Row]) -> Iterator[Closed]:
        """The windows that the next records close; `held` is changed to what is kept."""
        if self.kind == "count":
            return self._count(held, seen, ready)
        return self._sliding(held, ready) if self.kind == "sliding" else self._session(held, ready)

    def _count(self, held: list[Row], seen: int, ready: Iterable[Row]) -> Iterator[Closed]:
        for row in ready:
            seen += 1
            held.append(row)
            if len(held) > self.size:
                del held[0]
            if seen % self.step == 0:
                yield held[0][0], held[-1][0], list(held)
                if self.step == self.size:
                    held.clear()

    def _sliding(self, held: list[Row], ready: Iterable[Row]) -> Iterator[Closed]:
        rows = list(ready)
        for index, row in enumerate(rows):
            at = row[0]
            held.append(row)
            if index + 1 < len(rows) and rows[index + 1][0] == at:
                continue  # all records of one moment are in its window
            while held[0][0] <= at - self.size:
                del held[0]
            yield at - self.size, at, list(held)

    def _session(self, held: list[Row], ready: Iterable[Row]) -> Iterator[Closed]:
        for row in ready:
            if held and (row[0] > held[-1][0] + self.size or row[0] >= self._limit(held)):
                yield self._ended(held)
                held.clear()
            held.append(row)

    def _limit(self, held: list[Row]) -> float:
        return held[0][0] + self.most if self.most is not None else float("inf")

    def _ended(self, held: list[Row]) -> Closed:
        return held[0][0], int(min(held[-1][0] + self.size, self._limit(held))), list(held)

    def closing(self, held: list[Row], watermark: int) -> Iterator[Closed]:
        """The window that ends because time has passed, without another record."""
        if self.kind == "session" and held and self._ended(held)[1] <= watermark:
            yield self._ended(held)
            held.clear()

    def deadline(self, held: list[Row]) -> int | None:
        """When to look again even if no record comes."""
        return self._ended(held)[1] if self.kind == "session" and held else None


def in_order(rows: Iterable[Row]) -> list[Row]:
    """By time, then by content."""
    return sorted(rows, key=lambda row: (row[0], repr(row[1:])))
