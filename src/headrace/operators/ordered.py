"""Windows over a key's records in order, on Spark: Python keeps records until the watermark has passed them.

Keys share drawers. What waits is kept for the drawer as a whole, what a key's next window needs under the key. Both are
Arrow data, bytes to Spark, and so are the records that come and the windows that go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.operators.arrays import FIRST, FROM, SIZE, TO
from headrace.operators.drawers import DRAWER, LIKE, PACKED, Owner, drawer, pack, unpack
from headrace.operators.folds import Fold, Row, Stretch, in_order, pieces
from headrace.operators.lowering import Emitted
from headrace.operators.marks import noted
from headrace.operators.parcels import LAST, PARCEL, arrow_of, joined, read, received, sent, written
from headrace.operators.sorting import Keys, Windows, by_key, chosen, ordered

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import types as s
    from pyspark.sql.streaming import StatefulProcessor

    from headrace.operators.late import Aside

HELD = "held"
"""The state that holds, for each key, how many records it has had and those its next window needs."""
_AT, _ALL, _RECORDS = "_headrace_at", "_headrace_all", "_headrace_records"

Deadlines = dict[Any, tuple[Owner, int]]
"""By what tells keys apart: a key, and when to look at it again."""


def windows_in_order(
    frame: DataFrame,
    fold: Fold,
    time: str,
    keys: Sequence[Column],
    values: Sequence[Column],
    *,
    streaming: bool,
    aside: Aside | None = None,
) -> DataFrame:
    """The keys; FROM and TO in microseconds, FIRST (from 1) and SIZE as arrays; each value as an array of all records.

    A row holds several windows of one key: the n-th begins at FROM[n], and its values are SIZE[n] from FIRST[n] on.
    A stream learns from `aside` which records may be late.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as s

    keys = list(keys) or [F.lit(0).alias(_ALL)]
    given = frame.select(*keys, F.unix_micros(f"`{time}`").alias(_AT), *values).where(F.col(_AT).isNotNull())
    named, row = given.columns[: len(keys)], given.columns[len(keys) :]
    spans = [s.StructField(name, s.ArrayType(s.LongType())) for name in (FROM, TO)]
    spans += [s.StructField(name, s.ArrayType(s.IntegerType())) for name in (FIRST, SIZE)]
    columns = [s.StructField(name, s.ArrayType(given.schema[name].dataType)) for name in row[1:]]
    if streaming:
        fields = given.schema.fields
        key, records = s.StructType(fields[: len(keys)]), s.StructType(fields[len(keys) :])
        windows = s.StructType([*key.fields, *spans, *columns])
        parcels = sent(given.select(drawer(named), "*"), _AT, aside)
        # Spark compares its watermark with the number behind a time, which this is.
        marked = parcels.select(DRAWER, noted(F.col(LAST), LAST, frame.schema[time].metadata), PARCEL)
        kept = marked.groupBy(DRAWER).transformWithState(
            statefulProcessor=_processor(fold, key, records, windows),
            outputStructType=s.StructType([s.StructField(PARCEL, s.BinaryType())]),
            outputMode="Append",
            timeMode="EventTime",
        )
        return received(kept, windows)

    def whole(records: list[Any]) -> list[tuple[Any, ...]]:
        rows = in_order(tuple(r) for r in records)
        turn = fold.over([row[0] for row in rows], 0, 0, float("inf"))
        return [tuple(_lists(rows, *piece)) for piece in pieces(turn.closed)]

    folded = F.udf(whole, s.ArrayType(s.StructType([*spans, *columns])), useArrow=False)
    gathered = given.groupBy(*named).agg(F.collect_list(F.struct(*row)).alias(_RECORDS))
    return gathered.select(*named, F.inline(folded(_RECORDS)))


def _lists(rows: Sequence[Row], low: int, high: int, windows: Sequence[Stretch]) -> Iterator[list[Any]]:
    """FROM, TO, FIRST, SIZE and the values of some windows."""
    yield [w.start for w in windows]
    yield [w.end for w in windows]
    yield [w.first - low + 1 for w in windows]
    yield [w.size for w in windows]
    columns = [list(column) for column in zip(*rows[low:high], strict=True)]
    yield from columns[1:]


def _processor(fold: Fold, key: s.StructType, records: s.StructType, windows: s.StructType) -> StatefulProcessor:
    """The processor of one step; made inside a function because its base class is Spark's."""
    from pyspark.sql import types as s
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    width = len(key.fields)
    keys = Keys.of(key)
    given, held = arrow_of(s.StructType([*key.fields, *records.fields])), arrow_of(records)
    made = arrow_of(windows)
    value = s.StructType(
        [
            s.StructField("seen", s.LongType()),
            s.StructField(PACKED, s.BinaryType()),
            s.StructField(LIKE, records),
        ]
    )

    class InOrder(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._handle = handle
            self._held = handle.getMapState(HELD, key, value)
            self._waiting = handle.getValueState("_waiting", "rows BINARY")
            self._due = handle.getValueState("_due", "keys BINARY")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            new = [read(row[PARCEL], given) for row in rows]
            return self._advance(new, timerValues.getCurrentWatermarkInMs() * 1000)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
            return self._advance([], timerValues.getCurrentWatermarkInMs() * 1000)

        def _advance(self, new: list[pa.RecordBatch], watermark: int) -> Iterator[Any]:
            before = self._waiting.get()
            there = joined([*([read(before[0], given)] if before is not None else []), *new], given)
            come = there.column(_AT).to_numpy() <= watermark
            ready, rest = chosen(there, come), chosen(there, ~come)
            due = self._deadlines()
            owners, codes = keys.told_apart(ready.columns[:width])
            for name, (owner, at) in due.items():
                if at <= watermark:
                    owners.setdefault(name, owner)
            if not owners and not new:
                return  # a timer for what was done already
            deadlines = dict(due)
            if owners:
                yield from self._turns(ready.select(held.names), codes, owners, watermark, deadlines)
            if rest.num_rows:
                self._waiting.update((written(rest),))
            elif before is not None:
                self._waiting.clear()
            if deadlines and deadlines != due:
                self._due.update((pack(list(deadlines.items())),))
            elif due and not deadlines:
                self._due.clear()
            times = [at for _, at in deadlines.values()]
            if rest.num_rows:
                times.append(int(rest.column(_AT).to_numpy().min()))
            if times:  # due once the watermark is there: an earlier one might be spent on nothing in this very batch
                self._handle.registerTimer(-(-min(times) // 1000))

        def _deadlines(self) -> Deadlines:
            found = self._due.get() if fold.kind != "count" else None
            return dict(unpack(found[0])) if found is not None else {}

        def _turns(
            self,
            new: pa.RecordBatch,
            codes: Any,
            owners: dict[Any, Owner],
            watermark: int,
            deadlines: Deadlines,
        ) -> Iterator[Any]:
            found = [self._held.getValue(owner) or (0, None) for owner in owners.values()]
            old = [read(packed, held) if packed is not None else None for _, packed, *_ in found]
            rows, counts = by_key(old, new, ordered(new, codes, _AT), codes)
            times = rows.column(_AT).to_numpy().tolist()
            windows, low = Windows(), 0
            for number, (name, owner) in enumerate(owners.items()):
                high, before, seen = low + counts[number], old[number], found[number][0]
                kept_before = before.num_rows if before is not None else 0
                turn = fold.over(times[low:high], kept_before, seen, watermark)
                windows.add(number, low, turn.closed)
                kept = low + turn.kept
                seen = (seen + high - low - kept_before) % fold.step if fold.kind == "count" else 0
                if kept < high or seen:
                    self._held.updateValue(owner, (seen, written(rows.slice(kept, high - kept)), None))
                elif before is not None:
                    self._held.removeKey(owner)
                at = fold.deadline(times[kept:high])
                if at is not None:
                    deadlines[name] = (owner, at)
                else:
                    deadlines.pop(name, None)
                low = high
            for batch in windows.batches(rows, list(owners.values()), made):
                yield Emitted({PARCEL: written(batch)})

        def close(self) -> None:
            pass

    return InOrder()
