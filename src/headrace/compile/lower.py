"""From a plan to Spark: frames for the sources and steps, and a writer for the sinks."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.catalogue import FORMATS, SINKS, SOURCES
from headrace.compile import letters as dead
from headrace.compile import staged as staging
from headrace.compile.counting import Counter, Counts, Observed, Once, Stream, Uncounted
from headrace.compile.leaves import Leaf, leaves, tagged
from headrace.compile.letters import Counting, Looking, Rejects
from headrace.compile.plan import Plan, Query
from headrace.compile.planner import may_reject, needed
from headrace.compile.spans import Again
from headrace.compile.stage import Stage, untimed
from headrace.compile.tables import Tables
from headrace.compile.times import timed
from headrace.connectors.attempts import first_attempt
from headrace.connectors.base import (
    ORIGIN,
    REASON,
    Batch,
    Between,
    Holding,
    Place,
    Reading,
    SinkConnector,
    SourceConnector,
    Written,
)
from headrace.errors import FlowError
from headrace.formats.base import Format
from headrace.model import DEAD_LETTER, OUT, Delivery, Flow, Port, Schema, Sink, Source, Step
from headrace.operators.base import Lowering, Operator
from headrace.operators.expect import DeadLetters
from headrace.operators.late import Aside, put_aside
from headrace.operators.letters import Reject, because
from headrace.operators.windows import MARK, marked_again

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter


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
    again: Again | None = None
    """Some batches of a stream, to be answered once more as one batch."""
    checkpoint: Path | None = None
    """Of the query that is lowered, where there is one."""
    note: Callable[[dict[str, Any]], None] = lambda told: None
    """Told of the dead letters of a batch, once they are kept."""
    counted: bool = False
    """Whether rows are counted on every wire, for the ledger."""
    journal: Path | None = None
    """Of the query, where workers cannot read the checkpoint."""
    real_time: bool = False
    """Whether records flow through one by one: nothing is done batch by batch, and all is counted by `observe`."""

    def aside(self, step: str) -> Aside | None:
        """Where a step of a stream puts records aside."""
        if not self.streaming or self.checkpoint is None or self.real_time:
            return None
        folder = (self.home / "aside" / step).resolve()
        return Aside(checkpoint=self.checkpoint.resolve(), folder=folder, journal=self.journal)

    def place(self, flow: Flow, step: str) -> Place:
        """What a connector is told; its folder is made."""
        folder = self.home / "places" / step
        folder.mkdir(parents=True, exist_ok=True)
        return Place(step=step, flow=flow.name, home=folder, base=self.base, kafka=self.kafka)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a batch, in numbers."""

    trunk: Counts
    behind: Counts
    """Between the trunk and the branches, where rules of the trunk's step are held against what leaves it."""
    branches: Mapping[str, Counts]
    """Behind the trunk, on the way to each sink."""
    sinks: Mapping[str, Written]
    """As each sink has counted itself."""


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """A query as Spark frames: the trunk, and how a batch of it reaches the sinks."""

    plan: Plan
    query: Query
    trunk: DataFrame
    where: Where
    counter: Stream | Observed | Once
    """What counts up to the trunk."""
    leaves: tuple[Leaf, ...] = ()
    repeated: int | None = None
    """The batch that was begun and not finished when the query was lowered."""
    rate: dead.Rate

    def write(self, frame: DataFrame, batch_id: int) -> Outcome:
        """Write one batch of the trunk to every sink; for foreachBatch, or once in batch mode."""
        written: dict[str, Written] = {}
        branches: dict[str, Counts] = {}
        sinks = [s for s in self.plan.flow.sinks if s.name in self.query.sinks]
        sides, again = self._sides(), batch_id == self.repeated
        dead.forget_failures(self.where.home, self.query.stateful, batch_id)
        shared = len(sinks) > 1 or bool(sides) or again or self._rejects_behind()
        if shared:
            frame = frame.persist()  # every sink reads the batch; without this each would compute it again
        behind = Once(self.where.session)
        try:
            if again:
                frame.count()  # a sink that has the batch already does not look at it; what is rejected must be known
            given = {self.query.trunk: self._given(frame, behind)}
            given |= self._put_aside(sides, frame, batch_id)
            for sink in sinks:
                once = Once(self.where.session)
                wires = once if self.where.counted else Uncounted()
                branch = Branch(self.plan, self.where, given, rejects=Counting(once), wires=wires)
                taken = branch.frame(sink.inputs[0])
                if sink.inputs[0] in sides:
                    taken = wires.wire(taken, str(sink.inputs[0]))
                written[sink.name] = self.write_sink(sink, taken, batch_id)
                branches[sink.name] = once.read()
            assert not isinstance(self.counter, Observed), "in real-time mode no batch is written"
            outcome = Outcome(trunk=self.counter.read(), behind=behind.read(), branches=branches, sinks=written)
            given |= {self.query.trunk: frame}
            written |= self.keep_letters(given, batch_id, outcome, again=again)
        finally:
            if shared:
                frame.unpersist()
        for port in sides:
            if (aside := self.where.aside(port.step)) is not None:
                shutil.rmtree(aside.batch(batch_id), ignore_errors=True)
        return outcome

    def _given(self, frame: DataFrame, behind: Once) -> DataFrame:
        """A batch of the trunk as the sinks are given it."""
        held = self._expected(frame, Counting(behind))
        if held is frame or not self.where.counted:
            return held
        return behind.wire(held, str(self.query.trunk))

    def begins(self) -> None:
        """Tells the sinks that the first batch is about to come."""
        for sink in self.plan.flow.sinks:
            if sink.name in self.query.sinks:
                self.connector(sink).begins(self.where.place(self.plan.flow, sink.name))

    def connector(self, sink: Sink) -> SinkConnector[Any]:
        """What writes to a sink."""
        return self.where.sinks.get(sink.name) or SINKS[sink.connector](sink.options)

    def holds(self, sink: Sink, batches: tuple[int, int] | None = None) -> DataFrame | None:
        """What a sink holds of the run; None: it cannot be read back."""
        connector = self.connector(sink)
        return connector.holds(
            Holding(
                session=self.where.session,
                schema=self.plan.schemas[sink.inputs[0]],
                format=_format(sink, connector.default_format),
                place=self.where.place(self.plan.flow, sink.name),
                batches=batches,
            )
        )

    def answer(self, sink: Sink) -> DataFrame:
        """What a sink should hold of the trunk as a batch."""
        rejects = Counting(Once(self.where.session))
        given = {self.query.trunk: self._expected(self.trunk, rejects)}
        return Branch(self.plan, self.where, given, rejects=rejects).frame(sink.inputs[0])

    def _expected(self, frame: DataFrame, rejects: Rejects) -> DataFrame:
        """A batch of the trunk without what breaks a rule of its step, where that could not be said in the stream."""
        part = self.plan.flow[self.query.trunk.step]
        if part.name not in self.query.stateful or not isinstance(part, Step):
            return frame
        return dead.expected(part, frame, self.plan.schemas[self.query.trunk], rejects)

    def _rejects_behind(self) -> bool:
        """Whether records may be rejected behind state, where only the batch itself can tell which."""
        if not self.query.stateful:
            return False
        flow, above = self.plan.flow, {*self.query.steps}
        behind = {n for s in self.query.sinks for n in flow.upstream(s)} - above
        base = flow[self.query.trunk.step]
        return any(may_reject(flow[n]) for n in behind) or (isinstance(base, Step) and base.expect is not None)

    def keep_letters(
        self, given: Mapping[Port, DataFrame], batch_id: int, outcome: Outcome, *, again: bool
    ) -> dict[str, Written]:
        """Writes the dead letters of a batch, if it has any; what became of them in each sink that takes some."""
        where, query, flow = self.where, self.query, self.plan.flow
        number = dead.counted(outcome.trunk, outcome.behind, *outcome.branches.values())
        written: dict[str, Written] = {}
        failures = list(dead.failures_of(where.home, query.stateful, batch_id))
        if not (again or number or failures):
            return written
        if {*query.sources, *query.steps} <= {*query.owned}:
            self.rate.check(number, flow.name)
        where.session.sparkContext.setJobDescription(f"headrace dead letters of {query.name} batch {batch_id}")
        found, at = self._letters(given, batch_id, number)
        if failures:
            found.append(dead.failures_frame(where.session, failures))
        if not found:
            return written
        letters = dead.at_time(reduce(lambda a, b: a.unionByName(b), found), at).persist()
        try:
            file = dead.file_of(where.home, query.name, batch_id)
            kept = dead.keep(letters, file, query.name, batch_id, self.rate, flow.name)
            for sink in (s for s in flow.sinks if s.name in query.letters and kept):
                ports = {Port(p.name, DEAD_LETTER): letters.where(f"step = '{p.name}'") for p in flow}
                branch = Branch(self.plan, where, ports, rejects=Counting(Once(where.session)))
                written[sink.name] = self.write_sink(sink, branch.frame(sink.inputs[0]), batch_id)
        finally:
            letters.unpersist()
        dead.forget_failures(where.home, query.stateful, batch_id)
        if kept:
            where.note({"query": query.name, "batch": batch_id, "steps": kept})
        return written

    def _letters(self, given: Mapping[Port, DataFrame], batch_id: int, number: int) -> tuple[list[DataFrame], int]:
        """The rejected records of a batch, found by reading it again; and when the batch was planned."""
        query, flow = self.query, self.plan.flow
        where, at = self.once_more(batch_id)
        looking = Looking(frozenset(query.owned))
        try:
            branch = Branch(self.plan, where, {}, rejects=looking)
            for port in self.fronts():
                branch.frame(port, marked=False)
            for part in (flow[name] for name in self._first()):
                if isinstance(part, Step) and part.options.rejects_entering():
                    branch.step(part, marked=False)
        except FlowError as error:
            if all(SOURCES[s.connector].strongest is Delivery.EXACTLY_ONCE for s in flow.sources):
                raise
            told = {"reason": f"{number} records were rejected and are lost: {error.problems[0].message}"}
            looking.found = [dead.failures_frame(where.session, [(query.sources[0], told)])]
        if query.stateful and query.trunk in given:
            behind = Looking(looking.owned, carried=(), found=looking.found)
            given = {**given, query.trunk: self._expected(given[query.trunk], behind)}
            branch = Branch(self.plan, where, given, rejects=behind)
            for sink in (s for s in flow.sinks if s.name in query.sinks):
                branch.frame(sink.inputs[0], marked=False)
        return looking.found, at

    def once_more(self, batch_id: int) -> tuple[Where, int]:
        """Where exactly what a batch has read is read again, as a batch; and when it was planned, in milliseconds."""
        where = replace(self.where, streaming=False, checkpoint=None, real_time=False)
        if not self.where.streaming:
            return where, round(time.time() * 1000)
        assert self.where.checkpoint is not None
        at, starts, ends = dead.planned_at(self.where.checkpoint, batch_id)
        kept = f"{self.where.checkpoint.resolve()}/sources/"
        between = {
            leaf.source: Between(start=start, end=end, kept=f"{kept}{leaf.folder}")
            for leaf, start, end in zip(self.leaves, starts, ends, strict=True)
        }
        return replace(where, between=between), at

    def _first(self) -> list[str]:
        """The steps that remember and that nothing before them does."""
        stateful = self.query.stateful
        return [s for s in stateful if not set(stateful) & set(self.plan.flow.upstream(s))]

    def fronts(self) -> list[Port]:
        """Where the part of the query ends that can be computed again: before the first state, or at the sinks."""
        flow = self.plan.flow
        ends = [p for s in self._first() for p in flow[s].inputs]
        ends = ends or [s.inputs[0] for s in flow.sinks if s.name in self.query.sinks]
        return [port for port in ends if not self.plan.schemas[port].table]

    def frame(self, port: Port) -> DataFrame:
        """What leaves by a port behind the trunk, or by the trunk itself."""
        rejects = Counting(Once(self.where.session))
        return Branch(self.plan, self.where, {self.query.trunk: self.trunk}, rejects=rejects).frame(port)

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

    def _place(self, sink: Sink) -> Place:
        """Where a sink is written from; each query that it takes dead letters of counts batches of its own."""
        place = self.where.place(self.plan.flow, sink.name)
        first = next((q.name for q in self.plan.queries if sink.name in q.letters), self.query.name)
        if first == self.query.name:
            return place
        (place.home / self.query.name).mkdir(exist_ok=True)
        return replace(place, home=place.home / self.query.name)

    def write_sink(self, sink: Sink, frame: DataFrame, batch_id: int) -> Written:
        connector = self.connector(sink)
        form = _format(sink, connector.default_format)
        if connector.carries == "bytes" and form is not None:
            frame = frame.withColumn("value", form.encode(self.plan.schemas[sink.inputs[0]]))
        batch = self._batch(sink, form, batch_id)
        if batch.delivery is Delivery.AT_MOST_ONCE and not first_attempt(batch.place, batch_id):
            return Written(skipped=frame.count())
        session = self.where.session
        session.sparkContext.setJobDescription(f"headrace sink {sink.name} batch {batch_id}")
        if connector.complete:
            return connector.write(frame, batch)
        frame = frame.persist()
        try:
            frame.count()  # what the sink does not look at must be computed too: records may be rejected there
            return connector.write(frame, batch)
        finally:
            frame.unpersist()

    def _batch(self, sink: Sink, form: Format[Any] | None, batch_id: int) -> Batch:
        return Batch(
            id=batch_id,
            changes=self.plan.changes.get(sink.inputs[0], self.query.changes),
            place=self._place(sink),
            format=form,
            delivery=next(p.delivery for p in self.plan.promises if p.sink == sink.name),
            tuned=self.plan.writing,
        )

    def stream(self) -> DataStreamWriter:
        """What writes the trunk to its one sink, row by row; in real-time mode."""
        (sink,) = (s for s in self.plan.flow.sinks if s.name in self.query.sinks)
        connector = self.connector(sink)
        form = _format(sink, connector.default_format)
        frame = self.trunk
        if connector.carries == "bytes" and form is not None:
            frame = frame.withColumn("value", form.encode(self.plan.schemas[sink.inputs[0]]))
        return connector.stream(frame, self._batch(sink, form, 0))


def read_name(source: str) -> str:
    """The name under which what a source reads is counted, before anything is done with it."""
    return f"{source}:read"


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


class Branch:
    """Frames by port, made on demand from those that are given.

    A frame is *marked* when Spark knows which of its columns is the time. The mark is set at the source, so that
    every record moves the watermark; only where a Python function makes the columns anew it is set behind that.
    Spark refuses to be told twice: behind a window, which keeps the time of its input, it is only put back.
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
        self.frames: dict[tuple[Port, bool], DataFrame] = {
            (port, marked): frame for port, frame in given.items() for marked in (True, False)
        }

    def frame(self, port: Port, marked: bool = True) -> DataFrame:
        marked = marked and not isinstance(self.rejects, Looking)
        if (port, marked) not in self.frames:
            part = self.plan.flow[port.step]
            made = self.source(part) if isinstance(part, Source) else self.step(part, marked)
            for name, frame in made.items():
                out = Port(part.name, name)
                frame = self._expected(part, out, frame)
                marks = marked and (isinstance(part, Source) or part.options.remakes_columns())
                timed_frame = self._mark(out, frame) if marks else frame
                if isinstance(part, Source):
                    timed_frame = self._told(part, timed_frame)
                self.frames[out, marked] = self._counted(part, out, timed_frame)
        return self.frames[port, marked]

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
        again = self.where.again
        if again is not None and operator.drops_late():
            frames: tuple[DataFrame, ...] = (self._spans(part.inputs[0], marked, again),)
        else:
            frames = tuple(self.frame(port, marked) for port in part.inputs)
        low = Lowering(
            step=part.name,
            streaming=self.streaming,
            given=tuple(self._narrow(port, frame) for port, frame in zip(part.inputs, frames, strict=True)),
            schema={p: self.plan.schemas[Port(part.name, p)] for p in operator.ports()},
            inputs=tuple(str(port) for port in part.inputs),
            base=self.where.base,
            aside=self.where.aside(part.name) if self.streaming else None,
            reject=self._reject(part.name),
            carried=self._carried(frames),
            failures=(self.where.home / dead.FAILURES / part.name).resolve(),
            keep=None if isinstance(self.wires, Uncounted) else self.wires.kept,
        )
        made = operator.lower(frames, low)
        if again is not None:
            aside = operator.sides()  # what is put aside was given at once
            return {p: f if p in aside else operator.settled(f, again.watermark) for p, f in made.items()}
        return made

    def _spans(self, port: Port, marked: bool, again: Again) -> DataFrame:
        """The input of a step that drops late records, each with the watermark that it was too late for or not."""
        from pyspark.sql import functions as F

        made: DataFrame | None = None
        for span in again.spans:
            where = replace(self.where, between=span.between, again=None)
            part = (
                Branch(self.plan, where, {}, rejects=self.rejects)
                .frame(port, marked)
                .withColumn(MARK, F.lit(span.mark).cast("bigint"))
            )
            made = part if made is None else made.unionByName(part)
        assert made is not None
        return made

    def _carried(self, frames: tuple[DataFrame, ...]) -> tuple[str, ...]:
        return tuple(name for name in self.rejects.carried if any(name in frame.columns for frame in frames))

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
        form = _format(source, connector.default_format)
        schema = self.plan.schemas[Port(source.name)]
        wanted = schema.keeping(needed(self.plan.flow, self.plan.schemas)[source.name])
        if source.table is not None:
            wanted = schema.keeping((*wanted.names, *source.table.key, source.table.latest_by or ""))
        if not wanted.fields:  # a bare count needs rows, not columns; one column keeps the rows
            wanted = schema.keeping(schema.names[:1])
        origin = bool(self.rejects.carried) and source.table is None
        reading = Reading(
            session=self.where.session,
            streaming=self.streaming and source.table is None,
            schema=source.schema or (form.own_schema if form else None) or connector.columns(),
            format=form,
            place=self.where.place(self.plan.flow, source.name),
            start=self.where.start if source.table is None else None,
            stop=self.where.stop if source.table is None else None,
            between=self.where.between.get(source.name),
            query=self.trunk.name if self.trunk is not None else "",
            readers=tuple(q.name for q in self.plan.queries if source.name in q.sources),
            arrival=_asks_arrival(source),
            tuned=self.plan.reading,
            real_time=self.where.real_time,
            origin=origin,
            reasons=connector.carries == "files" and source.table is None,
        )

        def read() -> DataFrame:
            frame = connector.read(reading)
            if reading.streaming:
                frame = tagged(frame, source.name)
            if origin:
                frame = _with_source(frame, source.name)
            if source.table is None:
                frame = self.wires.wire(frame, read_name(source.name))
            if connector.carries == "bytes" and form is not None:
                frame = self.decoded(source, frame, form, untimed(source, wanted))
            elif reading.reasons:
                frame = self._readable(source, frame).drop(REASON)
            if source.time is not None and wanted.event_time is not None:
                frame = timed(source, frame, wanted.event_time, self.rejects)
            beside = (*self._carried((frame,)), *staging.tells(frame))
            return frame.select(*(f"`{name}`" for name in (*wanted.names, *beside)))

        return {OUT: read() if source.table is None else self.where.tables.frame(source.name, source.table, read)}

    def decoded(self, source: Source, frame: DataFrame, form: Format[Any], wanted: Schema) -> DataFrame:
        """Bytes as columns; records that cannot be read are rejected."""
        from pyspark.sql import functions as F

        carried = set(frame.columns) - {"value"}
        stated = source.schema or form.own_schema or wanted
        # Where fields are known by their position, none can be left out before it is read.
        parsed = stated if form.positional else wanted.keeping(n for n in wanted.names if n not in carried)
        stage = self._stage(source, parsed)
        if stage is None:
            struct, reason = form.decode(F.col("value"), parsed)
            read = frame.select(struct.alias("_record"), reason.alias(REASON), *carried)
            return self._readable(source, read).select("_record.*", *carried)
        frame = staging.staged(frame, source, stage, parsed)
        columns, reason = staging.decoded(form, parsed)
        read = frame.select(*columns, reason.alias(REASON), *carried, *staging.tells(frame))
        return self._readable(source, read).drop(REASON)

    def _stage(self, source: Source, parsed: Schema) -> Stage | None:
        """What is done natively for a source; only on the main path: whoever looks for bad records takes Spark's."""
        if self.trunk is None or not isinstance(self.rejects, Counting) or source.name in self.where.sources:
            return None
        query = self.trunk.name
        found = next((s for s in self.plan.stages if (s.query, s.source) == (query, source.name) and s.columns), None)
        same = found is not None and {*found.columns} == {(f.name, str(f.type)) for f in parsed}
        return found if same and not self.where.real_time and staging.is_on(self.where.session) else None

    def _told(self, source: Source, frame: DataFrame) -> DataFrame:
        """The frame without the rows that only tell what a stage has left out, which is added to the counts."""
        if not staging.tells(frame):
            return frame
        assert self.trunk is not None
        assert isinstance(self.rejects, Counting)
        stage = next(s for s in self.plan.stages if (s.query, s.source) == (self.trunk.name, source.name))
        counted = self.rejects.counter.left(frame, staging.left(stage), staging.numbers(frame))
        return staging.told(counted)

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


def _unfinished(checkpoint: Path | None) -> int | None:
    """The batch of a checkpoint that was begun and is not done."""
    if checkpoint is None:
        return None
    offsets, commits = (
        max((int(e.name) for e in (checkpoint / name).glob("*") if e.name.isdigit()), default=None)
        for name in ("offsets", "commits")
    )
    return offsets if offsets != commits else None


def lower(plan: Plan, query: Query, where: Where) -> Lowered:
    """The frames of a query. With a streaming session the trunk is a stream, else a batch over all there is."""
    counter = Observed() if where.real_time else Stream(where.session) if where.streaming else Once(where.session)
    wires = counter if where.counted else Uncounted()
    branch = Branch(plan, where, {}, rejects=Counting(counter), wires=wires, streaming=where.streaming, trunk=query)
    trunk = branch.frame(query.trunk)
    return Lowered(
        plan=plan,
        query=query,
        trunk=trunk,
        where=where,
        counter=counter,
        leaves=leaves(trunk) if where.streaming else (),
        repeated=_unfinished(where.checkpoint) if where.streaming else None,
        rate=dead.Rate((plan.flow.dead_letters or DeadLetters()).per_minute),
    )
