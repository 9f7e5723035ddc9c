"""Many records in one row, as Arrow data, on their way into Python state and out of it.

Spark's Python state takes and gives rows one by one, value by value: some thirty microseconds for each record, more
than all else that is done with it. So records of a drawer travel together, as bytes that only we read, and every value
stays in Arrow all the way: no type has to be proved to survive Python or pandas.

Spark drops and counts late records by the time of a row. A record that may be late therefore travels alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from headrace.operators.drawers import DRAWER
from headrace.operators.late import Aside

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql import types as s

PARCEL, LAST = "_headrace_parcel", "_headrace_last"
"""The bytes, and the time of the newest record in them, in microseconds."""
_ROWS, _BYTES = 200_000, 64 * 1024 * 1024
"""How much is gathered before parcels are made of it; a row of Spark cannot be beyond two gigabytes."""

Batches = Iterator["pa.RecordBatch"]


def arrow_of(columns: s.StructType) -> pa.Schema:
    """The one layout in which parcels of these columns are written and read: it is not written beside them."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(columns, timezone="UTC")


def written(batch: pa.RecordBatch) -> bytes:
    """Records as bytes."""
    return bytes(batch.serialize().to_pybytes())


def read(parcel: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """What was written; without a copy."""
    import pyarrow as pa

    return pa.ipc.read_record_batch(pa.py_buffer(parcel), schema)


def sent(frame: DataFrame, at: str, aside: Aside | None) -> DataFrame:
    """DRAWER, LAST and PARCEL for the records of a frame, whose first column is DRAWER and `at` its time, never null.

    `aside` knows the watermark; without it every record travels alone.
    """
    from pyspark.sql import types as s

    schema = arrow_of(s.StructType(frame.schema.fields[1:]))
    return frame.mapInArrow(_sending(schema, at, aside), f"{DRAWER} INT, {LAST} BIGINT, {PARCEL} BINARY")


def received(frame: DataFrame, columns: s.StructType) -> DataFrame:
    """The records of all parcels."""
    return frame.mapInArrow(_receiving(arrow_of(columns)), columns)


def _sending(schema: pa.Schema, at: str, aside: Aside | None) -> Callable[[Batches], Batches]:
    def send(batches: Batches) -> Batches:
        mark = _mark(aside)
        for batch in _gathered(batches):
            yield from _parcels(batch, schema, at, mark)

    return send


def _mark(aside: Aside | None) -> float:
    """The time up to which records may be late; if it is not known here, they all may be."""
    from pyspark import TaskContext

    task = TaskContext.get()
    number = task.getLocalProperty("streaming.sql.batchId") if task is not None else None
    told = aside.told(int(number)) if aside is not None and number is not None else None
    return math.inf if told is None else told


def _gathered(batches: Batches) -> Batches:
    """Fewer, larger batches."""
    import pyarrow as pa

    some: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        some.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.concat_batches(some)
            some, rows, size = [], 0, 0
    if rows:
        yield pa.concat_batches(some)


def _parcels(batch: pa.RecordBatch, schema: pa.Schema, at: str, mark: float) -> Batches:
    import numpy as np
    import pyarrow as pa

    # Those that may be late first, then the others by drawer.
    late = batch.column(at).to_numpy() <= mark
    drawers = batch.column(DRAWER).to_numpy()
    order = np.lexsort((drawers, ~late))
    drawers, alone = drawers[order], int(late.sum())
    columns = [(batch.column(field.name).take(pa.array(order)), field.type) for field in schema]
    records = pa.RecordBatch.from_arrays([c if c.type == t else c.cast(t) for c, t in columns], schema=schema)
    times = records.column(at).to_numpy()
    begins = np.flatnonzero(np.diff(drawers, prepend=-1))
    starts = np.concatenate([np.arange(alone), [alone], begins[begins > alone]]).astype(np.int64)
    starts = starts[starts < len(order)]
    ends = [*starts[1:].tolist(), len(order)]
    bodies = [written(records.slice(low, high - low)) for low, high in zip(starts.tolist(), ends, strict=True)]
    yield pa.RecordBatch.from_arrays(
        [
            pa.array(drawers[starts], pa.int32()),
            pa.array(np.maximum.reduceat(times, starts), pa.int64()),
            pa.array(bodies, pa.binary()),
        ],
        names=[DRAWER, LAST, PARCEL],
    )


def _receiving(schema: pa.Schema) -> Callable[[Batches], Batches]:
    def receive(batches: Batches) -> Batches:
        for batch in batches:
            for parcel in batch.column(0):
                yield read(parcel.as_buffer(), schema)

    return receive


def joined(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """All of them as one, which may be empty."""
    import pyarrow as pa

    some = list(batches)
    return pa.concat_batches(some) if some else pa.RecordBatch.from_pylist([], schema=schema)


def lists(flat: pa.Array, lengths: Any, kind: pa.DataType) -> pa.Array:
    """Values one after another as lists of these lengths."""
    import numpy as np
    import pyarrow as pa

    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), flat, type=kind)
