"""From a plan to Spark: frames for the sources and steps, and a writer for the sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.catalogue import FORMATS, SINKS, SOURCES
from headrace.compile.plan import Plan, Query
from headrace.compile.planner import needed
from headrace.connectors.attempts import first_attempt
from headrace.connectors.base import Batch, Place, Reading, SinkConnector, SourceConnector
from headrace.formats.base import Format
from headrace.model import OUT, Delivery, Flow, Port, Schema, Sink, Source, Step
from headrace.operators.base import Lowering, Operator

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
        shared = len(sinks) > 1
        if shared:
            frame = frame.persist()  # every sink reads the batch; without this each would compute it again
        try:
            for sink in sinks:
                branch = _Branch(self.plan, self.where, {self.query.trunk: frame})
                self._write(sink, branch.frame(sink.inputs[0]), batch_id)
        finally:
            if shared:
                frame.unpersist()

    def _write(self, sink: Sink, frame: DataFrame, batch_id: int) -> None:
        connector = self.where.sinks.get(sink.name) or SINKS[sink.connector](sink.options)
        form = _format(sink, connector.default_format)
        if connector.carries == "bytes" and form is not None:
            frame = frame.withColumn("value", form.encode(self.plan.schemas[sink.inputs[0]]))
        batch = Batch(
            id=batch_id,
            changes=self.query.changes,
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


class _Branch:
    """Frames by port, made on demand from those that are given.

    A frame is *marked* when Spark knows which of its columns is the time. The mark is set at the source, so that
    every record moves the watermark; only where a Python function makes the columns anew it is set behind that.
    Spark refuses to be told twice.
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
        if not self.streaming or column is None or delay is None:
            return frame
        return frame.withWatermark(column, f"{round(delay.total_seconds() * 1000)} milliseconds")

    def step(self, part: object, marked: bool) -> dict[str, DataFrame]:
        assert isinstance(part, Step)
        operator: Operator = part.options
        frames = tuple(self.frame(port, marked and not operator.remakes_columns()) for port in part.inputs)
        low = Lowering(
            step=part.name,
            streaming=self.streaming,
            given=tuple(self._narrow(port, frame) for port, frame in zip(part.inputs, frames, strict=True)),
            schema={p: self.plan.schemas[Port(part.name, p)] for p in operator.ports()},
        )
        return operator.lower(frames, low)

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
        if not wanted.fields:  # a bare count needs rows, not columns; one column keeps the rows
            wanted = schema.keeping(schema.names[:1])
        reading = Reading(
            session=self.where.session,
            streaming=self.streaming,
            schema=source.schema or (form.own_schema if form else None) or connector.columns(),
            format=form,
            place=self.where.place(self.plan.flow, source.name),
            start=self.where.start,
            stop=self.where.stop,
        )
        frame = connector.read(reading)
        if connector.carries == "bytes" and form is not None:
            frame = self.decoded(source, frame, form, wanted)
        return {OUT: frame.select(*(f"`{name}`" for name in wanted.names))}

    def decoded(self, source: Source, frame: DataFrame, form: Format[Any], wanted: Schema) -> DataFrame:
        """Bytes as columns; records that cannot be read are counted and left out."""
        from pyspark.sql import functions as F

        carried = set(frame.columns) - {"value"}
        parsed = wanted.keeping(n for n in wanted.names if n not in carried)
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
