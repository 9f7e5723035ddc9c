"""From a plan to Spark: a query as frames, and how a batch of it reaches the sinks."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.catalogue import SINKS, SOURCES
from headrace.compile import letters as dead
from headrace.compile import spoiled
from headrace.compile.counting import Counts, Observed, Once, Stream, Uncounted
from headrace.compile.frames import Branch
from headrace.compile.leaves import Leaf, leaves
from headrace.compile.letters import Counting, Looking, Rejects
from headrace.compile.plan import Plan, Query
from headrace.compile.planner import format_of, may_reject
from headrace.compile.where import Where
from headrace.connectors.attempts import first_attempt
from headrace.connectors.base import Batch, Between, Holding, Place, SinkConnector, Written
from headrace.connectors.once import computed_once
from headrace.errors import FlowError
from headrace.formats.base import Format
from headrace.model import DEAD_LETTER, REMOVED, Delivery, Port, Sink, Step
from headrace.operators.calls import UNNOTED, Note, Notes, once_more
from headrace.operators.expect import DeadLetters
from headrace.operators.late import put_aside
from headrace.operators.letters import LETTERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter


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
    notes: Notes
    """Of the calls that raise."""

    def write(self, frame: DataFrame, batch_id: int) -> Outcome:
        """Write one batch of the trunk to every sink; for foreachBatch, or once in batch mode."""
        written: dict[str, Written] = {}
        branches: dict[str, Counts] = {}
        sinks = [s for s in self.plan.flow.sinks if s.name in self.query.sinks]
        sides, again = self._sides(), batch_id == self.repeated
        spoiled.before(self, batch_id)
        dead.forget_failures(self.where.home, self.query.name, batch_id)
        self.notes.take()  # what an attempt that failed has left
        shared = len(sinks) > 1 or bool(sides) or again or (bool(self.query.stateful) and self._rejects_behind())
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
                branch = Branch(self.plan, self.where, given, rejects=self._counting(once, sink.name), wires=wires)
                taken = branch.frame(sink.inputs[0])
                if sink.inputs[0] in sides:
                    taken = wires.wire(taken, str(sink.inputs[0]))
                observed = once.used or behind.used or isinstance(self.counter, Once)
                counted = not observed or (self.connector(sink).in_one_action and not again)
                written[sink.name] = self.write_sink(sink, taken, batch_id, counted=counted)
                branches[sink.name] = once.read()
            assert not isinstance(self.counter, Observed), "in real-time mode no batch is written"
            counts = spoiled.with_files(self, batch_id, self.counter.read())
            outcome = Outcome(trunk=counts, behind=behind.read(), branches=branches, sinks=written)
            given |= {self.query.trunk: frame}
            try:
                written |= self.keep_letters(given, batch_id, outcome)
            except Exception as error:
                setattr(error, spoiled.WRITTEN, True)
                raise
        finally:
            if shared:
                frame.unpersist()
        for port in sides:
            if (aside := self.where.aside(port.step)) is not None:
                shutil.rmtree(aside.batch(batch_id), ignore_errors=True)
        dead.forget_failures(self.where.home, self.query.name, batch_id)
        return outcome

    def _counting(self, once: Once, sink: str) -> Counting:
        return Counting(once, self.notes.calls(sink))

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

    def holds(
        self, sink: Sink, batches: tuple[int, int] | None = None, replays: tuple[Place, ...] = ()
    ) -> DataFrame | None:
        """What a sink holds of the run; None: it cannot be read back."""
        connector = self.connector(sink)
        return connector.holds(
            Holding(
                session=self.where.session,
                schema=self.plan.schemas[sink.inputs[0]],
                format=format_of(sink, connector.default_format),
                place=self.where.place(self.plan.flow, sink.name),
                batches=batches,
                replays=replays,
            )
        )

    def answer(self, sink: Sink) -> DataFrame:
        """What a sink should hold of the trunk as a batch."""
        rejects = Counting(Once(self.where.session), self.where.calls)
        given = {self.query.trunk: self._expected(self.trunk, rejects)}
        return Branch(self.plan, self.where, given, rejects=rejects).frame(sink.inputs[0])

    def _expected(self, frame: DataFrame, rejects: Rejects) -> DataFrame:
        """A batch of the trunk without what breaks a rule of its step, where that could not be said in the stream."""
        part = self.plan.flow[self.query.trunk.step]
        if part.name not in self.query.stateful or not isinstance(part, Step):
            return frame
        return dead.expected(part, frame, self.plan.schemas[self.query.trunk], rejects)

    def _rejects_behind(self) -> bool:
        """Whether records may be rejected between the trunk and the sinks."""
        flow, above = self.plan.flow, {*self.query.steps}
        behind = {n for s in self.query.sinks for n in flow.upstream(s)} - above
        base = flow[self.query.trunk.step]
        expects = base.name in self.query.stateful and isinstance(base, Step) and base.expect is not None
        return expects or any(may_reject(flow[n]) for n in behind)

    def keep_letters(
        self, given: Mapping[Port, DataFrame], batch_id: int, outcome: Outcome, *, again: bool = False
    ) -> dict[str, Written]:
        """Writes the dead letters of a batch, if it has any; what became of them in each sink that takes some.

        `again`: they are looked for whatever was counted.
        """
        where, query, flow = self.where, self.query, self.plan.flow
        number = dead.counted(outcome.trunk, outcome.behind, *outcome.branches.values())
        written: dict[str, Written] = {}
        owned = [step for step in query.stateful if step in query.owned]
        failures = list(dead.failures_of(where.home, query.name, owned, batch_id))
        if not (again or number or failures):
            return written
        notes = self.notes.take()
        alone = {*query.sources, *query.steps} <= {*query.owned}
        self.rate.check(max(number if alone else 0, len(notes)), flow.name)
        where.session.sparkContext.setJobDescription(f"headrace dead letters of {query.name} batch {batch_id}")
        looked, at, parts = self._letters(given, batch_id, number, notes)
        if failures:
            looked.append(dead.failures_frame(where.session, failures))
        if not looked:
            return written
        found = reduce(lambda a, b: a.unionByName(b), looked).persist()
        letters = dead.raised_on(found, {c: n for c, n in notes.items() if n.step in query.owned})
        lost = dead.not_found(letters, parts, outcome.trunk, outcome.behind, *outcome.branches.values())
        if lost:
            letters = letters.unionByName(dead.failures_frame(where.session, lost))
        letters = dead.at_time(letters, at).persist()
        try:
            file = dead.file_of(where.home, query.name, batch_id)
            kept = dead.keep(letters, file, query.name, batch_id, self.rate, flow.name)
            for sink in (s for s in flow.sinks if s.name in query.letters and kept):
                routed = letters.select(*LETTERS.names)
                if self.connector(sink).carries == "bytes":
                    routed = dead.bounded(letters, str(file.relative_to(where.home)))
                ports = {Port(p.name, DEAD_LETTER): routed.where(f"step = '{p.name}'") for p in flow}
                branch = Branch(self.plan, where, ports, rejects=Counting(Once(where.session)))
                written[sink.name] = self.write_sink(sink, branch.frame(sink.inputs[0]), batch_id)
        finally:
            letters.unpersist()
            found.unpersist()
        if kept:
            where.note({"query": query.name, "batch": batch_id, "steps": kept})
        return written

    def _letters(
        self, given: Mapping[Port, DataFrame], batch_id: int, number: int, notes: Mapping[str, Note]
    ) -> tuple[list[DataFrame], int, tuple[str, ...]]:
        """The rejected records of a batch, found by reading it again; when it was planned; and whose could be."""
        query, flow = self.query, self.plan.flow
        where, at = self.once_more(batch_id)
        parts = tuple(query.owned)
        looking = Looking(frozenset(query.owned), once_more(notes))
        try:
            branch = Branch(self.plan, where, {}, rejects=looking)
            for port in self.fronts():
                branch.frame(port)
            for part in (flow[name] for name in self._first()):
                if isinstance(part, Step) and part.options.rejects_entering():
                    branch.step(part)
        except FlowError as error:
            if all(SOURCES[s.connector].strongest is Delivery.EXACTLY_ONCE for s in flow.sources):
                raise
            told = {"reason": f"{number} records were rejected and are lost: {error.problems[0].message}"}
            looking.found, parts = [dead.failures_frame(where.session, [(query.sources[0], told)])], ()
        if query.stateful and query.trunk in given:
            behind = Looking(looking.owned, looking.calls, carried=(), found=looking.found)
            given = {**given, query.trunk: self._expected(given[query.trunk], behind)}
            branch = Branch(self.plan, where, given, rejects=behind)
            for sink in (s for s in flow.sinks if s.name in query.sinks):
                branch.frame(sink.inputs[0])
        return looking.found, at, parts

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
        return replace(where, between=between, at=at), at

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

    def write_sink(self, sink: Sink, frame: DataFrame, batch_id: int, *, counted: bool = True) -> Written:
        """Writes a batch to a sink; `counted`: to write it is enough to know what is counted on the way."""
        from pyspark.sql import functions as F

        connector = self.connector(sink)
        form = format_of(sink, connector.default_format)
        if connector.carries == "bytes" and form is not None:
            value = form.encode(self.plan.schemas[sink.inputs[0]])
            if REMOVED in frame.columns:
                value = F.when(F.col(REMOVED), F.lit(None)).otherwise(value)
            frame = frame.withColumn("value", value)
        batch = self._batch(sink, form, batch_id)
        if batch.delivery is Delivery.AT_MOST_ONCE and not first_attempt(batch.place, batch_id):
            return Written(skipped=frame.count())
        session = self.where.session
        session.sparkContext.setJobDescription(f"headrace sink {sink.name} batch {batch_id}")
        if connector.complete and counted:
            return connector.write(frame, batch)
        with computed_once(frame) as kept:
            kept.count()  # what the sink does not look at must be computed too: records may be rejected there
            return connector.write(kept, batch)

    def _batch(self, sink: Sink, form: Format[Any] | None, batch_id: int) -> Batch:
        return Batch(
            id=batch_id,
            changes=self.plan.changes.get(sink.inputs[0], self.query.changes),
            place=sink_place(self.plan, self.query, self.where, sink),
            format=form,
            delivery=next(p.delivery for p in self.plan.promises if p.sink == sink.name),
            tuned=self.plan.writing,
        )

    def stream(self) -> DataStreamWriter:
        """What writes the trunk to its one sink, row by row; in real-time mode."""
        (sink,) = (s for s in self.plan.flow.sinks if s.name in self.query.sinks)
        connector = self.connector(sink)
        form = format_of(sink, connector.default_format)
        frame = self.trunk
        if connector.carries == "bytes" and form is not None:
            frame = frame.withColumn("value", form.encode(self.plan.schemas[sink.inputs[0]]))
        return connector.stream(frame, self._batch(sink, form, 0))


def sink_place(plan: Plan, query: Query, where: Where, sink: Sink) -> Place:
    """Where a sink is written from; each query that it takes dead letters of counts batches of its own."""
    place = where.place(plan.flow, sink.name)
    first = next((q.name for q in plan.queries if sink.name in q.letters), query.name)
    if first == query.name:
        return place
    (place.home / query.name).mkdir(exist_ok=True)
    return replace(place, home=place.home / query.name)


def unfinished(checkpoint: Path | None) -> int | None:
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
    most = (plan.flow.dead_letters or DeadLetters()).per_minute
    notes = Notes(where.session, most + 1)
    rejects = Counting(counter, notes.calls() if where.calls is UNNOTED else where.calls)
    repeated = unfinished(where.checkpoint) if where.streaming else None
    where = replace(where, query=query.name, repeated=repeated)
    branch = Branch(plan, where, {}, rejects=rejects, wires=wires, streaming=where.streaming, trunk=query)
    trunk = branch.frame(query.trunk)
    return Lowered(
        plan=plan,
        query=query,
        trunk=trunk,
        where=where,
        counter=counter,
        leaves=leaves(trunk) if where.streaming else (),
        repeated=repeated,
        rate=dead.Rate(most, where.recent),
        notes=notes,
    )
