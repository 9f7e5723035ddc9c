"""Windows on Spark: sessions, windows of windows, days in a zone, and what the last batch closes."""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.catalogue import SOURCES
from headrace.check import check
from headrace.check.wires import wires
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.model import Flow
from headrace.run.inline import run_to_end
from headrace.testing.cases import Case, Input
from headrace.testing.compare import difference
from headrace.testing.run_cases import outputs
from headrace.testing.standins import Given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]
NOW = datetime(2300, 1, 1, 0, 0, 0, 1, UTC)
MICROS = [datetime(2026, 1, 1, 0, 0, 0, 1, UTC) + timedelta(microseconds=n) for n in (0, 1, 2, 500_000)]


def flow_of(
    steps: str,
    last: str,
    time: str = "{column: at, watermark: 10 seconds}",
    sinks: str = "",
    columns: str = "k STRING, x BIGINT",
) -> Flow:
    text = f"""\
flow: windows
sources:
  rows:
    values: {{rows: []}}
    schema: "{columns}, at TIMESTAMP"
    time: {time}
steps:
{steps}
sinks:
  out: {{from: {last}, console: {{}}}}
{sinks}
"""
    report = check(resolve(flowfile.read(text)))
    assert report.errors == (), "\n".join(map(str, report.errors))
    return report.flow


def at(second: int, x: int = 1, k: str | None = "a") -> dict[str, Any]:
    return {"k": k, "x": x, "at": f"2026-01-01T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"}


def run(flow: Flow, batches: list[Rows], spark: SparkSession, mode: str = "micro-batch") -> dict[str, Any]:
    case = Case(name="case", given={}, expect={}, mode=mode)
    return outputs(flow, {"rows": Input(batches=tuple(map(tuple, batches)))}, case, spark)


def agree(found: dict[str, Any], sink: str, expected: Rows, flow: Flow) -> None:
    wrong = difference(expected, found[sink], wires(flow).schemas[flow[sink].inputs[0]])
    assert not wrong, "\n".join(wrong)


def clock(second: int) -> str:
    return str(at(second)["at"])


STREAM = [[at(1), at(12), at(3, k="b")], [at(70), at(20)], [at(200), at(5, k="b"), at(150, k="b")]]


@pytest.mark.parametrize("mode", ["batch", "micro-batch"])
def test_a_session_ends_when_nothing_follows_within_the_gap(mode: str, spark: SparkSession) -> None:
    steps = """
  one: {from: rows, aggregate: {by: k, window: {session: 30 s}, compute: {n: count(*), total: sum(x)}}}
  all: {from: rows, aggregate: {window: {session: 30 s}, compute: {n: count(*)}}}"""
    flow = flow_of(steps, "one", "{column: at, watermark: 5 minutes}", "  everyone: {from: all, console: {}}")
    found = run(flow, STREAM, spark, mode)
    expected = [("a", 1, 50, 3), ("a", 70, 100, 1), ("a", 200, 230, 1), ("b", 3, 35, 2), ("b", 150, 180, 1)]
    rows = [{"k": k, "window_start": clock(s), "window_end": clock(e), "n": n, "total": n} for k, s, e, n in expected]
    agree(found, "out", rows, flow)
    whole = [(1, 50, 5), (70, 100, 1), (150, 180, 1), (200, 230, 1)]
    rows = [{"window_start": clock(s), "window_end": clock(e), "n": n} for s, e, n in whole]
    agree(found, "everyone", rows, flow)


LIMITED = {
    "hopping": ("aggregate: {by: k, window: {hopping: 10 s, every: 5 s}, compute: {n: count(*)}}", [1] * 8),
    "session": ("aggregate: {by: k, window: {session: 15 s}, compute: {n: count(*)}}", [2, 1, 1]),
    "count": ("aggregate: {by: k, window: {count: 2}, compute: {n: count(*)}}", [2, 2]),
    "changes": ("aggregate: {by: k, window: {tumbling: 10 s}, emit: changes, compute: {n: count(*)}}", [1, 1, 1, 1]),
}


@pytest.mark.parametrize("kind", LIMITED)
def test_what_follows_a_limit_knows_the_time(kind: str, spark: SparkSession) -> None:
    step, counts = LIMITED[kind]
    flow = flow_of(f"  first: {{from: rows, limit: {{rows: 2, by: k}}}}\n  last: {{from: first, {step}}}", "last")
    batches = [[at(1), at(12), at(3, k="b")], [at(13), at(50, k="b")], [at(200), at(5, k="b")]]
    rows = run(flow, batches, spark)["out"]
    assert sorted(row["n"] for row in rows) == sorted(counts), rows


def test_the_first_records_of_a_key_can_be_joined_with_others_near_in_time(spark: SparkSession) -> None:
    steps = """
  first: {from: rows, limit: {rows: 1, by: k}}
  both: {from: [first, rows], join: {on: k, within: 15 s, prefix: b_, kind: left}}"""
    flow = flow_of(steps, "both")
    rows = run(flow, [[at(1), at(12), at(3, k="b")], [at(13), at(50, k="b")], [at(200)]], spark)["out"]
    assert sorted((r["k"], r["b_at"].second) for r in rows) == [("a", 1), ("a", 12), ("a", 13), ("b", 3)]


ROLL_UP = """
  seconds: {from: rows, aggregate: {by: k, window: {tumbling: 10 s}, compute: {n: count(*)}}}
  some: {from: seconds, filter: n > 0}
  halves: {from: some, explode: {each: "array(k, lower(k))", as: key}}
  minutes: {from: halves, aggregate: {by: key, window: {tumbling: 1 minute}, compute: {n: sum(n)}}}
  loud: {from: minutes, map: {python: "tests.spark.test_windows:loud", returns: "window_end TIMESTAMP, n BIGINT"}}
  hours: {from: loud, aggregate: {window: {tumbling: 1 hour}, compute: {n: sum(n), minutes: count(*)}}}"""


def loud(record: dict[str, Any]) -> dict[str, Any]:
    return {"window_end": record["window_end"], "n": record["n"]}


@pytest.mark.parametrize("mode", ["batch", "micro-batch"])
def test_seconds_roll_up_to_minutes_and_hours(mode: str, spark: SparkSession) -> None:
    flow = flow_of(ROLL_UP, "hours", "{column: at, watermark: 1 hour}", "  per_minute: {from: minutes, console: {}}")
    batches = [[at(1), at(59), at(60)], [at(3599), at(50)], [at(3600), at(7300)]]
    found = run(flow, batches, spark, mode)
    minutes = [(0, 6), (60, 2), (3540, 2), (3600, 2), (7260, 2)]
    expected = [{"key": "a", "window_start": clock(s), "window_end": clock(s + 60), "n": n} for s, n in minutes]
    agree(found, "per_minute", expected, flow)
    hours = [(0, 10, 3), (3600, 2, 1), (7200, 2, 1)]
    agree(found, "out", [{"window_start": clock(s), "n": n, "minutes": m} for s, n, m in hours], flow)


@pytest.mark.parametrize("mode", ["batch", "micro-batch"])
def test_a_day_is_as_long_as_the_clock_there_says(mode: str, spark: SparkSession) -> None:
    steps = """
  days: {from: rows, aggregate: {window: {tumbling: 1 day, zone: Europe/Berlin}, compute: {n: count(*)}}}"""
    flow = flow_of(steps, "days", "{column: at, watermark: 10 days}")
    times = ["03-28T22:59:59", "03-28T23:00:00", "03-29T21:59:59", "03-29T22:00:00", "10-25T21:59:59", "10-25T22:59:59"]
    rows = [{"k": "a", "x": 1, "at": f"2026-{t}Z"} for t in times]
    found = run(flow, [rows[2:], rows[:2]], spark, mode)
    days = [  # summer time begins on the 29th of March, so that day has 23 hours; the 25th of October has 25
        ("2026-03-27T23:00:00Z", "2026-03-28T23:00:00Z", 1),
        ("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", 2),
        ("2026-03-29T22:00:00Z", "2026-03-30T22:00:00Z", 1),
        ("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", 2),
    ]
    agree(found, "out", [{"window_start": s, "window_end": e, "n": n} for s, e, n in days], flow)


LATE = [[at(0), at(100)], [at(101)], [at(5, x=7), at(99), at(95, k="b")], [at(300)], [at(301)], [at(110, k=None)]]
"""The watermark that closes windows to a batch is the one of the batch before: 90 for the third, 290 for the last."""


def test_late_records_leave_by_their_port_with_how_late_they_were(spark: SparkSession) -> None:
    steps = """
  tens: {from: rows, aggregate: {by: k, window: {hopping: 10 s, every: 5 s}, late: port, compute: {n: count(*)}}}
  tidy: {from: tens.late, with: {x: x + 1}}
  gaps: {from: rows, aggregate: {by: k, window: {session: 20 s}, late: port, compute: {n: count(*)}}}"""
    sinks = """
  late: {from: tidy, console: {}}
  sessions: {from: gaps, console: {}}
  late_for_sessions: {from: gaps.late, console: {}}"""
    flow = flow_of(steps, "tens", sinks=sinks)
    found = run(flow, LATE, spark)
    late = [
        {"k": "a", "x": 8, "at": clock(5), "late_by": 85.0},
        {"k": None, "x": 2, "at": clock(110), "late_by": 180.0},
    ]
    agree(found, "late", late, flow)
    agree(found, "late_for_sessions", [row | {"x": row["x"] - 1} for row in late], flow)
    tens = [(-5, 1), (0, 1), (90, 1), (95, 3), (100, 2), (295, 2), (300, 2)]
    expected = [{"k": "a", "window_start": clock(s), "n": n} for s, n in tens if s >= 0]
    expected += [{"k": "a", "window_start": "2025-12-31T23:59:55Z", "n": 1}]
    expected += [{"k": "b", "window_start": clock(s), "n": 1} for s in (90, 95)]
    agree(found, "out", expected, flow)
    sessions = [("a", 0, 20, 1), ("a", 99, 121, 3), ("b", 95, 115, 1), ("a", 300, 321, 2)]
    rows = [{"k": k, "window_start": clock(s), "window_end": clock(e), "n": n} for k, s, e, n in sessions]
    agree(found, "sessions", rows, flow)


UNION = """\
flow: union
sources:
  fast: {values: {rows: []}, schema: "k STRING, x BIGINT, at TIMESTAMP", time: {column: at, watermark: 10 seconds}}
  slow: {values: {rows: []}, schema: "k STRING, x BIGINT, at TIMESTAMP", time: {column: at, watermark: 20 seconds}}
steps:
  both: {from: [fast, slow], union: {}}
  same: {from: both, map: {python: "tests.spark.test_windows:timed", returns: "x BIGINT, at TIMESTAMP"}}
  tens: {from: same, aggregate: {window: {tumbling: 10 s}, late: port, compute: {n: sum(x)}}}
sinks:
  out: {from: tens, console: {}}
  late: {from: tens.late, console: {}}
"""


def timed(record: dict[str, Any]) -> dict[str, Any]:
    return {"x": record["x"], "at": record["at"]}


def test_behind_a_function_over_a_union_the_slowest_source_leads(spark: SparkSession) -> None:
    flow = check(resolve(flowfile.read(UNION))).flow
    fast, slow = (Input(batches=tuple(((at(s),)) for s in seconds)) for seconds in ((3600, 3610, 3620), (0, 60, 15)))
    found = outputs(flow, {"fast": fast, "slow": slow}, Case(name="case", given={}, expect={}), spark)
    seconds = (0, 10, 60, 3600, 3610, 3620)
    agree(found, "out", [{"window_start": clock(s), "window_end": clock(s + 10), "n": 1} for s in seconds], flow)
    agree(found, "late", [], flow)


def test_only_the_query_whose_port_it_is_puts_late_records_aside(spark: SparkSession, tmp_path: Path) -> None:
    steps = """
  tens: {from: rows, aggregate: {by: k, window: {tumbling: 10 s}, late: port, compute: {n: count(*)}}}
  minutes: {from: tens, aggregate: {window: {tumbling: 1 minute}, compute: {n: sum(n)}}}"""
    made = plan(flow_of(steps, "minutes", sinks="  late: {from: tens.late, console: {}}"))
    given = Given(
        SOURCES["values"](made.flow["rows"].options), Input(batches=tuple(map(tuple, LATE))), NOW, arrives=False
    )
    where = Where(session=spark, streaming=True, home=tmp_path, base=tmp_path, sources={"rows": given})
    (query,) = (q for q in made.queries if q.name == "minutes")
    run_to_end(made, query, where, tmp_path / "checkpoint")
    assert not list(tmp_path.glob("aside/**/*.parquet")), "the batches of query tens are others"


BEHIND = """
  tens: {from: rows, aggregate: {by: k, window: {tumbling: 10 s}, compute: {n: count(*)}}}
  kept:
    from: tens
    process:
      {python: "tests.spark.test_windows:passed", by: k, state: n BIGINT, returns: "window_end TIMESTAMP, n BIGINT"}
  minutes: {from: kept, aggregate: {window: {tumbling: 1 minute}, compute: {n: sum(n)}}}
  met: {from: [tens, rows], as_of: {on: k, prefix: r_}}
  met_minutes: {from: met, aggregate: {window: {tumbling: 1 minute}, compute: {n: sum(n)}}}"""


def passed(record: dict[str, Any], state: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"window_end": record["window_end"], "n": record["n"]}, {"n": 1}


@pytest.mark.parametrize("mode", ["batch", "micro-batch"])
def test_a_window_behind_process_or_as_of_takes_windows_by_what_they_hold(mode: str, spark: SparkSession) -> None:
    flow = flow_of(BEHIND, "minutes", sinks="  met_out: {from: met_minutes, console: {}}")
    found = run(flow, [[at(51), at(59), at(60)], [at(200)], [at(300)]], spark, mode)
    minutes = [{"window_start": clock(s), "n": n} for s, n in ((0, 2), (60, 1), (180, 1), (300, 1))]
    agree(found, "out", minutes, flow)
    agree(found, "met_out", minutes, flow)


def test_late_records_correct_the_answer_for_as_long_as_is_allowed(spark: SparkSession) -> None:
    steps = """
  tens:
    from: rows
    aggregate:
      by: k
      window: {tumbling: 10 s}
      emit: changes
      late: correct
      allowance: 100 s
      compute: {n: count(*)}"""
    flow = flow_of(steps, "tens")
    expected = [("a", 0, 2), ("a", 100, 2), ("a", 90, 1), ("b", 90, 1), ("a", 300, 2)]
    rows = [{"k": k, "window_start": clock(s), "window_end": clock(s + 10), "n": n} for k, s, n in expected]
    agree(run(flow, LATE, spark), "out", rows, flow)


TIMES = """\
flow: times
sources:
  rows:
    kafka: {topic: rows}
    format: json
    schema: k STRING, at %s
    time: %s
steps:
  tens: {from: rows, aggregate: {by: k, window: {tumbling: 10 s}, compute: {n: count(*)}}}
sinks:
  out: {from: tens, console: {}}
"""


VALUES: dict[str, tuple[str, list[Any]]] = {
    "whole": ("BIGINT", [2**63 - 1, -(2**63), None, 2**53 + 1]),
    "small": ("INT", [None, -(2**31), 0, 7]),
    "float": ("DOUBLE", [math.nan, -0.0, None, -math.inf]),
    "yes": ("BOOLEAN", [None, True, False, None]),
    "exact": ("DECIMAL(38, 10)", [Decimal("9" * 28 + ".0000000001"), None, Decimal("-0.0000000001"), Decimal(0)]),
    "moment": (
        "TIMESTAMP",
        [datetime(9000, 12, 31, 23, 59, 59, 999999, UTC), None, datetime(1600, 1, 1, tzinfo=UTC), NOW],
    ),
    "day": ("DATE", [date(9999, 12, 31), date(1, 1, 1), None, date(1969, 12, 31)]),
    "text": ("STRING", ["", None, "\u0000ä\U0001f600", "a'b"]),
    "raw": ("BINARY", [b"", b"\x00\xff", None, b"a"]),
    "many": ("ARRAY<DOUBLE>", [[math.nan, None], [], None, [1.5]]),
    "inner": (
        "STRUCT<a: BIGINT, b: MAP<STRING, TIMESTAMP>>",
        [{"a": 2**63 - 1, "b": {"x": NOW}}, {"a": None}, None, {}],
    ),
}
"""Of each type what is easily changed on the way through Python."""


@pytest.mark.parametrize("mode", ["batch", "micro-batch"])
def test_every_value_comes_out_of_a_window_in_order_as_it_went_in(mode: str, spark: SparkSession) -> None:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in VALUES.items())
    compute = ", ".join(f"{name}: first({name}), last_{name}: last({name})" for name in VALUES)
    keyed = {"k1": "float", "k2": "moment", "k3": "text", "k4": "yes"}
    by = ", ".join(f"{name}: {of}" for name, of in keyed.items())
    steps = f"""
  one: {{from: rows, aggregate: {{window: {{count: 1}}, by: {{{by}}}, compute: {{{compute}}}}}}}
  recent: {{from: rows, aggregate: {{window: {{sliding: 1 second}}, compute: {{{compute}}}}}}}"""
    flow = flow_of(steps, "one", sinks="  second: {from: recent, console: {}}", columns=columns)
    rows = [{name: given[n] for name, (_, given) in VALUES.items()} | {"at": at} for n, at in enumerate(MICROS)]
    found = run(flow, [rows[:3], rows[3:], [{"at": MICROS[-1] + timedelta(hours=1)}]], spark, mode)
    for sink, extra in (("out", keyed | {name: name for name in VALUES}), ("second", {})):
        told = sorted((r | {"window_end": in_utc(r["window_end"])} for r in found[sink]), key=itemgetter("window_end"))
        assert [r["window_end"] for r in told[:-1]] == MICROS
        for row, given in zip(told, rows, strict=False):
            for name, of in ({f"last_{name}": name for name in VALUES} | extra).items():
                unsigned = name == "k1" and row[name] == given[of]  # as a key a zero has no sign
                assert unsigned or same(row[name], given[of]), (sink, name, row[name], given[of])
    assert all(same(row[name], rows[0][name]) for row in told[:-1] for name in VALUES), "the oldest within the second"


def in_utc(at: datetime) -> datetime:
    return at.replace(tzinfo=at.tzinfo or UTC)


def same(one: Any, other: Any) -> bool:
    """Whether two values are one, to the sign of a zero; what is not named in a struct is null."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(value, other.get(name)) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, datetime) and isinstance(other, datetime):
        return in_utc(one) == other
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def windows(kind: str, time: str, batches: list[list[str]], spark: SparkSession) -> dict[tuple[str, str], int]:
    report = check(resolve(flowfile.read(TIMES % (kind, time))))
    assert report.errors == (), "\n".join(map(str, report.errors))
    case = Case.model_validate({"name": "case", "given": {}, "expect": {}, "clock": "2026-03-01T12:00:00Z"})
    found = outputs(report.flow, {"rows": Input(batches=tuple(map(tuple, batches)))}, case, spark)["out"]
    return {(row["k"], f"{row['window_start']:%H:%M:%S}"): row["n"] for row in found}


def test_times_that_are_missing_unreadable_or_far_in_the_future_do_not_move_the_watermark(spark: SparkSession) -> None:
    first = ['{"k": "a", "at": "01.03.2026 12:00:01"}', '{"k": "a", "at": "01.03.2999 12:00:01"}', '{"k": "a"}']
    second = ['{"k": "a", "at": "yesterday"}', '{"k": "b", "at": "01.03.2026 13:00:04"}']
    third = ['{"k": "a", "at": "01.03.2026 12:00:09"}', '{"k": "a", "at": "01.03.2026 13:30:00"}']
    found = windows("STRING", '{column: at, format: "dd.MM.yyyy HH:mm:ss"}', [first, second, third], spark)
    assert found == {("a", "12:00:00"): 2, ("b", "13:00:00"): 1}


def test_a_record_that_a_filter_leaves_out_moves_the_watermark_all_the_same(spark: SparkSession) -> None:
    steps = "  ours: {from: rows, filter: k = 'a'}\n"
    steps += "  per_ten: {from: ours, aggregate: {window: {tumbling: 10 s}, compute: {n: count(*)}}}"
    flow = flow_of(steps, "per_ten")
    found = run(flow, [[at(1)], [at(60, k="b")], [at(60, k="b")], [at(2), at(61)]], spark)["out"]
    assert [row["n"] for row in found] == [1, 1]


def test_ingestion_time_is_when_the_record_reached_the_log(spark: SparkSession) -> None:
    records = ['{"k": "a", "at": "2999-01-01T00:00:00Z"}'] * 12
    assert windows("TIMESTAMP", "ingestion", [records[:5], records[5:]], spark) == {
        ("a", "12:00:00"): 10,
        ("a", "12:00:10"): 2,
    }


def test_a_number_is_read_as_the_time_it_counts(spark: SparkSession) -> None:
    time = '{column: at, format: epoch-milliseconds, before: "2026-03-01T12:00:30Z"}'
    moments = [1772366400000, 1772366409999, 1772366430000]
    found = windows("BIGINT", time, [[f'{{"k": "a", "at": {at}}}' for at in moments]], spark)
    assert found == {("a", "12:00:00"): 2}


@pytest.mark.parametrize(("bound", "counted"), [("", 2), (', before: "2100-01-01T00:00:00Z"', 3)])
def test_only_a_bound_keeps_one_time_from_making_all_others_late(bound: str, counted: int, spark: SparkSession) -> None:
    steps = "  tens: {from: rows, aggregate: {window: {tumbling: 10 s}, compute: {n: count(*)}}}"
    flow = flow_of(steps, "tens", f"{{column: at, watermark: 10 s{bound}}}")
    future = {"k": "a", "x": 1, "at": "2999-01-01T00:00:00Z"}
    found = run(flow, [[at(1), future], [at(2)], [at(3)]], spark)["out"]
    assert {r["window_start"].year: r["n"] for r in found} | {2999: 1} == {2026: counted, 2999: 1}


def test_processing_time_is_when_the_batch_was_planned(spark: SparkSession) -> None:
    steps = """
  hours: {from: rows, aggregate: {by: k, window: {tumbling: 1 hour}, compute: {n: count(*)}}}"""
    flow = flow_of(steps, "hours", "processing")
    begun = datetime.now(UTC)
    found = run(flow, [[at(1), at(2)], [at(7000), at(3)], [at(1, k="b")]], spark)["out"]
    ended = datetime.now(UTC)

    counted: dict[str, int] = {}
    for row in found:
        counted[row["k"]] = counted.get(row["k"], 0) + row["n"]
        start, end = (row[name].replace(tzinfo=UTC) for name in ("window_start", "window_end"))
        assert start <= ended
        assert end > begun
        assert end - start == timedelta(hours=1)
    assert counted == {"a": 4, "b": 1}, "whatever their own times say"
