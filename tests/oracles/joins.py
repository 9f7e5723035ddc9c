"""What joins and deduplication must answer, in plain Python, and random streams to ask them about.

Records are dicts with `ex` (which example they belong to), `k` (the key, sometimes null), `id` and `at` (a time,
sometimes null). Many examples share one run; since they share its watermark too, which records are late is worked
out over all of them together.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

Record = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def stream(
    seed: int, *, examples: int, batches: int, late: timedelta, keys: str = "ab"
) -> tuple[tuple[Record, ...], ...]:
    """Batches of records of many examples: out of order by up to `late`, with ties, repeats, nulls and gaps."""
    draw = random.Random(seed)
    made: list[Record] = []
    for example in range(examples):
        for _ in range(draw.choice([0, 1, 2, 4, 8, 12])):
            second = draw.choice([draw.randrange(0, 420), draw.randrange(0, 420, 60)])
            fine = draw.choice([0, 0, 0, 1, 999_999])
            at = None if draw.random() < 0.03 else START + timedelta(seconds=second, microseconds=fine)
            key = None if draw.random() < 0.1 else draw.choice(keys)
            made.append({"ex": example, "k": key, "at": at})
    made += [dict(draw.choice(made)) for _ in range(len(made) // 10)]
    seconds = late.total_seconds()
    made.sort(key=lambda r: ((r["at"] or START) - START).total_seconds() + draw.uniform(0, seconds))
    for number, record in enumerate(made):
        record["id"] = number
    part = len(made) // batches
    cuts = [part * (i + 1) + draw.randrange(-part // 2, part // 2) for i in range(batches - 1)]
    return tuple(tuple(made[a:b]) for a, b in zip([0, *cuts], [*cuts, len(made)], strict=True))


def micros(at: datetime) -> int:
    """A time as Spark counts it."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def watermarks(sources: Sequence[tuple[Sequence[Sequence[Record]], timedelta]]) -> list[int]:
    """The watermark, in milliseconds, that each batch runs under: the least of the sources', never falling."""
    found, newest = [0], [0 for _ in sources]
    for number in range(len(sources[0][0])):
        for index, (batches, delay) in enumerate(sources):
            times = [micros(r["at"]) // 1000 - delay // timedelta(milliseconds=1) for r in batches[number] if r["at"]]
            newest[index] = max([newest[index], *times])
        found.append(max(found[-1], min(newest)))
    return found


def in_time(batches: Sequence[Sequence[Record]], marks: Sequence[int]) -> list[list[Record]]:
    """The batches without records that have no time or are late: not after the watermark of the batch before theirs."""
    return [
        [r for r in batch if r["at"] is not None and micros(r["at"]) > _late(marks, number) * 1000]
        for number, batch in enumerate(batches)
    ]


def _late(marks: Sequence[int], batch: int) -> int:
    return marks[min(max(0, batch - 1), len(marks) - 1)]


def flat(batches: Sequence[Sequence[Record]]) -> list[Record]:
    return [record for batch in batches for record in batch]


def joined(
    left: Sequence[Record], right: Sequence[Record], kind: str, before: timedelta, after: timedelta
) -> Iterator[tuple[Record | None, Record | None]]:
    """Every pair with equal, known keys whose times are near, and the records without a partner that `kind` keeps."""
    by_key: dict[Any, list[tuple[int, Record]]] = {}
    for number, record in enumerate(right):
        by_key.setdefault((record["ex"], record["k"]), []).append((number, record))
    met: set[int] = set()
    for mine in left:
        near = [
            (number, other)
            for number, other in (by_key.get((mine["ex"], mine["k"]), []) if mine["k"] is not None else [])
            if mine["at"] - before <= other["at"] <= mine["at"] + after
        ]
        met |= {number for number, _ in near}
        yield from ((mine, other) for _, other in near)
        if not near and kind in ("left", "full"):
            yield mine, None
    if kind in ("right", "full"):
        yield from ((None, other) for number, other in enumerate(right) if number not in met)


def deduplicated(batches: Sequence[Sequence[Record]], marks: Sequence[int], within: timedelta) -> Iterator[Record]:
    """The records a stream lets through: a key is held until a batch's watermark has passed its bound.

    That, and so the answer for keys that return behind the bound, depends on how the input is cut into batches; what is
    promised of any cut is said by the test.
    """
    held: dict[Any, int] = {}
    for number, batch in enumerate(in_time(batches, marks)):
        for record in batch:
            key = (record["ex"], record["k"])
            if key not in held:
                held[key] = micros(record["at"] + within) // 1000
                yield record
        held = {key: ends for key, ends in held.items() if ends > marks[number]}


def deduplicated_over_all(records: Sequence[Record], within: timedelta) -> Iterator[Record]:
    """The same over everything, by time: a repeat is dropped up to `within` after the record let through last."""
    held: dict[Any, datetime] = {}
    for record in sorted((r for r in records if r["at"] is not None), key=lambda r: (r["at"], f"{r['id']},")):
        key = (record["ex"], record["k"])
        if key not in held or record["at"] > held[key] + within:
            held[key] = record["at"]
            yield record


def as_of(left: Sequence[Record], right: Sequence[Record], tolerance: timedelta | None) -> Iterator[tuple[Record, Any]]:
    """Each record with the last one of the other side at or before it; of equal times, the greatest text."""
    for mine in left:
        earlier = [
            r
            for r in right
            if r["ex"] == mine["ex"]
            and r["k"] is not None
            and r["k"] == mine["k"]
            and r["at"] <= mine["at"]
            and (tolerance is None or mine["at"] - r["at"] <= tolerance)
        ]
        # Spark's JSON of two records differs first in the id, which is followed by a comma.
        yield mine, max(earlier, key=lambda r: (r["at"], f"{r['id']},"), default=None)
