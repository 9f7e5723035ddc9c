"""From a plan to Spark: frames for the sources and steps, and a writer for the sinks."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.catalogue import FORMATS, SINKS, SOURCES
from headrace.compile.leaves import tagged
from headrace.compile.plan import Plan, Query
from headrace.compile.planner import needed
from headrace.compile.tables import Tables
from headrace.compile.times import timed
from headrace.connectors.attempts import first_attempt
from headrace.connectors.base import Batch, Between, Place, Reading, SinkConnector, SourceConnector
from headrace.formats.base import Format
from headrace.model import OUT, Delivery, Flow, Port, Schema, Sink, Source, Step
from headrace.operators.base import Lowering, Operator
from headrace.operators.late import Aside, put_aside
from headrace.operators.windows import marked_again

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where a plan runs: the session, the run's home, the project's folder and Kafka."""

    session: SparkSession
    streaming: bool
    home: Path
    base: Path
    kafka: Mapping[str, str] = field(default_factory=dict)
    start: str | None = None
    stop: str | None = None
    sources: Mapping[str, SourceConnector[Any]] = field(default_factory=dict)
    """Stand-ins by step name: what a test gives in place of the outside world."""
    sinks: Mapping[str, SinkConnector[Any]] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    between: Mapping[str, Between] = field(default_factory=dict)
    """By source, what of it to read once more; those not named are read as usual. For batches."""
    checkpoint: Path | None = None
    """Of the query that is lowered, where there is one."""

    def aside(self, step: str) -> Aside | None:
        """Where a step of a stream puts records aside."""
        if not self.streaming or self.checkpoint is None:
            return None
        return Aside(checkpoint=self.checkpoint.resolve(), folder=(self.home / "aside" / step).resolve())

    def place(self, flow: Flow, step: str) -> Place:
        """What a connector is told; its folder is made."""
        folder = self.home / "places" / step
        folder.mkdir(parents=True, exist_ok=True)
        return Place(step=step, flow=flow.name, home=folder, base=self.base, kafka=self.kafka)


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """A query as Spark frames: the trunk, and how a batch of it reaches the sinks."""

    plan: Plan
    query: Query
    trunk: DataFrame
    where: Where

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch of the trunk to every sink; for foreachBatch, or once in batch mode."""
        sinks = [s for s in self.plan.flow.sinks if s.name in self.query.sinks]
        sides = self._sides()
        shared = len(sinks) > 1 or bool(sides)
        if shared:
            frame = frame.persist()  # every sink reads the batch; without this each would compute it again
        try:
            given = {self.query.trunk: frame} | self._put_aside(sides, frame, batch_id)
            for sink in sinks:
                branch = _Branch(self.plan, self.where, given)
                self._write(sink, branch.frame(sink.inputs[0]), batch_id)
        finally:
            if shared:
                frame.unpersist()
        for port in sides:
            if (aside := self.where.aside(port.step)) is not None:
                shutil.rmtree(aside.batch(batch_id), ignore_errors=True)

    def _sides(self) -> list[Port]:
        """The ports of the trunk's step that carry what was put aside, if a sink is behind one."""
        part = self.plan.flow[self.query.name]
        return [Port(part.name, port) for port in part.options.sides()] if isinstance(part, Step) else []

    def _put_aside(self, sides: list[Port], frame: DataFrame, batch_id: int) -> dict[Port, DataFrame]:
        if not sides:
            return {}
        for port in sides:
            if (aside := self.where.aside(port.step)) is not None:  # what an attempt that died has left
                shutil.rmtree(aside.batch(batch_id), ignore_errors=True)
        frame.count()  # records are put aside while the batch is computed, so it must be, whatever the sinks do
        session = self.where.session
        return {
            port: put_aside(session, self.where.aside(port.step), batch_id, self.plan.schemas[port]) for port in sides
        }

    def _write(self, sink: Sink, frame: DataFrame, batch_id: int) -> None:
        connector = self.where.sinks.get(sink.name) or SINKS[sink.connector](sink.options)
        form = _format(sink, connector.default_format)
        if connector.carries == "bytes" and form is not None:
            frame = frame.withColumn("value", form.encode(self.plan.schemas[sink.inputs[0]]))
        batch = Batch(
            id=batch_id,
            changes=self.plan.changes.get(sink.inputs[0], self.query.changes),
            place=self.where.place(self.plan.flow, sink.name),
            format=form,
            delivery=next(p.delivery for p in self.plan.promises if p.sink == sink.name),
        )
        if batch.delivery is Delivery.AT_MOST_ONCE and not first_attempt(batch.place, batch_id):
            return
        session = self.where.session
        session.sparkContext.setJobDescription(f"headrace sink {sink.name} batch {batch_id}")
        connector.write(frame, batch)


def _format(part: Source | Sink, default: str | None) -> Format[Any] | None:
    name = part.format or default
    if name is None:
        return None
    model = FORMATS[name].options_model
    return FORMATS[name](part.format_options if part.format_options is not None else model())


def _asks_arrival(source: Source) -> bool:
    if source.time is None or SOURCES[source.connector].arrival is None:
        return False
    return source.time.kind == "ingestion" or source.time.bound(arrives=True) is not None


def _untimed(source: Source, wanted: Schema) -> Schema:
    """The columns to be decoded: the time as the author stated it, or left out where it is not in the record."""
    if source.time is None or wanted.event_time is None:
        return wanted
    if source.time.kind != "event":
        return Schema.of((f.name, f.type) for f in wanted if f.name != wanted.event_time)
    stated = source.schema.find(wanted.event_time) if source.schema is not None else None
    return wanted if stated is None else wanted.with_columns([(stated.name, stated.type)])


class _Branch:
    """Frames by port, made on demand from those that are given.

    A frame is *marked* when Spark knows which of its columns is the time. The mark is set at the source, so that
    every record moves the watermark; only where a Python function makes the columns anew it is set behind that.
    Spark refuses to be told twice: behind a window, which keeps the time of its input, it is only put back.
    """

    def __init__(self, plan: Plan, where: Where, given: Mapping[Port, DataFrame], *, streaming: bool = False) -> None:
        self.plan, self.where, self.streaming = plan, where, streaming
        self.frames: dict[tuple[Port, bool], DataFrame] = {
            (port, marked): frame for port, frame in given.items() for marked in (True, False)
        }

    def frame(self, port: Port, marked: bool = True) -> DataFrame:
        if (port, marked) not in self.frames:
            part = self.plan.flow[port.step]
            made = self.source(part) if isinstance(part, Source) else self.step(part, marked)
            for name, frame in made.items():
                out = Port(part.name, name)
                marks = marked and (isinstance(part, Source) or part.options.remakes_columns())
                self.frames[out, marked] = self._mark(out, frame) if marks else frame
        return self.frames[port, marked]

    def _mark(self, port: Port, frame: DataFrame) -> DataFrame:
        column, delay = self.plan.schemas[port].event_time, self._watermark(port)
        if column is None or delay is None:
            return frame
        if any(self._sets_time(name) for name in self.plan.flow.upstream(port.step)):
            return marked_again(frame, column, *(self.frame(p) for p in self.plan.flow[port.step].inputs))
        if not self.streaming:
            return frame
        return frame.withWatermark(column, f"{round(delay.total_seconds() * 1000)} milliseconds")

    def step(self, part: object, marked: bool) -> dict[str, DataFrame]:
        assert isinstance(part, Step)
        operator: Operator = part.options
        marked = operator.sets_time() or (marked and not operator.remakes_columns())
        frames = tuple(self.frame(port, marked) for port in part.inputs)
        low = Lowering(
            step=part.name,
            streaming=self.streaming,
            given=tuple(self._narrow(port, frame) for port, frame in zip(part.inputs, frames, strict=True)),
            schema={p: self.plan.schemas[Port(part.name, p)] for p in operator.ports()},
            base=self.where.base,
            aside=self.where.aside(part.name) if self.streaming else None,
        )
        return operator.lower(frames, low)

    def _sets_time(self, name: str) -> bool:
        part = self.plan.flow[name]
        return isinstance(part, Step) and part.options.sets_time()

    def _narrow(self, port: Port, frame: DataFrame) -> Schema:
        """The schema of a port less the columns that nothing needs and so were never read."""
        return self.plan.schemas[port].keeping(frame.columns)

    def _watermark(self, port: Port) -> timedelta | None:
        """How long the sources above wait for late records: the longest that one of them asks for."""
        flow = self.plan.flow
        above = (*flow.upstream(port.step), port.step)
        return max((s.time.watermark for s in flow.sources if s.name in above and s.time is not None), default=None)

    def source(self, source: Source) -> dict[str, DataFrame]:
        connector = self.where.sources.get(source.name) or SOURCES[source.connector](source.options)
        form = _format(source, SOURCES[source.connector].default_format)
        schema = self.plan.schemas[Port(source.name)]
        wanted = schema.keeping(needed(self.plan.flow, self.plan.schemas)[source.name])
        if source.table is not None:
            wanted = schema.keeping((*wanted.names, *source.table.key, source.table.latest_by or ""))
        if not wanted.fields:  # a bare count needs rows, not columns; one column keeps the rows
            wanted = schema.keeping(schema.names[:1])
        reading = Reading(
            session=self.where.session,
            streaming=self.streaming and source.table is None,
            schema=source.schema or (form.own_schema if form else None) or connector.columns(),
            format=form,
            place=self.where.place(self.plan.flow, source.name),
            start=self.where.start if source.table is None else None,
            stop=self.where.stop if source.table is None else None,
            between=self.where.between.get(source.name),
            arrival=_asks_arrival(source),
        )

        def read() -> DataFrame:
            frame = connector.read(reading)
            if reading.streaming:
                frame = tagged(frame, source.name)
            if connector.carries == "bytes" and form is not None:
                frame = self.decoded(source, frame, form, _untimed(source, wanted))
            if source.time is not None and wanted.event_time is not None:
                frame = timed(source, frame, wanted.event_time)
            return frame.select(*(f"`{name}`" for name in wanted.names))

        return {OUT: read() if source.table is None else self.where.tables.frame(source.name, source.table, read)}

    def decoded(self, source: Source, frame: DataFrame, form: Format[Any], wanted: Schema) -> DataFrame:
        """Bytes as columns; records that cannot be read are counted and left out."""
        from pyspark.sql import functions as F

        carried = set(frame.columns) - {"value"}
        stated = source.schema or form.own_schema or wanted
        # Where fields are known by their position, none can be left out before it is read.
        parsed = stated if form.positional else wanted.keeping(n for n in wanted.names if n not in carried)
        struct, reason = form.decode(F.col("value"), parsed)
        return (
            frame.select(struct.alias("_record"), reason.alias("_reason"), *carried)
            .observe(f"{source.name}.read", F.count(F.lit(1)).alias("read"), F.count("_reason").alias("unreadable"))
            .where("_reason IS NULL")
            .select("_record.*", *carried)
        )


def lower(plan: Plan, query: Query, where: Where) -> Lowered:
    """The frames of a query. With a streaming session the trunk is a stream, else a batch over all there is."""
    branch = _Branch(plan, where, {}, streaming=where.streaming)
    return Lowered(plan=plan, query=query, trunk=branch.frame(query.trunk), where=where)
