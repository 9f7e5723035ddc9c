"""The ledger of a run: for every batch, what became of every record, part by part.

An entry is durable before its batch is committed; a batch that is repeated after a crash replaces its own. The numbers
of a line are counted apart from each other, so that `headrace audit` can tell whether they add up.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headrace.compile.counting import Counts
from headrace.compile.plan import Plan, Query
from headrace.model import Mode, Port, Sink, Source, Step
from headrace.observe import events
from headrace.operators.base import left_out, too_late

if TYPE_CHECKING:
    from headrace.compile.lower import Outcome
    from headrace.run.home import Home

Balance = Literal["source", "each", "some", "once", "others", "state", "sink"]
_PATIENCE = 30.0
"""Seconds to wait while somebody else writes to the file."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """What one part did with its records in one batch; a number that is not known is not there."""

    part: str
    """A source, a step (with its port, where it has several) or a sink."""
    balance: Balance
    """Which equation holds: see `headrace.run.audit`."""
    numbers: Mapping[str, int]
    towards: str = ""
    """The sink, where the part lies behind the trunk, on the way to one sink."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What became of the records of one batch of one query."""

    query: str
    batch: int
    lines: tuple[Line, ...]
    at: str = field(default_factory=events.now)


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Records that were deleted before they were read: those from `start` up to, not with, `end`."""

    query: str
    source: str
    topic: str
    partition: int
    start: int
    end: int
    batch: int | None = None
    """The batch that went on behind them; None: the run stopped at them."""

    @property
    def records(self) -> int:
        """How many offsets; as many records, unless some of them held none."""
        return self.end - self.start

    def __str__(self) -> str:
        last = f" to {self.end - 1}" if self.records > 1 else ""
        return f"{self.topic}, partition {self.partition}: offset{'s' if last else ''} {self.start}{last}"


class Ledger:
    """The file; made when the first entry is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, entry: Entry) -> None:
        """Adds an entry, or replaces the one an earlier attempt at the batch has left; durable on return."""
        lines = json.dumps([asdict(line) for line in entry.lines], separators=(",", ":"))
        with self._open() as database:
            database.execute(
                "INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?)", (entry.query, entry.batch, entry.at, lines)
            )

    def lose(self, *lost: Lost) -> None:
        """Notes records that were deleted before they were read; the same ones again change nothing."""
        with self._open() as database:
            for one in lost:
                key = (one.query, one.source, one.topic, one.partition, one.start)
                database.execute(
                    "INSERT INTO lost VALUES (?, ?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT DO UPDATE SET end_ = excluded.end_, batch = coalesce(excluded.batch, batch)",
                    (*key, one.end, one.batch),
                )

    def know(self, query: str, batch: int, source: str, gap: int) -> None:
        """Notes how many of the offsets a batch went on by were found to hold no record."""
        with self._open() as database:
            database.execute("INSERT OR REPLACE INTO gaps VALUES (?, ?, ?, ?)", (query, batch, source, gap))

    def gaps(self) -> dict[tuple[str, int, str], int]:
        """What was noted of gaps, by query, batch and source."""
        if not self.path.exists():
            return {}
        with self._open() as database:
            rows = database.execute("SELECT query, batch, source, offsets FROM gaps").fetchall()
        return {(query, batch, source): gap for query, batch, source, gap in rows}

    def entries(self, query: str | None = None) -> Iterator[Entry]:
        """Every entry, by query and batch."""
        if not self.path.exists():
            return
        with self._open() as database:
            rows = database.execute(
                "SELECT query, batch, at, lines FROM batches WHERE query = coalesce(?, query) ORDER BY query, batch",
                (query,),
            ).fetchall()
        for name, batch, at, lines in rows:
            made = tuple(Line(**line) for line in json.loads(lines))
            yield Entry(query=name, batch=batch, at=at, lines=made)

    def totals(self) -> list[dict[str, Any]]:
        """Each part's numbers added up over all batches so far; of what is held, the last."""
        if not self.path.exists():
            return []
        made: dict[tuple[str, str, str], dict[str, int]] = {}
        with self._open() as database:
            # max() makes SQLite take the other columns of a group from the row that has the greatest.
            for query, part, towards, name, whole, _, last in database.execute(
                "SELECT b.query, json_extract(l.value, '$.part'), json_extract(l.value, '$.towards'), n.key, "
                "sum(n.value), max(b.batch), n.value "
                "FROM batches b, json_each(b.lines) l, json_each(l.value, '$.numbers') n "
                "GROUP BY 1, 2, 3, 4 ORDER BY b.query, avg(l.key), avg(n.id)"
            ):
                made.setdefault((query, part, towards or ""), {})[name] = last if name == "held" else whole
        return [{"query": q, "part": p, "towards": t, "numbers": numbers} for (q, p, t), numbers in made.items()]

    def lost(self) -> list[Lost]:
        """What was deleted before it was read."""
        if not self.path.exists():
            return []
        with self._open() as database:
            rows = database.execute("SELECT * FROM lost ORDER BY 1, 2, 3, 4, 5").fetchall()
        names = ("query", "source", "topic", "partition", "start", "end", "batch")
        return [Lost(**dict(zip(names, row, strict=True))) for row in rows]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute(
                "CREATE TABLE IF NOT EXISTS batches "
                "(query TEXT, batch INTEGER, at TEXT, lines TEXT, PRIMARY KEY (query, batch))"
            )
            database.execute(
                "CREATE TABLE IF NOT EXISTS lost (query TEXT, source TEXT, topic TEXT, partition INTEGER, "
                "start INTEGER, end_ INTEGER, batch INTEGER, PRIMARY KEY (query, source, topic, partition, start))"
            )
            database.execute(
                "CREATE TABLE IF NOT EXISTS gaps "
                "(query TEXT, batch INTEGER, source TEXT, offsets INTEGER, PRIMARY KEY (query, batch, source))"
            )
            with database:
                yield database


def ledger_of(home: Home) -> Ledger:
    """The ledger of a run; of the last one, where it ran in batch mode."""
    record = home.read()
    batch = record.mode == Mode.BATCH.value
    return Ledger(home.batch(record.batch_runs) / home.ledger.name if batch else home.ledger)


def entry(plan: Plan, query: Query, batch: int, outcome: Outcome, offsets: Mapping[str, int] | None = None) -> Entry:
    """The entry of a batch, from what was counted; `offsets` is how many each source went on by, where they count."""
    lines = [*_upstream(plan, query, outcome.trunk, offsets or {})]
    for sink in plan.flow.sinks:
        if sink.name in outcome.branches:
            lines += _branch(plan, query, sink, outcome)
        elif sink.name in outcome.sinks:  # of dead letters, which are rows only once they are found
            taken = outcome.sinks[sink.name]
            numbers = {"written": taken.written, "skipped": taken.skipped}
            lines.append(Line(part=sink.name, balance="sink", numbers=numbers))
    return Entry(query=query.name, batch=batch, lines=tuple(lines))


def _upstream(plan: Plan, query: Query, counts: Counts, offsets: Mapping[str, int]) -> Iterator[Line]:
    """The sources and steps up to the trunk."""
    for name in query.sources:
        numbers = {"read": counts.rows.get(f"{name}:read"), "emitted": counts.rows.get(name)}
        numbers |= {"dead": _dead(counts, name), "offsets": offsets.get(name)}
        if dropped := _sum(counts, name, "dropped"):
            numbers["filtered"] = dropped
        yield Line(part=name, balance="source", numbers=_known(numbers))
    for name in query.steps:
        step = plan.flow[name]
        assert isinstance(step, Step)
        alone = {"late": counts.refused, "repeated": counts.repeated, "held": counts.held}
        alone = alone if query.stateful == (name,) else {}
        yield from _step(plan, step, counts, counts.rows, {**alone, **counts.taken.get(too_late(name), {})})
    if len(query.stateful) > 1:  # Spark does not say whose state it is
        told = all(too_late(name) in counts.taken for name in query.stateful)
        together = _known({"late": None if told else counts.refused, "held": counts.held})
        yield Line(part="+".join(query.stateful), balance="others", numbers=together)


def _branch(plan: Plan, query: Query, sink: Sink, outcome: Outcome) -> Iterator[Line]:
    """The steps from the trunk to a sink, and the sink."""
    counts, before = outcome.branches[sink.name], {**outcome.trunk.rows, **outcome.behind.rows}
    for name in plan.flow.upstream(sink.name):
        step = plan.flow[name]
        if isinstance(step, Step) and any(_wire(port) in counts.rows for port in _ports(step)):
            yield from _step(plan, step, counts, before, {}, towards=sink.name)
    wire = _wire(sink.inputs[0])
    written = outcome.sinks[sink.name]
    numbers = {
        "given": counts.rows.get(wire, before.get(wire)),
        "written": written.written,
        "skipped": written.skipped,
    }
    yield Line(part=sink.name, balance="sink", numbers=_known(numbers))


def _step(
    plan: Plan, step: Step, counts: Counts, before: Mapping[str, int], held: Mapping[str, int | None], towards: str = ""
) -> Iterator[Line]:
    ports = [port for port in _ports(step) if _wire(port) in counts.rows]
    inputs = [port for port in step.inputs if not _is_table(plan, port)]
    read = [counts.rows.get(_wire(port), before.get(_wire(port))) for port in inputs]
    known = None if None in read else sum(n for n in read if n is not None)
    for port in ports:
        numbers: dict[str, int | None] = {"read": known, "emitted": counts.rows[_wire(port)]}
        left = counts.taken.get(left_out(step.name, port.port))
        dropped = _sum(counts, step.name, "dropped")
        if left is not None or dropped:
            numbers["filtered"] = int((left or {}).get("filtered") or 0) + dropped
        numbers |= {"dead": _dead(counts, step.name), **held}
        yield Line(part=_wire(port), balance=step.options.balance(), numbers=_known(numbers), towards=towards)


def _ports(step: Step) -> list[Port]:
    return [Port(step.name, port) for port in step.options.ports()]


def _wire(port: Port) -> str:
    return str(port)


def _is_table(plan: Plan, port: Port) -> bool:
    part = plan.flow[port.step]
    return isinstance(part, Source) and part.table is not None


def _dead(counts: Counts, part: str) -> int:
    """Records of a part that could not be used, by whatever counts them on its way."""
    return _sum(counts, part, "unreadable", "dead_letters")


def _sum(counts: Counts, part: str, *fields: str) -> int:
    names = [name for name in counts.taken if name.startswith(f"{part}.")]
    return sum(int(counts.taken[name].get(field) or 0) for name in names for field in fields)


def _known(numbers: Mapping[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in numbers.items() if value is not None}


def as_dict(entry: Entry) -> dict[str, Any]:
    """For `--json`."""
    return asdict(entry)
