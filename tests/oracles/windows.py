"""What windows over a stream should give, in plain Python: a batch at a time, with a watermark, one record at a time.

Times are whole microseconds. Slow and simple on purpose: it shares no code with what it judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

SECOND = 1_000_000


class Record(NamedTuple):
    """One record: its key, its time (or none) and a value."""

    key: Any
    at: int | None
    x: int | None = None


@dataclass(frozen=True, kw_only=True)
class Tumbling:
    length: int
    every: int | None = None
    """For windows that overlap."""

    def of(self, at: int) -> list[tuple[int, int]]:
        step = self.every or self.length
        last = at // step * step
        starts = range(last, at - self.length, -step)
        return [(start, start + self.length) for start in starts]


@dataclass(frozen=True, kw_only=True)
class Days:
    """Days somewhere, from midnight to midnight on the clocks there."""

    zone: str
    length: int = 1
    every: int = 1

    def of(self, at: int) -> list[tuple[int, int]]:
        there = datetime.fromtimestamp(at // SECOND, ZoneInfo(self.zone)).date()
        found = []
        for back in range(self.length):
            first = there - timedelta(days=back)
            if (first - date(1970, 1, 1)).days % self.every == 0:
                days = (first, first + timedelta(days=self.length))
                start, end = (datetime.combine(day, time(), ZoneInfo(self.zone)).timestamp() for day in days)
                found.append((round(start) * SECOND, round(end) * SECOND))
        return found


@dataclass(frozen=True, kw_only=True)
class Session:
    gap: int


@dataclass(frozen=True, kw_only=True)
class InOrder:
    """Windows over a key's records in the order of their times, those of one time in the order of their values."""

    count: int | None = None
    each: int | None = None
    sliding: int | None = None
    gap: int | None = None
    at_most: int | None = None
    partial: bool = False
    """Whether a window by count that is not full is given too."""

    def of(self, records: list[Record]) -> list[tuple[int, int, list[Record]]]:
        """All windows of one key's records, given that no more will come."""
        rows = [(r.at, r) for r in sorted(records, key=_turn) if r.at is not None]
        if self.count is not None:
            each = self.each or self.count
            ends = range(each, len(rows) + (each if self.partial else 1), each)
            chosen = [rows[max(0, end - self.count) : end] for end in ends]
            return [(part[0][0], part[-1][0], [r for _, r in part]) for part in chosen]
        if self.sliding is not None:
            times = sorted({at for at, _ in rows})
            return [(t - self.sliding, t, [r for at, r in rows if t - self.sliding < at <= t]) for t in times]
        assert self.gap is not None
        assert self.at_most is not None
        found: list[list[tuple[int, Record]]] = []
        for at, record in rows:
            if found and at <= found[-1][-1][0] + self.gap and at < found[-1][0][0] + self.at_most:
                found[-1].append((at, record))
            else:
                found.append([(at, record)])
        return [
            (part[0][0], min(part[-1][0] + self.gap, part[0][0] + self.at_most), [r for _, r in part]) for part in found
        ]


def _turn(record: Record) -> tuple[int, bool, int]:
    return record.at or 0, record.x is not None, record.x or 0


class Answer(NamedTuple):
    """One window of one key: how many records, the sum of their values and the largest."""

    key: Any
    start: int
    end: int
    n: int
    total: int | None
    most: int | None


@dataclass
class Outcome:
    answers: list[Answer] = field(default_factory=list)
    late: list[tuple[Record, int]] = field(default_factory=list)
    """Records that no window took, and the watermark they were behind."""


def answer(key: Any, start: int, end: int, records: Iterable[Record]) -> Answer:
    rows = list(records)
    values = [r.x for r in rows if r.x is not None]
    return Answer(key, start, end, len(rows), sum(values) if values else None, max(values, default=None))


def watermarks(batches: Sequence[Sequence[Record]], delay: int) -> list[int | None]:
    """For each batch, the time up to which windows are closed to it.

    A batch is planned with the watermark of all batches before it, and closes what has ended by then; so a record
    is late by the watermark that the batch before its own was planned with. Spark counts whole milliseconds.
    """
    marks: list[int | None] = []
    newest: int | None = None
    for batch in batches:
        marks.append(None if newest is None else max(0, (newest // 1000 * 1000) - delay))
        newest = max([t for t in (newest, *(r.at for r in batch)) if t is not None], default=None)
    return marks


def fixed(batches: Sequence[Sequence[Record]], window: Tumbling | Days, delay: int, allowance: int = 0) -> Outcome:
    """Windows of a fixed length: every record in all its windows that are still open to its batch."""
    marks = [None, *watermarks(batches, delay)]
    kept: dict[tuple[Any, int, int], list[Record]] = {}
    result = Outcome()
    for mark, batch in zip(marks, batches, strict=False):
        for record in batch:
            if record.at is None:
                continue
            open_ = [w for w in window.of(record.at) if mark is None or w[1] + allowance > mark]
            for start, end in open_:
                kept.setdefault((record.key, start, end), []).append(record)
            if not open_:
                assert mark is not None
                result.late.append((record, mark))
    result.answers = [answer(key, start, end, rows) for (key, start, end), rows in kept.items()]
    return result


def sessions(batches: Sequence[Sequence[Record]], window: Session, delay: int, allowance: int = 0) -> Outcome:
    """Sessions: records of a key join those they overlap with, among the sessions that are still open."""
    marks = watermarks(batches, delay)
    open_: dict[Any, list[list[Record]]] = {}
    result = Outcome()

    def bounds(rows: list[Record]) -> tuple[int, int]:
        times = [r.at for r in rows if r.at is not None]
        return min(times), max(times) + window.gap

    for number, batch in enumerate(batches):
        closed_to = marks[number - 1] if number else None
        for record in batch:
            if record.at is None:
                continue
            if closed_to is not None and record.at + window.gap + allowance <= closed_to:
                result.late.append((record, closed_to))
                continue
            open_.setdefault(record.key, []).append([record])
        for key, found in open_.items():
            merged: list[list[Record]] = []
            for rows in sorted(found, key=bounds):
                if merged and bounds(rows)[0] <= bounds(merged[-1])[1]:
                    merged[-1].extend(rows)
                else:
                    merged.append(list(rows))
            mark = marks[number]
            ended = [rows for rows in merged if mark is not None and bounds(rows)[1] + allowance <= mark]
            result.answers += [answer(key, *bounds(rows), rows) for rows in ended]
            open_[key] = [rows for rows in merged if rows not in ended]
    result.answers += [answer(key, *bounds(rows), rows) for key, found in open_.items() for rows in found]
    return result


def in_order(batches: Sequence[Sequence[Record]], window: InOrder, delay: int, allowance: int = 0) -> Outcome:
    """Windows over records in order: a record at or before the watermark is late, its turn being over."""
    marks = [None, *watermarks(batches, delay)]
    result = Outcome()
    kept: dict[Any, list[Record]] = {}
    for mark, batch in zip(marks, batches, strict=False):
        for record in batch:
            if record.at is None:
                continue
            if mark is not None and record.at + allowance <= mark:
                result.late.append((record, mark))
            else:
                kept.setdefault(record.key, []).append(record)
    result.answers = [answer(key, *w) for key, records in kept.items() for w in window.of(records)]
    return result
