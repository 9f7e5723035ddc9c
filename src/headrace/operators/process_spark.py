"""How `process` runs on Spark: as a stateful stream, or over everything at once.

Only imported when a flow is lowered, so Spark is at the top of nothing that a check loads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.operators.base import Lowering
from headrace.operators.drawers import DRAWER, Owner, drawer, hashable
from headrace.operators.keyed import SHORT, Engine, Memory, Work
from headrace.operators.lowering import Emitted
from headrace.processor import Shape

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming import StatefulProcessor

_MODES = {"event": "EventTime", "processing": "ProcessingTime", "none": "None"}


def stream(work: Work, frame: DataFrame, initial: DataFrame | None, low: Lowering) -> DataFrame:
    """The stateful stream."""
    from headrace.expressions.spark import spark_schema

    out = low.schema["out"]
    key = spark_schema(work.given.keeping(work.by))
    shared = initial is None and only_values(work) and hashable(key)
    grouped = frame.select(drawer(work.by), "*").groupBy(DRAWER) if shared else frame.groupBy(*map(_quoted, work.by))
    return grouped.transformWithState(
        statefulProcessor=_in_drawers(work) if shared else _processor(work),
        outputStructType=spark_schema(out),
        outputMode="Append",
        # With a time of its own on the way out, late records must be dropped on the way in.
        timeMode=_MODES["event" if out.event_time else work.clock],
        initialState=None if initial is None else initial.groupBy(*map(_quoted, work.by)),
        eventTimeColumnName=out.event_time or "",
    )


def only_values(work: Work) -> bool:
    """Whether all that is kept for a key are single values, and nothing but records makes it its turn.

    Then keys can share drawers. Lists and maps of many keys cannot be told apart in one, nor can timers, which a
    time to live by event time needs as well.
    """
    layout = work.layout().values()
    if work.timers or work.ordered or work.own_life:
        return False
    return all(kind == "value" and life is None for kind, _, life in layout)


def _quoted(name: str) -> str:
    return f"`{name}`"


class _Failures:
    """Records that were rejected in a task, one JSON object a line; the file is made when there is one."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file: Any = None

    def __call__(self, failure: dict[str, str]) -> None:
        if self._file is None:
            self._file = self._open()
        self._file.write(json.dumps(failure) + "\n")
        self._file.flush()

    def _open(self) -> Any:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        folder = Path(self._folder) / (task.getLocalProperty("streaming.sql.batchId") or "0")
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / f"{task.partitionId()}.jsonl").open("w", encoding="utf-8")


def _rejecting(work: Work) -> _Failures | None:
    return None if work.failures is None else _Failures(work.failures)


class _Store:
    """Spark's state store, for the key that Spark has set."""

    def __init__(self, handle: Any, work: Work) -> None:
        self._handle = handle
        make = {"value": handle.getValueState, "list": handle.getListState, "map": handle.getMapState}
        self._states: dict[str, Any] = {}
        for name, (kind, columns, life) in work.layout().items():
            ttl = None if life is None else round(life.total_seconds() * 1000)
            self._states[name] = make[kind](name, *columns, ttlDurationMs=ttl)

    def value(self, name: str) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._states[name].get()
        return row

    def put_value(self, name: str, row: tuple[Any, ...] | None) -> None:
        if row is None:
            self._states[name].clear()
        else:
            self._states[name].update(row)

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        return list(self._states[name].get())

    def put_rows(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            self._states[name].put(rows)
        else:
            self._states[name].clear()

    def add_rows(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            self._states[name].appendList(rows)

    def entry(self, name: str, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._states[name].getValue(key)
        return row

    def entries(self, name: str) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        return list(self._states[name].iterator())

    def put_entry(self, name: str, key: tuple[Any, ...], row: tuple[Any, ...] | None) -> None:
        if row is None:
            self._states[name].removeKey(key)
        else:
            self._states[name].updateValue(key, row)

    def timers(self) -> list[int]:
        return sorted(self._handle.listTimers())

    def add_timer(self, milliseconds: int) -> None:
        self._handle.registerTimer(milliseconds)

    def delete_timer(self, milliseconds: int) -> None:
        self._handle.deleteTimer(milliseconds)


class _Drawer(Memory):
    """The values of the keys of one drawer, for the key whose turn it is."""

    def __init__(self, handle: Any, work: Work) -> None:
        super().__init__()
        key = work.given.keeping(work.by).ddl()
        self._states = {n: handle.getMapState(n, key, *columns) for n, (_, columns, _) in work.layout().items()}
        self.owner: Owner = ()

    def value(self, name: str) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._states[name].getValue(self.owner)
        return row

    def put_value(self, name: str, row: tuple[Any, ...] | None) -> None:
        if row is None:
            self._states[name].removeKey(self.owner)
        else:
            self._states[name].updateValue(self.owner, row)


def _in_drawers(work: Work) -> StatefulProcessor:
    """The engine for keys that share drawers."""
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    names = work.by

    class Keyed(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._drawer = _Drawer(handle, work)
            self._engine = Engine(work, self._drawer, _rejecting(work))

        def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
            watermark = timerValues.getCurrentWatermarkInMs()
            self._engine.begin(watermark if watermark > 0 else None, timerValues.getCurrentProcessingTimeInMs())
            of_key: dict[Owner, list[dict[str, Any]]] = {}
            for row in rows:
                record = row.asDict()
                del record[DRAWER]
                of_key.setdefault(tuple(record[name] for name in names), []).append(record)
            for owner, records in of_key.items():
                self._drawer.owner = owner
                for made in self._engine.records(dict(zip(names, owner, strict=True)), records):
                    yield Emitted(made)  # type: ignore[misc]

        def close(self) -> None:
            pass

    return Keyed()


def _processor(work: Work) -> StatefulProcessor:
    """The engine behind Spark's interface; made inside a function because its base class is Spark's."""
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    keys = Shape(work.by, Shape.of(work.given.keeping(work.by)).zoned, always_dict=True)

    def of(values: Any) -> dict[str, Any]:
        found: dict[str, Any] = keys.load(tuple(values))
        return found

    class Keyed(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._engine = Engine(work, _Store(handle, work), _rejecting(work))

        def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
            self._begin(timerValues)
            for record in self._engine.records(of(key), (row.asDict() for row in rows)):
                yield Emitted(record)  # type: ignore[misc]

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
            self._begin(timerValues)
            for record in self._engine.due(of(key), expiredTimerInfo.getExpiryTimeInMs()):
                yield Emitted(record)  # type: ignore[misc]

        def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
            self._begin(timerValues)
            self._engine.initial(of(key), _initial_row(work, initialState.asDict()))

        def _begin(self, times: Any) -> None:
            watermark = times.getCurrentWatermarkInMs()
            self._engine.begin(watermark if watermark > 0 else None, times.getCurrentProcessingTimeInMs())

        def close(self) -> None:
            pass

    return Keyed()


def _initial_row(work: Work, row: dict[str, Any]) -> dict[str, Any]:
    """What the author is given of a row of the initial table: all of it, or just the state's columns."""
    if not work.short:
        return row
    known = {name.lower(): value for name, value in row.items()}
    return {name: known[name.lower()] for name in work.states[SHORT].schemas()[0].names}


def batch(work: Work, frame: DataFrame, initial: DataFrame | None, low: Lowering) -> DataFrame:
    """Everything there is, key by key, in order."""
    import time

    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import to_arrow_schema

    from headrace.expressions.spark import spark_schema

    keys = [F.col(f"`{name}`").alias(f"_key_{i}") for i, name in enumerate(work.by)]
    when = F.col(f"`{work.time}`") if work.time else F.lit(None).cast("timestamp")
    whole = F.struct(*(F.col(f"`{name}`") for name in work.given.names)).alias("_record")
    kind = frame.select(whole).schema["_record"].dataType
    first = None if initial is None else F.struct(*(F.col(f"`{name}`") for name in initial.columns)).alias("_initial")
    first_kind = "int" if initial is None else initial.select(first).schema["_initial"].dataType  # type: ignore[arg-type]
    rows = frame.select(
        *keys,
        F.lit(1).alias("_part"),
        when.alias("_time"),
        F.monotonically_increasing_id().alias("_arrival"),
        whole,
        F.lit(None).cast(first_kind).alias("_initial"),
    )
    if initial is not None:
        begin = (F.lit(0), F.lit(None).cast("timestamp"), F.monotonically_increasing_id(), F.lit(None).cast(kind))
        rows = initial.select(*keys, *begin, first).toDF(*rows.columns).union(rows)  # type: ignore[arg-type]
    named = [f"_key_{i}" for i in range(len(work.by))]
    ordered = rows.repartition(*named).sortWithinPartitions(*named, "_part", "_time", "_arrival")
    columns = spark_schema(low.schema["out"])
    now = round(time.time() * 1000)
    return ordered.mapInArrow(_folded(work, to_arrow_schema(columns, timezone="UTC"), named, now), columns)


def _folded(
    work: Work, schema: pa.Schema, keys: list[str], now: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows that lie sorted by key, each key's handed to the engine."""

    def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple("NaN" if row[name] != row[name] else row[name] for name in keys)

    def run(incoming: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        made: list[dict[str, Any]] = []
        reject = _rejecting(work)
        rows = (row for arrived in incoming for row in arrived.to_pylist())
        for _, group in groupby(rows, key=key_of):
            engine = Engine(work, Memory(), reject)
            engine.begin(None, now)
            records: list[dict[str, Any]] = []
            key: dict[str, Any] = {}
            for row in group:
                key = {name: row[column] for name, column in zip(work.by, keys, strict=True)}
                if row["_part"] == 0:
                    engine.initial(key, _initial_row(work, row["_initial"]))
                else:
                    records.append(row["_record"])
            made.extend(engine.whole(key, records))
            if len(made) >= 10_000:
                yield pa.RecordBatch.from_pylist(made, schema=schema)
                made = []
        if made:
            yield pa.RecordBatch.from_pylist(made, schema=schema)

    return run
