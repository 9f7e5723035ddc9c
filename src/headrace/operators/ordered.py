"""Windows over a key's records in order, on Spark: Python keeps records until the watermark has passed them.

Keys share drawers. What waits is kept for the drawer as a whole, what a key's next window needs under the key. Both are
bytes to Spark, because it converts every value of a record one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.operators.arrays import FIRST, FROM, SIZE, TO
from headrace.operators.drawers import DRAWER, PACKED, drawer, namer, owning, pack, unpack
from headrace.operators.folds import Fold, Row, Stretch, in_order, pieces
from headrace.operators.lowering import Emitted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import types as s
    from pyspark.sql.streaming import StatefulProcessor

HELD = "held"
"""The state that holds, for each key, how many records it has had and those its next window needs."""
_AT, _ALL, _TIME, _RECORDS = "_headrace_at", "_headrace_all", "_headrace_time", "_headrace_records"

Waiting = tuple[Row, Row]
"""A key and one of its records."""
Mine = tuple[Row, list[Row]]
"""A key and records of it."""


def windows_in_order(
    frame: DataFrame, fold: Fold, time: str, keys: Sequence[Column], values: Sequence[Column], *, streaming: bool
) -> DataFrame:
    """The keys; FROM and TO in microseconds, FIRST (from 1) and SIZE as arrays; each value as an array of all records.

    A row holds several windows of one key: the n-th begins at FROM[n], and its values are SIZE[n] from FIRST[n] on.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as s

    keys = list(keys) or [F.lit(0).alias(_ALL)]
    given = frame.select(*keys, F.unix_micros(f"`{time}`").alias(_AT), *values, F.col(f"`{time}`").alias(_TIME))
    named, row = given.columns[: len(keys)], given.columns[len(keys) : -1]
    spans = [s.StructField(name, s.ArrayType(s.LongType())) for name in (FROM, TO)]
    spans += [s.StructField(name, s.ArrayType(s.IntegerType())) for name in (FIRST, SIZE)]
    columns = [s.StructField(name, s.ArrayType(given.schema[name].dataType)) for name in row[1:]]
    if streaming:
        key = s.StructType([s.StructField(name, given.schema[name].dataType) for name in named])
        return (
            given.select(drawer(named), "*")
            .groupBy(DRAWER)
            .transformWithState(
                statefulProcessor=_processor(fold, key, row[1:]),
                outputStructType=s.StructType([*key.fields, *spans, *columns]),
                outputMode="Append",
                timeMode="EventTime",
            )
        )

    def whole(records: list[Any]) -> list[tuple[Any, ...]]:
        rows = in_order(tuple(r) for r in records)
        turn = fold.over(rows, 0, 0, float("inf"))
        return [tuple(_lists(rows, *piece)) for piece in pieces(turn.closed)]

    folded = F.udf(whole, s.ArrayType(s.StructType([*spans, *columns])), useArrow=False)
    records = F.collect_list(F.struct(*row))
    gathered = given.where(F.col(_AT).isNotNull()).groupBy(*named).agg(records.alias(_RECORDS))
    return gathered.select(*named, F.inline(folded(_RECORDS)))


def _lists(rows: Sequence[Row], low: int, high: int, windows: Sequence[Stretch]) -> Iterator[list[Any]]:
    """FROM, TO, FIRST, SIZE and the values of some windows."""
    yield [w.start for w in windows]
    yield [w.end for w in windows]
    yield [w.first - low + 1 for w in windows]
    yield [w.size for w in windows]
    columns = [list(column) for column in zip(*rows[low:high], strict=True)]
    yield from columns[1:]


def _processor(fold: Fold, key: s.StructType, columns: list[str]) -> StatefulProcessor:
    """The processor of one step; made inside a function because its base class is Spark's."""
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    width = 1 + len(key.fields)
    name_of, owner_of = namer(key), owning(key)
    names = [*key.names, FROM, TO, FIRST, SIZE, *columns]

    class InOrder(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._handle = handle
            self._held = handle.getMapState(HELD, key, f"seen BIGINT, {PACKED} BINARY")
            self._waiting = _Packed(handle.getValueState("_waiting", "rows BINARY"))
            self._due = _Packed(handle.getValueState("_due", "keys BINARY"))

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            new = [(owner_of(row[1:width]), row[width:-1]) for row in rows if row[width] is not None]
            return self._advance(new, timerValues.getCurrentWatermarkInMs() * 1000)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
            return self._advance([], timerValues.getCurrentWatermarkInMs() * 1000)

        def _advance(self, new: list[Waiting], watermark: int) -> Iterator[Any]:
            before = self._waiting.get()
            ready, rest = _split([*before, *new], watermark, name_of)
            due: dict[Any, tuple[Row, int]] = {} if fold.kind == "count" else dict(self._due.get())
            for name, (owner, at) in due.items():
                if at <= watermark:
                    ready.setdefault(name, (owner, []))
            if not ready and not new:
                return  # a timer for what was done already
            deadlines = dict(due)
            for name, (owner, rows) in ready.items():
                yield from self._turn(owner, in_order(rows), watermark, name, deadlines)
            if rest or before:
                self._waiting.put(rest)
            if deadlines != due:
                self._due.put(list(deadlines.items()))
            self._wake(rest, deadlines)

        def _turn(
            self, owner: Row, new: list[Row], watermark: int, name: Any, deadlines: dict[Any, tuple[Row, int]]
        ) -> Iterator[Any]:
            found = self._held.getValue(owner)
            seen, held = (found[0], unpack(found[1])) if found is not None else (0, [])
            rows = [*held, *new]
            turn = fold.over(rows, len(held), seen, watermark)
            for piece in pieces(turn.closed):
                yield Emitted(zip(names, [*owner, *_lists(rows, *piece)], strict=True))
            kept, seen = rows[turn.kept :], (seen + len(new)) % fold.step if fold.kind == "count" else 0
            if kept or seen:
                self._held.updateValue(owner, (seen, pack(kept)))
            elif found is not None:
                self._held.removeKey(owner)
            at = fold.deadline(kept)
            if at is not None:
                deadlines[name] = (owner, at)
            else:
                deadlines.pop(name, None)

        def _wake(self, rest: list[Waiting], deadlines: dict[Any, tuple[Row, int]]) -> None:
            """A timer for the next time that there is something to do; Spark's is due once the watermark is greater."""
            times = [record[0] for _, record in rest] + [at for _, at in deadlines.values()]
            if times:
                self._handle.registerTimer(-(-min(times) // 1000) - 1)

        def close(self) -> None:
            pass

    return InOrder()


class _Packed:
    """A value state that holds a list, as bytes."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self) -> list[Any]:
        found = self._state.get()
        return [] if found is None else unpack(found[0])

    def put(self, rows: list[Any]) -> None:
        if rows:
            self._state.update((pack(rows),))
        else:
            self._state.clear()


def _split(
    records: Iterable[Waiting], watermark: int, name_of: Callable[[Row], Any]
) -> tuple[dict[Any, Mine], list[Waiting]]:
    """Those whose turn has come, by key, and the rest."""
    ready: dict[Any, Mine] = {}
    rest = []
    for record in records:
        owner, row = record
        if row[0] > watermark:
            rest.append(record)
            continue
        name = name_of(owner)
        mine = ready.get(name)
        if mine is None:
            ready[name] = (owner, [row])
        else:
            mine[1].append(row)
    return ready, rest
