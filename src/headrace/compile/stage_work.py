"""What the vectorised stage does in a worker: Arrow batches of records in, batches of columns out.

Rows that the engine may not be trusted with go on as the bytes they were, marked as spilled, for Spark to decode. Rows
that a filter leaves out stay here; at the end of a task one more row tells how many they were and how new.

This runs in Spark's Python workers, so little is imported with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.expressions.arrow_run import Running
from headrace.formats.json_native import Columns, decode, engine

if TYPE_CHECKING:
    import pyarrow as pa

VALUE = "value"
SPILLED = "_headrace_spilled"
LEFT = "_headrace_left_"
"""With a number: of the row that tells what was left out, how many the filter of that number left out; else null."""


@dataclass(frozen=True, kw_only=True)
class Believed:
    """Which times are believed: only records with such a one may be left out here, others are dead letters."""

    column: str
    microseconds: int | None = None
    """What a number in the column counts; None: the column is a time."""
    arrival: str | None = None
    ahead: int = 0
    """Microseconds a time may lie behind the arrival."""
    before: int | None = None
    """The first that is not believed any more."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is to be done, as plain data."""

    columns: Columns
    carried: tuple[str, ...]
    """Columns that go on as they came."""
    links: tuple[tuple[tuple[Any, ...], Any], ...] = ()
    """For each step that is followed, the programs of the columns it makes, and of its condition if it is a filter."""
    believed: Believed | None = None
    newest: str | None = None
    """The column that moves the watermark: of what is left out, the newest goes on."""

    @property
    def filters(self) -> int:
        return sum(condition is not None for _, condition in self.links)


def work(todo: Work, schema: pa.Schema) -> Any:
    """The function for mapInArrow."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.compile import stage_work as here

        yield from here.run(batches, todo, schema)

    return run


def run(batches: Iterator[pa.RecordBatch], todo: Work, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Every batch worked on, and at the end what was left out."""
    import pyarrow as pa

    left, newest = [0] * todo.filters, None
    for batch in batches:
        if engine() is None:
            yield _batch(batch, schema, None, None, None)
            continue
        sure, frame = decode(batch.column(VALUE), todo.columns)
        dropped = None
        if todo.filters and frame is not None:
            counts, dropped, latest = _dropped(batch, frame, sure, todo)
            left = [a + b for a, b in zip(left, counts, strict=True)]
            newest = max((n for n in (newest, latest) if n is not None), default=None)
        yield _batch(batch, schema, sure, frame, dropped)
    if any(left):
        told: dict[str, Any] = {f"{LEFT}{i}": n for i, n in enumerate(left)} | {SPILLED: False}
        if todo.newest is not None:
            told[todo.newest] = newest
        yield pa.RecordBatch.from_arrays([pa.array([told.get(f.name)], f.type) for f in schema], schema=schema)


def _batch(batch: pa.RecordBatch, schema: pa.Schema, sure: Any, frame: Any, dropped: Any) -> pa.RecordBatch:
    """The rows that go on."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def arrow(series: Any) -> Any:
        return series.to_arrow(compat_level=engine().CompatLevel.oldest())

    rows = batch.num_rows
    spilled = pa.array([True] * rows, pa.bool_()) if frame is None else arrow(~sure)
    keep = None if dropped is None or not dropped.any() else ~dropped
    kept = None if keep is None else arrow(keep)
    arrays = []
    for field in schema:
        if field.name == VALUE:
            bytes_ = batch.column(VALUE)
            none = frame is not None and sure.all()
            column = pa.nulls(rows, field.type) if none else pc.if_else(spilled, bytes_, pa.scalar(None, bytes_.type))
        elif field.name == SPILLED:
            column = spilled
        elif field.name.startswith(LEFT):
            column = pa.nulls(rows, field.type)
        elif field.name in batch.schema.names:
            column = batch.column(field.name)
        elif frame is None:
            column = pa.nulls(rows, field.type)
        else:
            series = frame[field.name]
            arrays.append(arrow(series if keep is None else series.filter(keep)).cast(field.type))
            continue
        arrays.append(column if kept is None else column.filter(kept))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _dropped(batch: pa.RecordBatch, frame: Any, sure: Any, todo: Work) -> tuple[list[int], Any, Any]:
    """How many rows each filter leaves out, which rows they are, and the newest time among them."""
    pl, running = engine(), Running(engine())
    here = pl.col("_open")
    open_ = sure & _timely(batch, frame, todo.believed)
    found = []
    for made, condition in todo.links:
        unsure = [u for _, u in map(running.lower, made) if u is not None]
        if condition is not None:
            keeps, more = running.lower(condition)
            unsure += [] if more is None else [more]
        given = frame.with_columns(open_.alias("_open"))
        if unsure:
            here_open = here & ~reduce(lambda a, b: a | b, unsure)
            given = given.with_columns(here_open.alias("_open"))
        if condition is not None:
            leaves = here & ~keeps.fill_null(value=False)
            out = given.select(leaves.alias("out"), (here & ~leaves).alias("open"))
            found.append(out["out"])
            open_ = out["open"]
        else:
            open_ = given["_open"]
    dropped = reduce(lambda a, b: a | b, found)
    newest = None
    if todo.newest is not None and dropped.any():
        times = frame[todo.newest] if todo.newest in frame.columns else pl.from_arrow(batch.column(todo.newest))
        newest = times.filter(dropped).max()
    return [int(one.sum()) for one in found], dropped, newest


def _timely(batch: pa.RecordBatch, frame: Any, believed: Believed | None) -> Any:
    """Which rows have a time that is believed."""
    pl = engine()
    if believed is None:
        return pl.Series([True]).new_from_index(0, len(frame))
    time = frame[believed.column]
    if believed.microseconds is None:
        moments = time.cast(pl.Int64)
        good = time.is_not_null()
    else:
        # Far from what overflows when it is counted in microseconds, which is an error in Spark.
        good = (time >= 0) & (time <= 4_000_000_000_000_000 // believed.microseconds)
        moments = time.cast(pl.Int64) * believed.microseconds
    if believed.arrival is not None:
        arrived = pl.from_arrow(batch.column(believed.arrival)).cast(pl.Int64)
        good = good & (moments <= arrived + believed.ahead).fill_null(value=True)
    if believed.before is not None:
        good = good & (moments < believed.before)
    return good.fill_null(value=False)
