"""Windows over a key's records in order, on Spark: Python keeps records until the watermark has passed them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.operators.arrays import ROWS
from headrace.operators.folds import Fold, in_order

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row
    from pyspark.sql import types as s
    from pyspark.sql.streaming import StatefulProcessor

FROM, TO = "_headrace_from", "_headrace_to"
_AT, _ALL = "_headrace_at", "_headrace_all"


def windows_in_order(
    frame: DataFrame, fold: Fold, time: str, keys: Sequence[Column], values: Sequence[Column], *, streaming: bool
) -> DataFrame:
    """The keys, FROM and TO in microseconds, and the array ROWS with the values of the window's records."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as s

    keys = list(keys) or [F.lit(0).alias(_ALL)]
    given = frame.select(*keys, F.unix_micros(f"`{time}`").alias(_AT), *values, F.col(f"`{time}`"))
    named, row = given.columns[: len(keys)], given.columns[len(keys) : -1]
    record = s.StructType([given.schema[name] for name in row])
    closed = [s.StructField(FROM, s.LongType()), s.StructField(TO, s.LongType())]
    closed.append(s.StructField(ROWS, s.ArrayType(record)))
    if streaming:
        schema = s.StructType([*(given.schema[name] for name in named), *closed])
        return given.groupBy(*named).transformWithState(
            statefulProcessor=_processor(fold, len(named), record, schema),
            outputStructType=schema,
            outputMode="Append",
            timeMode="EventTime",
        )

    def whole(rows: list[Row]) -> list[tuple[int, int, list[Any]]]:
        held: list[Any] = []
        ready = in_order(tuple(r) for r in rows)
        return [*fold.over(held, 0, ready), *fold.closing(held, ready[-1][0] + (1 << 62))] if ready else []

    folded = F.udf(whole, s.ArrayType(s.StructType(closed)), useArrow=False)
    gathered = given.where(F.col(_AT).isNotNull()).groupBy(*named).agg(F.collect_list(F.struct(*row)).alias(ROWS))
    return gathered.select(*named, F.explode(folded(ROWS)).alias("w")).select(*named, "w.*")


def _processor(fold: Fold, keys: int, record: s.StructType, schema: s.StructType) -> StatefulProcessor:
    """The processor of one step; made inside a function because its base class is Spark's."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    names = record.names

    class InOrder(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._handle = handle
            self._waiting = handle.getListState("waiting", record)
            self._held = handle.getListState("held", record)
            self._seen = handle.getValueState("seen", "seen BIGINT")

        def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
            new = [tuple(row)[keys:-1] for row in rows]
            return self._advance(key, [r for r in new if r[0] is not None], timerValues)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
            return self._advance(key, [], timerValues)

        def _advance(self, key: Any, new: list[tuple[Any, ...]], timer_values: Any) -> Iterator[Row]:
            watermark = timer_values.getCurrentWatermarkInMs() * 1000
            waiting = [*(tuple(r) for r in self._waiting.get()), *new]
            ready = in_order(r for r in waiting if r[0] <= watermark)
            rest = [r for r in waiting if r[0] > watermark]
            held = [tuple(r) for r in self._held.get()]
            before = bool(held)
            kept = self._seen.get()
            seen = kept[0] if kept is not None else 0
            made = Row(*schema.names)
            inner = Row(*names)
            for closes in (fold.over(held, seen, ready), fold.closing(held, watermark)):
                for start, end, rows in closes:
                    yield made(*key, start, end, [inner(*r) for r in rows])
            _put(self._waiting, rest)
            if held or before:
                _put(self._held, held)
            if ready and fold.kind == "count":
                self._seen.update((seen + len(ready),))
            self._wake(rest, held)

        def _wake(self, rest: list[tuple[Any, ...]], held: list[tuple[Any, ...]]) -> None:
            times = [r[0] for r in rest]
            deadline = fold.deadline(held)
            if deadline is not None:
                times.append(deadline)
            if times:
                self._handle.registerTimer(-(-min(times) // 1000))

        def close(self) -> None:
            pass

    return InOrder()


def _put(state: Any, rows: Iterable[tuple[Any, ...]]) -> None:
    found = list(rows)
    if found:
        state.put(found)
    else:
        state.clear()
