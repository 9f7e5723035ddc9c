"""Whether a run's sinks hold what they should: the flow answered once more, as a batch over what the run has read.

Which records the run has read, batch by batch, is in its journal. A stream differs from a batch in two ways, both
pure functions of the journal: it drops records that come too late for their windows, and it has not given yet what
the watermark has not passed. The same records are left out here, and the same answers.

Records on which a function raised are left out too, whatever the function does now, and what replays of dead letters
have put through is added: both are in the run's home.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.compile.plan import Plan, Query
from headrace.compile.spans import Again, Span
from headrace.errors import HeadraceError, UsageError
from headrace.model import Changes, Delivery, Mode, Sink, Source, Step
from headrace.observe import events
from headrace.operators.calls import Calls
from headrace.project import Project
from headrace.run.checkpoint import last_committed
from headrace.run.flush import END_OF_TIME
from headrace.run.home import Home
from headrace.run.journal import Entry, Journal, betweens
from headrace.run.letters import raised, replays
from headrace.run.rows import Differences, compare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.compile.where import Where

_ALLOWED = {str(Delivery.AT_LEAST_ONCE): "repeated", str(Delivery.AT_MOST_ONCE): "missing"}
"""How a sink's rows may differ by what it is promised."""
_MOST_SPANS = 200
"""More parts than that make a plan that Spark takes minutes to read."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was found about one sink."""

    sink: str
    query: str
    batches: tuple[int, int] | None = None
    found: Differences | None = None
    """None: it was not compared."""
    why: str = ""
    """Why it was not compared, or what limits the comparison."""
    late: int = 0
    """Records that came too late, and were dropped."""
    comparable: bool = True
    """Whether such a sink behind such a source can be compared at all."""
    delivery: str = str(Delivery.EXACTLY_ONCE)
    """What the sink is promised."""

    @property
    def differs(self) -> bool:
        return self.found is not None and bool(self.found.counts(_ALLOWED.get(self.delivery)))

    @property
    def allowed(self) -> str:
        """What differs, and may by what the sink is promised."""
        kind = _ALLOWED.get(self.delivery)
        n = self.found.counts().get(kind, 0) if self.found is not None and kind is not None else 0
        return f"{n:,} {kind}, as {self.delivery} allows" if n else ""

    def as_dict(self) -> dict[str, Any]:
        state = "not compared" if self.found is None else "differs" if self.differs else "equal"
        return {"verdict": state, **asdict(self), "allowed": self.allowed}


def verify(
    project: Project, home: Home, session: SparkSession, *, first: int | None = None, last: int | None = None
) -> list[Verdict]:
    """A verdict for every sink, over all committed batches or some of them."""
    from headrace.compile.planner import plan as make_plan
    from headrace.compile.where import Where
    from headrace.run.driver import kafka_of, load_flow

    record = home.read()
    if record.mode == str(Mode.BATCH):
        raise UsageError(f'run "{home.name}" was a batch; there is nothing else to compare it with')
    flow = load_flow(home, record)
    made = make_plan(flow, mode=Mode(record.mode))
    if record.was_real_time:
        most = Delivery.AT_LEAST_ONCE
        made = replace(made, promises=tuple(replace(p, delivery=min(p.delivery, most)) for p in made.promises))
    for name, value in made.spark.items():
        if name.startswith("spark.sql.") and not name.startswith("spark.sql.streaming.stateStore"):
            session.conf.set(name, value)
    where = Where(
        session=session,
        streaming=False,
        home=home.path,
        base=Path(record.root),
        kafka=kafka_of(project, flow, record),
        stop=record.asked.stop,
        calls=Calls(known=raised(home)),
    )
    found = [v for query in made.queries for v in _query(home, made, query, where, first, last)]
    dead = "it takes dead letters, which are kept in the run's home and are not read again: headrace dead-letters list"
    late = "it takes late records, which are not compared in real-time mode"
    left = {
        name: Verdict(sink=name, query=query.name, why=why, comparable=False)
        for query in made.queries
        for why, names in ((dead, query.letters), (late, query.asides))
        for name in names
    }
    return [*found, *left.values()]


def _query(
    home: Home, plan: Plan, query: Query, where: Where, first: int | None, last: int | None
) -> Iterator[Verdict]:
    sinks = [s for s in plan.flow.sinks if s.name in query.sinks]
    checkpoint = home.checkpoint(query.name)
    entries = Journal(home.journal(query.name)).entries()
    done = last_committed(checkpoint)
    if plan.mode is Mode.REAL_TIME and done is not None and entries:
        done = min(done, max(entries))  # a batch is noted a moment after it is committed
    never = _never(plan, query)
    why = never or _cannot(plan, query, entries, done) or ("no batch is done yet" if done is None else "")
    if why or done is None:
        yield from (Verdict(sink=s.name, query=query.name, why=why, comparable=not never) for s in sinks)
        return
    until = done if last is None else min(last, done)
    late = late_of(home, query.name)
    if plan.mode is Mode.REAL_TIME:
        entries = {
            **{batch: entry for batch, entry in entries.items() if batch <= done},
            done + 1: under_way(entries[done]),
        }
    for sink in sinks:
        yield _sink(
            home, plan, query, sink, where, entries, (first or 0, until), late, all_of_it=(first, last) == (None,) * 2
        )


def _sink(
    home: Home,
    plan: Plan,
    query: Query,
    sink: Sink,
    where: Where,
    entries: Mapping[int, Entry],
    batches: tuple[int, int],
    late: Mapping[int, int],
    *,
    all_of_it: bool,
) -> Verdict:
    from headrace.compile.lower import lower

    checkpoint = str(home.checkpoint(query.name))
    dropped = sum(n for batch, n in late.items() if batch <= batches[1])
    [promised] = [promise for promise in plan.promises if promise.sink == sink.name]
    verdict = Verdict(sink=sink.name, query=query.name, batches=batches, late=dropped, delivery=str(promised.delivery))
    try:
        # A range of a query that remembers is what it answered up to its end.
        start = 0 if query.stateful else batches[0]
        once = replace(where, **_again(entries, checkpoint, query, plan, start, batches[1], late))
        lowered = lower(plan, query, once)
        whole = all_of_it or bool(query.stateful)
        again = [*replays(home, sink.name)] if whole else []
        places = tuple(replace(where, home=root).place(plan.flow, sink.name) for root, *_ in again)
        held = lowered.holds(sink, None if whole else batches, places)
        if held is None:
            return replace(verdict, why=f"a {sink.connector} sink cannot be read back", comparable=False)
        held = held.persist()
        held.count()
        begun = max(entries)
        newer = lowered
        if all_of_it and begun > batches[1]:  # its batch is under way: some of it may be there
            newer = lower(plan, query, replace(where, **_again(entries, checkpoint, query, plan, start, begun, late)))
        connector = lowered.connector(sink)
        keyed = connector.key() if sink_updates(plan, sink, query) or connector.takes_updates() else ()
        found = compare(
            _and_replayed(lowered.answer(sink), *(rows for _, done, rows in again if done)),
            _and_replayed(newer.answer(sink), *(rows for *_, rows in again)),
            held,
            key=keyed,
            newest_by=connector.newest_by,
            before=connector.held_before(where.place(plan.flow, sink.name)),
            all_of_it=all_of_it,
        )
        held.unpersist()
    except HeadraceError as error:
        return replace(verdict, why=error.message)
    if _put_aside(plan, sink):
        return replace(verdict, found=found, late=0)
    return replace(verdict, found=found, why=_limits(plan, query, dropped))


def under_way(entry: Entry) -> Entry:
    """The batch behind one in real-time mode: there always is one, and how far it is only Kafka knows."""

    def to_the_end(offset: str | None) -> str | None:
        return offset and json.dumps({topic: dict.fromkeys(parts, -1) for topic, parts in json.loads(offset).items()})

    sources = tuple((name, folder, to_the_end(offset)) for name, folder, offset in entry.sources)
    return replace(entry, batch=entry.batch + 1, sources=sources)


def _and_replayed(answer: DataFrame, *replayed: list[Path]) -> DataFrame:
    """An answer, and with it what replays of dead letters have made."""
    for path in (path for paths in replayed for path in paths):
        rows = answer.sparkSession.read.parquet(path.as_uri())
        rows = rows.select(*(f"`{name}`" for name in rows.columns if name in answer.columns))
        answer = answer.unionByName(rows, allowMissingColumns=True)
    return answer


def _put_aside(plan: Plan, sink: Sink) -> bool:
    """Whether a sink takes what a step has put aside, such as late records."""
    port = sink.inputs[0]
    while isinstance(part := plan.flow[port.step], Step):
        if port.port in part.options.sides():
            return True
        port = part.inputs[0]
    return False


def sink_updates(plan: Plan, sink: Sink, query: Query) -> bool:
    """Whether a sink is given new values for keys."""
    return plan.changes.get(sink.inputs[0], query.changes) is Changes.UPDATE


def _again(
    entries: Mapping[int, Entry],
    checkpoint: str,
    query: Query,
    plan: Plan,
    first: int,
    last: int,
    late: Mapping[int, int],
) -> dict[str, Any]:
    """What a batch must be told to answer these batches once more."""
    between = betweens(entries, checkpoint, first, last)
    if not query.stateful:
        return {"between": between}
    spans = tuple(
        Span(between=betweens(entries, checkpoint, a, b), mark=mark)
        for a, b, mark in spans_of(entries, first, last, late)
    )
    return {"between": between, "again": Again(spans=spans, watermark=entries[last].watermark * 1000)}


def spans_of(
    entries: Mapping[int, Entry], first: int, last: int, late: Mapping[int, int]
) -> list[tuple[int, int, int | None]]:
    """Batches put together as far as nothing in them was late; those with late records, or of which that is not known,
    alone and with the watermark that was in force: that of the batch before.
    """
    spans: list[tuple[int, int, int | None]] = []
    for batch in range(first, last + 1):
        before = entries.get(batch - 1)
        mark = before.watermark * 1000 if before is not None and before.watermark else None
        if late.get(batch, 1) == 0 or _nothing_new(entries, batch):
            mark = None
        if mark is None and spans and spans[-1][2] is None:
            spans[-1] = (spans[-1][0], batch, None)
        else:
            spans.append((batch, batch, mark))
    if len(spans) > _MOST_SPANS:
        raise UsageError(
            f"{len(spans)} batches had late records, or it is not known that they had none",
            hint="verify fewer of them: --to BATCH",
        )
    return spans


def _nothing_new(entries: Mapping[int, Entry], batch: int) -> bool:
    before, here = entries.get(batch - 1), entries.get(batch)
    return before is not None and here is not None and before.sources == here.sources


def late_of(home: Home, query: str) -> dict[int, int]:
    """How many records, or rows made of them, each batch dropped as late, where that was reported."""
    files = [home.events.with_name("events.1.jsonl"), home.events]
    return {
        int(event["batch"]): max(int(event.get("late") or 0), int(event.get("refused") or 0))
        for file in files
        if file.exists()
        for event in events.read(file)
        if event["event"] == "progress" and event.get("query") == query
    }


def _never(plan: Plan, query: Query) -> str:
    """Why the answer of such a query can never be worked out again, if it cannot."""
    for name in query.sources:
        source = plan.flow[name]
        if isinstance(source, Source) and source.time is not None and source.time.kind == "processing":
            return f'source "{name}" has processing time, and when each record was processed is not known any more'
    return ""


def _cannot(plan: Plan, query: Query, entries: Mapping[int, Entry], done: int | None) -> str:
    """Why the answer of a query cannot be worked out again now, if it cannot."""
    if done is not None and done not in entries:
        return "what its batches read was not written down: the run is older than its journal"
    drained = done is not None and entries[done].watermark >= END_OF_TIME
    for name in () if drained else query.stateful:
        part = plan.flow[name]
        reason = part.options.held() if isinstance(part, Step) else None
        if reason:
            return f'step "{name}" has answers it has not given yet: {reason}; end the run with --until-done'
    return ""


def _limits(plan: Plan, query: Query, late: int) -> str:
    """What the comparison cannot take into account."""
    steps = [plan.flow[name] for name in query.stateful]
    unaware = [s.name for s in steps if isinstance(s, Step) and not s.options.drops_late()]
    if late and unaware:
        return f'{late} records came late and were dropped by "{unaware[0]}": they may be what differs'
    return ""
