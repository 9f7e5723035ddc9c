"""From a plan to Spark: the frames of its sources and steps, made on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.catalogue import SOURCES
from headrace.compile import letters as dead
from headrace.compile.counting import Counter, Uncounted, in_place
from headrace.compile.leaves import tagged
from headrace.compile.letters import Rejects
from headrace.compile.plan import Plan, Query
from headrace.compile.planner import format_of, in_record, wanted
from headrace.compile.spans import Again
from headrace.compile.times import timed
from headrace.compile.where import Where
from headrace.connectors.base import ORIGIN, REASON, Reading, SourceConnector
from headrace.formats.base import Format
from headrace.model import OUT, REMOVED, Port, Schema, Source, Step
from headrace.operators.base import Lowering, Operator
from headrace.operators.late import before_batch
from headrace.operators.letters import Reject, because
from headrace.operators.windows import MARK, marked_again

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def read_name(source: str) -> str:
    """The name under which what a source reads is counted, before anything is done with it."""
    return f"{source}:read"


def _asks_arrival(source: Source) -> bool:
    if source.time is None or SOURCES[source.connector].arrival is None:
        return False
    return source.time.kind == "ingestion" or source.time.bound(arrives=True) is not None


class Branch:
    """Frames by port, made on demand from those that are given.

    Spark is told at each source which column is the time, so that every record moves the watermark and the slowest
    source leads, whatever lies behind a union. It refuses to be told twice: where a Python function makes the columns
    anew, the mark is only put back.
    """

    def __init__(
        self,
        plan: Plan,
        where: Where,
        given: Mapping[Port, DataFrame],
        *,
        rejects: Rejects,
        wires: Counter | None = None,
        streaming: bool = False,
        trunk: Query | None = None,
    ) -> None:
        self.plan, self.where, self.streaming, self.rejects, self.trunk = plan, where, streaming, rejects, trunk
        self.wires: Counter = wires or Uncounted()
        self.frames: dict[Port, DataFrame] = dict(given)

    @property
    def _query(self) -> str:
        return self.trunk.name if self.trunk is not None else ""

    def frame(self, port: Port) -> DataFrame:
        if port not in self.frames:
            part = self.plan.flow[port.step]
            made = self.source(part) if isinstance(part, Source) else self.step(part)
            for name, frame in made.items():
                out = Port(part.name, name)
                self.frames[out] = self._counted(part, out, self._mark(part, out, self._expected(part, out, frame)))
        return self.frames[port]

    def _expected(self, part: Any, port: Port, frame: DataFrame) -> DataFrame:
        """The frame without the records that break a rule of the part's."""
        if part.expect is None or (isinstance(part, Step) and port.port in part.options.sides()):
            return frame
        outside = self.trunk is not None and self.trunk.trunk == port and part.name in self.trunk.stateful
        if outside and not self.where.real_time:
            return frame  # said of each batch, outside the stream
        schema = self._narrow(port, frame)
        return dead.expected(part, frame, schema, self.rejects, keeps=self._keeps(part.name))

    def _keeps(self, name: str) -> bool:
        """Whether records that a part rejects can be found again: not between two steps that remember."""
        if self.trunk is None:
            return True
        return not {name, *self.plan.flow.upstream(name)} & set(self.trunk.stateful)

    def _reject(self, name: str) -> Reject:
        above = {p.step for p in self.plan.flow[name].inputs}  # on its way into a step a record is still what it was
        if all(self._keeps(part) for part in above):
            return lambda frame, failed: self.rejects.take(name, frame, failed)
        return lambda frame, failed: dead.stopped(name, frame, failed)

    def _counted(self, part: object, port: Port, frame: DataFrame) -> DataFrame:
        """A table is no stream: it is read when it is read, and not counted."""
        return frame if isinstance(part, Source) and part.table is not None else self.wires.wire(frame, str(port))

    def _mark(self, part: object, port: Port, frame: DataFrame) -> DataFrame:
        """The frame with its time known to Spark, where it is not."""
        time = self.plan.schemas[port].event_time
        if time is None:
            return frame
        if isinstance(part, Step):
            given = (self.frame(p) for p in part.inputs) if part.options.remakes_columns() else ()
            return marked_again(frame, time, *given)
        assert isinstance(part, Source)
        if not self.streaming:
            return frame
        made = frame.withWatermark(time, f"{round(part.time.watermark.total_seconds() * 1000)} milliseconds")
        # Spark would let a filter that follows go first, and what it leaves out not move the watermark.
        return in_place(made) if isinstance(self.wires, Uncounted) else made

    def step(self, part: object) -> dict[str, DataFrame]:
        assert isinstance(part, Step)
        operator: Operator = part.options
        again = self.where.again
        if again is not None and operator.drops_late():
            frames: tuple[DataFrame, ...] = (self._spans(part.inputs[0], again),)
        else:
            frames = tuple(self.frame(port) for port in part.inputs)
        low = Lowering(
            step=part.name,
            streaming=self.streaming,
            given=tuple(self._narrow(port, frame) for port, frame in zip(part.inputs, frames, strict=True)),
            schema={p: self.plan.schemas[Port(part.name, p)] for p in operator.ports()},
            inputs=tuple(str(port) for port in part.inputs),
            base=self.where.base,
            # A query that has the step on its way has other batches: what it found late would get among these.
            aside=self.where.aside(part.name) if self.streaming and part.name == self._query else None,
            reject=self._reject(part.name),
            carried=self._carried(frames),
            calls=self.rejects.calls,
            failures=dead.failures_folder(self.where.home, self._query, part.name).resolve(),
            keep=None if isinstance(self.wires, Uncounted) else self.wires.kept,
            mark=self._late_by(part) if self.streaming and operator.drops_late() else None,
        )
        made = operator.lower(frames, low)
        if again is not None:
            aside = operator.sides()  # what is put aside was given at once
            return {p: f if p in aside else operator.settled(f, again.watermark) for p, f in made.items()}
        return made

    def _late_by(self, step: Step) -> Column | None:
        """The watermark by which Spark drops records on their way into a step, where that can be known."""
        above = (self.plan.flow[name] for name in self.plan.flow.upstream(step.name))
        if self.where.checkpoint is None or any(isinstance(p, Step) and p.options.holds_time_back() for p in above):
            return None
        return before_batch(self.where.session, self.where.checkpoint)

    def _spans(self, port: Port, again: Again) -> DataFrame:
        """The input of a step that drops late records, each with the watermark that it was too late for or not."""
        from pyspark.sql import functions as F

        made: DataFrame | None = None
        for span in again.spans:
            where = replace(self.where, between=span.between, again=None)
            part = (
                Branch(self.plan, where, {}, rejects=self.rejects)
                .frame(port)
                .withColumn(MARK, F.lit(span.mark).cast("bigint"))
            )
            made = part if made is None else made.unionByName(part)
        assert made is not None
        return made

    def _carried(self, frames: tuple[DataFrame, ...]) -> tuple[str, ...]:
        names = (*self.rejects.carried, REMOVED)
        return tuple(name for name in names if any(name in frame.columns for frame in frames))

    def _narrow(self, port: Port, frame: DataFrame) -> Schema:
        """The schema of a port less the columns that nothing needs and so were never read."""
        return self.plan.schemas[port].keeping(frame.columns)

    def reading(self, source: Source, connector: SourceConnector[Any]) -> Reading:
        """What a source is asked for."""
        form = format_of(source, connector.default_format)
        return Reading(
            session=self.where.session,
            streaming=self.streaming and source.table is None,
            schema=source.schema or (form.own_schema if form else None) or connector.columns(),
            format=form,
            place=self.where.place(self.plan.flow, source.name),
            start=self.where.start if source.table is None else None,
            stop=self.where.stop if source.table is None else None,
            between=self.where.between.get(source.name),
            query=self._query,
            reads_for=self.where.query,
            repeated=self.where.repeated if self.streaming else None,
            readers=tuple(q.name for q in self.plan.queries if source.name in q.sources),
            arrival=_asks_arrival(source),
            pinned=self.where.pinned,
            tuned=self.plan.reading,
            per_batch=self.plan.per_batch,
            real_time=self.where.real_time,
            origin=bool(self.rejects.carried) and source.table is None,
            reasons=connector.carries == "files" and source.table is None,
            table=source.table is not None,
        )

    def source(self, source: Source) -> dict[str, DataFrame]:
        connector = self.where.source(source)
        columns = wanted(self.plan.flow, self.plan.schemas, source)
        reading = self.reading(source, connector)
        form = reading.format

        def read() -> DataFrame:
            frame = connector.read(reading)
            if reading.streaming:
                frame = tagged(frame, source.name)
            if reading.origin:
                frame = _with_source(frame, source.name)
            if source.table is None:
                frame = self.wires.wire(frame, read_name(source.name))
            if connector.carries == "bytes" and form is not None:
                frame = self.decoded(source, frame, form, in_record(source, columns))
            elif reading.reasons:
                frame = self._readable(source, frame).drop(REASON)
            if source.time is not None and columns.event_time is not None:
                frame = timed(source, frame, columns.event_time, self.rejects, self.where.at)
            return frame.select(*(f"`{name}`" for name in (*columns.names, *self._carried((frame,)))))

        return {OUT: read() if source.table is None else self.where.tables.frame(source.name, source.table, read)}

    def decoded(self, source: Source, frame: DataFrame, form: Format[Any], wanted: Schema) -> DataFrame:
        """Bytes as columns; records that cannot be read are rejected."""
        from pyspark.sql import functions as F

        carried = set(frame.columns) - {"value"}
        stated = source.schema or form.own_schema or wanted
        # Where fields are known by their position, none can be left out before it is read.
        parsed = stated if form.positional else wanted.keeping(n for n in wanted.names if n not in carried)
        struct, reason = form.decode(F.col("value"), parsed)
        read = frame.select(struct.alias("_record"), reason.alias(REASON), *carried)
        return self._readable(source, read).select("_record.*", *carried)

    def _readable(self, source: Source, frame: DataFrame) -> DataFrame:
        """The frame without the records that cannot be read."""
        from pyspark.sql import functions as F

        reason = F.col(REASON)
        return self.rejects.take(
            source.name, frame, because(reason), reason.isNotNull(), counted=dead.UNREADABLE, readable=False
        )


def _with_source(frame: DataFrame, source: str) -> DataFrame:
    """The frame with its records' origin, and in it the name of the source."""
    from pyspark.sql import functions as F

    if ORIGIN in frame.columns:
        return frame.withColumn(ORIGIN, F.col(ORIGIN).withField("source", F.lit(source)))
    # A source of rows has no bytes: the row as JSON stands for them.
    value = dead.as_json(frame).cast("binary").alias("value")
    return frame.withColumn(ORIGIN, F.struct(F.lit(source).alias("source"), value))
