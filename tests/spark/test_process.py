"""process on Spark: many small streams in one run, each compared with a plain fold of its own."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace import Flow, ListState, MapState, Processor, ValueState, tumbling
from headrace.catalogue import SINKS, SOURCES
from headrace.check import check
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.connectors import memory
from headrace.model import Flow as FlowValue
from headrace.model import Mode
from headrace.run.inline import run_to_end
from headrace.testing.cases import Input
from headrace.testing.standins import Given, kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "example INT, user STRING, n BIGINT, at TIMESTAMP"
Rows = list[dict[str, Any]]


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def source(flow: Flow, **more: Any) -> Any:
    return flow.source("rows", "values", rows=[], schema=SCHEMA, **more)


def checked(flow: Flow) -> FlowValue:
    report = check(flow.declared())
    assert report.errors == (), "\n".join(map(str, report.errors))
    return report.flow


class Plain(Given):
    """Rows as they are, without anything that a source would tell about them."""

    def _row(self, record: Any, index: int) -> dict[str, Any]:
        return dict(record)


@dataclass
class Runner:
    """Runs a flow on rows cut into batches; a second run with the same folder goes on where the first ended."""

    session: SparkSession
    home: Path

    def __call__(
        self, flow: FlowValue, batches: list[Rows], *, mode: Mode = Mode.MICRO_BATCH, flush: bool = True, **more: Rows
    ) -> Rows:
        made = plan(flow, mode=mode)
        for key, value in made.spark.items():
            self.session.conf.set(key, value)
        given = {"rows": Input(batches=tuple(map(tuple, batches)))}
        given |= {name: Input(batches=(tuple(rows),)) for name, rows in more.items()}
        where = Where(
            session=self.session,
            streaming=mode is not Mode.BATCH,
            home=self.home,
            base=self.home,
            sources={s.name: Plain(SOURCES[s.connector](s.options), given[s.name], START) for s in flow.sources},
            sinks={s.name: kept(SINKS[s.connector](s.options), ()) for s in flow.sinks},
        )
        for query in made.queries:
            run_to_end(made, query, where, self.home / "checkpoints" / query.name, flush=flush)
        table = memory.tables.get((flow.name, "out"))
        return [] if table is None else list(table.rows)

    def state(self, query: str, **options: Any) -> list[Any]:
        reader = self.session.read.format("statestore")
        for name, value in options.items():
            reader = reader.option(name, value)
        return list(reader.load(str(self.home / "checkpoints" / query)).collect())


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Iterator[Runner]:
    memory.tables.clear()
    yield Runner(spark, tmp_path)
    memory.tables.clear()


def cut(rows: Rows, draw: random.Random, into: int) -> list[Rows]:
    """Consecutive pieces, some of them maybe empty."""
    ends = sorted(draw.randint(0, len(rows)) for _ in range(into - 1))
    return [rows[a:b] for a, b in zip([0, *ends], [*ends, len(rows)], strict=True)]


def packed(examples: list[list[Rows]]) -> list[Rows]:
    """The n-th batch is the n-th piece of every example."""
    return [[row for example in examples for row in example[i]] for i in range(max(map(len, examples)))]


def sorted_rows(rows: Rows) -> list[str]:
    """Rows to be compared; a sink gives times without their zone."""
    return sorted(
        repr(sorted((k, v.replace(tzinfo=None) if isinstance(v, datetime) else v) for k, v in row.items()))
        for row in rows
    )


def running(record: dict[str, Any], state: dict[str, Any] | None) -> tuple[Any, Any]:
    """A running total that begins anew beyond a hundred, and says nothing about odd numbers of zero."""
    total = (state["total"] if state else 0) + record["n"]
    out = {"example": record["example"], "user": record["user"], "total": total, "last": state and state["last"]}
    return (None if record["n"] == 0 else [out, out] if record["n"] == 13 else out), (
        None if total > 100 else {"total": total, "last": record["at"]}
    )


def folded(rows: Rows) -> Rows:
    """What `running` gives for rows in order."""
    states: dict[Any, Any] = {}
    found: Rows = []
    for row in rows:
        key = (row["example"], row["user"])
        outputs, states[key] = running(row, states.get(key))
        found += outputs if isinstance(outputs, list) else [outputs] if outputs else []
    return found


def totals(**time: Any) -> FlowValue:
    flow = Flow("totals")
    source(flow, **time).process(
        "running",
        running,
        by=["example", "user"],
        state="total BIGINT, last TIMESTAMP",
        returns="example INT, user STRING, total BIGINT, last TIMESTAMP",
        bound="few users",
    ).sink("out", "memory")
    return checked(flow)


def random_totals(seed: int, examples: int = 80) -> tuple[list[Rows], Rows]:
    draw = random.Random(seed)
    cuts, everything = [], []
    for example in range(examples):
        users = ["ann", "bob", None]
        rows = [
            {"example": example, "user": draw.choice(users), "n": draw.choice([0, 1, 13, 40, 70]), "at": at(i // 2)}
            for i in range(draw.randint(0, 14))
        ]
        cuts.append(cut(rows, draw, 3))
        everything += rows
    return packed(cuts), everything


def test_a_function_gives_what_a_fold_gives_stopped_half_way_and_resumed(run: Runner) -> None:
    batches, everything = random_totals(1)
    flow = totals()
    run(flow, batches[:2])
    found = run(flow, batches)

    assert len(everything) > 400
    assert sorted_rows(found) == sorted_rows(folded(everything))
    left = {(r["example"], r["user"]) for r in everything}
    state = run.state("running", stateVarName="state")  # keys share drawers, and lie in them under their own
    assert {(row["user_map_key"]["example"], row["user_map_key"]["user"]) for row in state} <= left


def test_batch_mode_gives_the_same_where_time_orders_the_records(run: Runner) -> None:
    _, everything = random_totals(2)
    later_first = sorted(everything, key=lambda row: row["at"], reverse=True)  # stable: equal times stay in order

    found = run(totals(time={"column": "at", "watermark": "0 seconds"}), [later_first], mode=Mode.BATCH)

    assert sorted_rows(found) == sorted_rows(folded(everything))


class Every(Processor):
    """All kinds of state, and a timer ten seconds after each record."""

    returns = "example INT, user STRING, what STRING, when TIMESTAMP, total BIGINT, seen ARRAY<BIGINT>, days ARRAY<INT>"
    bound = "few users"
    total = ValueState("n BIGINT")
    seen = ListState("n BIGINT, at TIMESTAMP")
    days = MapState("day INT", "n BIGINT, at TIMESTAMP")

    def on_record(self, record: dict[str, Any], state: Any, timers: Any) -> Any:
        n = record["n"]
        state.total.set(state.total.get(0) + n)
        state.seen.append({"n": n, "at": record["at"]})
        state.days[n % 3] = {"n": state.days.get(n % 3, {"n": 0})["n"] + 1, "at": record["at"]}
        if n == 7:
            state.seen.clear()
            if 1 in state.days:
                del state.days[1]
        timers.at(record["at"] + timedelta(seconds=10))
        assert all(s["at"] <= record["at"] for s in state.seen), "times come back as they went in"
        yield {
            "example": record["example"],
            "user": record["user"],
            "what": "record",
            "when": record["at"],
            "total": state.total.get(),
            "seen": [s["n"] for s in state.seen],
            "days": [day * 100 + value["n"] for day, value in state.days.items()],
        }

    def on_timer(self, when: datetime, key: dict[str, Any], state: Any, timers: Any) -> Any:
        return {**key, "what": "timer", "when": when, "total": state.total.get(), "seen": [len(timers.all())]}


def every_oracle(rows: Rows) -> Rows:
    """`Every` per key in strict order of time."""
    keys = {(row["example"], row["user"]) for row in rows}
    return [out for key in keys for out in one_key([r for r in rows if (r["example"], r["user"]) == key])]


def one_key(rows: Rows) -> Iterator[dict[str, Any]]:
    total = 0
    seen: list[int] = []
    days: dict[int, int] = {}
    due: set[datetime] = set()
    base = {"example": rows[0]["example"], "user": rows[0]["user"]}
    last: Rows = [{"at": None, "n": None}]
    for row in sorted(rows, key=lambda r: r["at"]) + last:
        for when in sorted(t for t in due if row["at"] is None or t <= row["at"]):
            due.discard(when)
            yield {**base, "what": "timer", "when": when, "total": total, "seen": [len(due)], "days": None}
        n = row["n"]
        if n is None:
            return
        total += n
        seen.append(n)
        days[n % 3] = days.get(n % 3, 0) + 1
        if n == 7:
            seen = []
            days.pop(1, None)
        due.add(row["at"] + timedelta(seconds=10))
        shown = [day * 100 + count for day, count in sorted(days.items())]
        yield {**base, "what": "record", "when": row["at"], "total": total, "seen": list(seen), "days": shown}


def every(order: str) -> FlowValue:
    flow = Flow("every")
    rows = source(flow, time={"column": "at", "watermark": "5 seconds"})
    rows.process("all", Every, by=["example", "user"], order=order).sink("out", "memory")
    return checked(flow)


def disordered(seed: int, examples: int = 60) -> list[Rows]:
    """Rows that come up to three seconds out of order, no two of a key at one time; cut so that none is late."""
    draw = random.Random(seed)
    rows: Rows = [
        {"example": e, "user": draw.choice(["ann", "bob"]), "n": draw.randint(0, 8), "at": at(second + e / 1000)}
        for e in range(examples)
        for second in draw.sample(range(40), draw.randint(0, 9))
    ]
    arriving = sorted(rows, key=lambda row: row["at"] + timedelta(seconds=draw.uniform(0, 3)))
    return cut(arriving, draw, 4)


def test_in_order_of_time_disorder_cuts_and_a_restart_do_not_change_the_answer(run: Runner) -> None:
    batches = disordered(4)
    everything = [row for batch in batches for row in batch]
    flow = every("time")
    run(flow, batches[:2], flush=False)
    found = run(flow, batches)

    assert sorted_rows(found) == sorted_rows(every_oracle(everything))


def test_a_processor_in_batch_mode_gives_the_answer_in_order_of_time(run: Runner) -> None:
    batches = disordered(5)
    everything = [row for batch in batches for row in batch]

    assert sorted_rows(run(every("arrival"), batches, mode=Mode.BATCH)) == sorted_rows(every_oracle(everything))


def count(record: dict[str, Any], state: dict[str, Any] | None) -> tuple[Any, Any]:
    n = (state["n"] if state else 0) + 1
    return {"example": record["example"], "at": record["at"], "n": n}, {"n": n}


def test_a_time_to_live_runs_on_event_time_and_what_is_over_is_removed(run: Runner) -> None:
    draw = random.Random(6)
    cuts: list[Rows] = []
    expected: Rows = []
    for example in range(100):
        seconds = sorted(draw.randint(0, 90) for _ in range(draw.randint(1, 10)))
        last, n = None, 0
        for second in seconds:
            n = 1 if last is None or second - last >= 10 else n + 1
            last = second
            expected.append({"example": example, "at": at(second), "n": n})
        cuts.append([{"example": example, "user": "ann", "n": 0, "at": at(s)} for s in seconds])
    rows: Rows = sorted((row for piece in cuts for row in piece), key=lambda row: row["at"])
    flow = Flow("lives")
    source(flow, time={"column": "at", "watermark": "0 seconds"}).process(
        "counted",
        count,
        by="example",
        state="n BIGINT",
        returns="example INT, at TIMESTAMP, n BIGINT",
        ttl="10 seconds",
    ).sink("out", "memory")
    report = check(flow.declared())

    found = run(checked(flow), cut(rows, draw, 4), flush=False)

    assert report.problems == (), "a time to live bounds the state"
    assert sorted_rows(found) == sorted_rows(expected)
    state = run.state("counted", stateVarName="state")
    assert 0 < len(state) < 100, "those whose time the watermark has passed are gone"


class Types(Processor):
    """Every type into the state and back."""

    returns = "same BOOLEAN, before STRING"
    bound = "one key"
    held = ValueState(
        "t TIMESTAMP, d DATE, x DECIMAL(12,2), b BINARY, a ARRAY<TIMESTAMP>, m MAP<STRING,INT>, "
        "s STRUCT<p: INT, t: TIMESTAMP>, f DOUBLE, o BOOLEAN, none STRING"
    )
    dates = MapState("day DATE", "t TIMESTAMP")

    def on_record(self, record: dict[str, Any], state: Any, timers: Any) -> Any:
        t = START + timedelta(microseconds=123456)
        value = {
            "t": t,
            "d": date(2026, 3, 29),
            "x": Decimal("-1.25"),
            "b": b"\x00\xff",
            "a": [t, t],
            "m": {"a": 1},
            "s": {"p": 1, "t": t},
            "f": 0.1,
            "o": True,
            "none": None,
        }
        before = state.held.get()
        same = before is None or (before == value and state.dates.items() == [(date(2026, 1, 1), t)])
        state.held.set(value)
        state.dates[date(2026, 1, 1)] = t
        return {"same": same, "before": repr(before)}


def test_every_type_comes_back_from_the_state_as_it_went_in(run: Runner) -> None:
    flow = Flow("types")
    source(flow).process("typed", Types, by="user").sink("out", "memory")
    one = {"example": 1, "user": "ann", "n": 1, "at": at(0)}

    found = run(checked(flow), [[one], [one]])

    assert [row["same"] for row in found] == [True, True], found
    assert found[1]["before"] != "None"


def test_a_table_gives_the_state_to_begin_with_once(run: Runner) -> None:
    flow = Flow("begun")
    table = flow.source(
        "known", "values", rows=[], schema="user STRING, total BIGINT, last TIMESTAMP, more INT", table=True
    )
    rows = source(flow)
    rows.process(
        "running",
        running,
        by="user",
        state="total BIGINT, last TIMESTAMP",
        returns="example INT, user STRING, total BIGINT, last TIMESTAMP",
        bound="few users",
        initial=table,
    ).sink("out", "memory")
    built = checked(flow)
    known = [{"user": u, "total": t, "last": at(0), "more": 1} for u, t in (("ann", 50), ("bob", 7))]
    first = [{"example": 1, "user": "ann", "n": 1, "at": at(1)}, {"example": 1, "user": "eve", "n": 2, "at": at(1)}]
    second = [{"example": 1, "user": "ann", "n": 1, "at": at(2)}, {"example": 1, "user": "bob", "n": 1, "at": at(2)}]
    expected = {("ann", 51), ("eve", 2), ("ann", 52), ("bob", 8)}

    run(built, [first], known=known)
    found = run(built, [first, second], known=[{**k, "total": 1000} for k in known])
    assert {(row["user"], row["total"]) for row in found} == expected

    memory.tables.clear()
    found = run(built, [first, second], mode=Mode.BATCH, known=known)
    assert {(row["user"], row["total"]) for row in found} == expected


def test_windows_can_follow_and_a_late_record_is_dropped_not_an_error(run: Runner) -> None:
    flow = Flow("followed")
    rows = source(flow, time={"column": "at", "watermark": "0 seconds"})
    counted = rows.process(
        "counted", count, by="example", state="n BIGINT", returns="example INT, at TIMESTAMP, n BIGINT", bound="few"
    )
    counted.aggregate("windows", window=tumbling("10 seconds"), compute={"most": "max(n)", "rows": "count(*)"}).sink(
        "out", "memory"
    )
    made = [{"example": 1, "user": "ann", "n": 0, "at": at(second)} for second in (1, 2, 15, 31, 3, 33)]

    found = run(checked(flow), [made[:2], made[2:3], made[3:4], made[4:]])

    windows = sorted((row["window_start"].second, row["most"], row["rows"]) for row in found)
    assert windows == [(0, 2, 2), (10, 3, 1), (30, 5, 2)]


def broken(record: dict[str, Any], state: dict[str, Any] | None) -> tuple[Any, Any]:
    return {"n": 1 // record["n"]}, {"n": 1}


@pytest.mark.parametrize("mode", [Mode.MICRO_BATCH, Mode.BATCH])
def test_a_record_on_which_a_function_raises_is_told_with_step_line_and_record(run: Runner, mode: Mode) -> None:
    flow = Flow("breaks")
    source(flow).process("bad_step", broken, by="user", state="n BIGINT", returns="n BIGINT").sink("out", "memory")

    rows = [{"example": 1, "user": "ann", "n": n, "at": at(n)} for n in (0, 1)]
    assert run(checked(flow), [rows], mode=mode) == [{"n": 1}]

    [file] = (run.home / "dead-letters").glob("*/*.jsonl")
    letter = json.loads(file.read_text())
    assert (letter["step"], letter["reason"].partition(":")[0]) == ("bad_step", "ZeroDivisionError")
    assert letter["place"].endswith(f"test_process.py:{broken.__code__.co_firstlineno + 1}")
    assert '"user": "ann"' in letter["record"]
