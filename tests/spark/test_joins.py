"""Joins and deduplication against a plain-Python oracle: hundreds of small examples in a few runs."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.check import check
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.model import Flow
from headrace.testing.cases import Case, Input
from headrace.testing.run_cases import outputs
from tests.oracles import joins as oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELAY = timedelta(seconds=20)
LATE = timedelta(minutes=3)
"""Records come up to this late: more than the watermark waits, so that some are dropped."""
BEFORE, AFTER, WITHIN = timedelta(seconds=15), timedelta(seconds=60), timedelta(seconds=90)
KINDS = ("inner", "left", "right", "full")
SOURCE = """
    values: {rows: []}
    schema: ex BIGINT, k STRING, id BIGINT, at TIMESTAMP
    time: {column: at, watermark: 20 seconds}"""


def read(text: str) -> Flow:
    report = check(resolve(flowfile.read(text)))
    assert report.errors == (), "\n".join(map(str, report.errors))
    return report.flow


def run(
    session: SparkSession, flow: Flow, mode: str, **given: Sequence[Sequence[dict[str, Any]]]
) -> dict[str, tuple[dict[str, Any], ...]]:
    inputs = {name: Input(batches=tuple(map(tuple, batches))) for name, batches in given.items()}
    found = outputs(flow, inputs, Case(name="case", given={}, expect={}, mode=mode), session)
    return {sink: tuple({n: _utc(v) for n, v in row.items()} for row in rows) for sink, rows in found.items()}


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def same(found: Iterable[Any], expected: Iterable[Any]) -> None:
    have, want = Counter(found), Counter(expected)
    missing, extra = want - have, have - want
    told = f"missing {list(missing)[:5]} ({missing.total()}), extra {list(extra)[:5]} ({extra.total()})"
    assert have == want, told


def streams(seed: int, **more: Any) -> tuple[tuple[oracle.Record, ...], ...]:
    return oracle.stream(seed, examples=200, batches=4, late=LATE, **more)


def interval_join(kind: str) -> Flow:
    return read(f"""\
flow: {kind}-join
spark: {{spark.sql.shuffle.partitions: 1}}
sources:
  left: {SOURCE}
  right: {SOURCE}
steps:
  pairs:
    from: [left, right]
    join: {{on: [ex, k], within: {{before: 15 seconds, after: 1 minute}}, kind: {kind}, prefix: r_}}
sinks:
  out: {{from: pairs, memory: {{}}}}
""")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["micro-batch", "batch"])
def test_a_join_in_an_interval_gives_what_the_oracle_gives(mode: str, kind: str, spark: SparkSession) -> None:
    left, right = streams(1), streams(2)
    found = run(spark, interval_join(kind), mode, left=left, right=right)
    ours, theirs = both_in_time(left, right, mode)
    pairs = list(oracle.joined(ours, theirs, kind, BEFORE, AFTER))
    assert len(pairs) > 50
    expected = [
        (
            (a or b or {})["ex"],
            (a or b or {})["k"],
            *((a["id"], a["at"]) if a else (None, None)),
            *((b["id"], b["at"]) if b else (None, None)),
        )
        for a, b in pairs
    ]
    same([(r["ex"], r["k"], r["id"], r["at"], r["r_id"], r["r_at"]) for r in found["out"]], expected)


def both_in_time(
    left: Sequence[Sequence[oracle.Record]], right: Sequence[Sequence[oracle.Record]], mode: str
) -> tuple[list[oracle.Record], list[oracle.Record]]:
    """What counts of two streams; as a batch nothing is late."""
    marks = oracle.watermarks([(left, DELAY), (right, DELAY)]) if mode != "batch" else [0]
    ours, theirs = (oracle.flat(oracle.in_time(side, marks)) for side in (left, right))
    timed = [r for r in oracle.flat([*left, *right]) if r["at"]]
    assert (len(ours) + len(theirs) < len(timed)) == (mode != "batch"), "of a stream something should be late"
    return ours, theirs


CHAIN = f"""\
flow: chain
spark: {{spark.sql.shuffle.partitions: 1}}
sources:
  left: {SOURCE}
  right: {SOURCE}
steps:
  pairs:
    from: [left, right]
    join: {{on: [ex, k], within: 1 minute, kind: left, prefix: r_}}
  counted:
    from: pairs
    aggregate: {{by: ex, window: {{tumbling: 1 minute}}, compute: {{n: count(*), met: count(r_id)}}}}
sinks:
  out: {{from: counted, memory: {{}}}}
"""


def test_an_aggregate_behind_an_outer_join_counts_every_row_of_it(spark: SparkSession) -> None:
    left, right = streams(1), streams(2)
    found = run(spark, read(CHAIN), "micro-batch", left=left, right=right)
    rows = Counter[tuple[int, datetime]]()
    met = Counter[tuple[int, datetime]]()
    for a, b in oracle.joined(*both_in_time(left, right, "micro-batch"), "left", AFTER, AFTER):
        assert a is not None
        window = (a["ex"], a["at"].replace(second=0, microsecond=0))
        rows[window] += 1
        met[window] += b is not None
    expected = [(*window, n, met[window]) for window, n in rows.items()]
    same([(r["ex"], r["window_start"], r["n"], r["met"]) for r in found["out"]], expected)


DISTINCT = f"""\
flow: once
spark: {{spark.sql.shuffle.partitions: 1}}
sources:
  left: {SOURCE}
steps:
  once:
    from: left
    distinct: {{by: [ex, k], within: 90 seconds}}
  counted:
    from: once
    aggregate: {{by: ex, window: {{tumbling: 1 minute}}, compute: {{n: count(*)}}}}
sinks:
  out: {{from: once, memory: {{}}}}
  counts: {{from: counted, memory: {{}}}}
"""


def keeps_its_promise(given: list[Any], kept: list[Any]) -> bool:
    """What holds of any cut into batches: every key is there, and no two of a key are within the bound."""
    times: dict[Any, list[datetime]] = {}
    for record in kept:
        times.setdefault((record["ex"], record["k"]), []).append(record["at"])
    apart = all(b - a > WITHIN for found in times.values() for a, b in pairwise(sorted(found)))
    return apart and set(times) == {(r["ex"], r["k"]) for r in given if r["at"] is not None}


def test_a_stream_cut_anywhere_keeps_the_promise_of_distinct() -> None:
    for seed in range(40):
        given = streams(seed)
        marks = oracle.watermarks([(given, DELAY)])
        in_time = [record for batch in oracle.in_time(given, marks) for record in batch]
        assert keeps_its_promise(in_time, list(oracle.deduplicated(given, marks, WITHIN)))
        assert keeps_its_promise(oracle.flat(given), list(oracle.deduplicated_over_all(oracle.flat(given), WITHIN)))


@pytest.mark.parametrize("mode", ["micro-batch", "batch"])
def test_distinct_within_a_bound_gives_what_the_oracle_gives(mode: str, spark: SparkSession) -> None:
    given = streams(3)
    found = run(spark, read(DISTINCT), mode, left=given)
    marks = oracle.watermarks([(given, DELAY)])
    expected = list(
        oracle.deduplicated_over_all(oracle.flat(given), WITHIN)
        if mode == "batch"
        else oracle.deduplicated(given, marks, WITHIN)
    )
    assert 100 < len(expected) < len(oracle.flat(given))
    same([r["id"] for r in found["out"]], [r["id"] for r in expected])
    minutes = Counter((r["ex"], r["at"].replace(second=0, microsecond=0)) for r in expected)
    same(
        [(r["ex"], r["window_start"], r["n"]) for r in found["counts"]],
        [(ex, at, n) for (ex, at), n in minutes.items()],
    )


AS_OF = f"""\
flow: as-of
spark: {{spark.sql.shuffle.partitions: 1}}
sources:
  trades: {SOURCE}
  quotes: {SOURCE}
steps:
  near:
    from: [trades, quotes]
    as_of: {{on: [ex, k], tolerance: 1 minute, prefix: q_}}
  ever:
    from: [trades, quotes]
    as_of: {{on: [ex, k], kind: inner, prefix: q_}}
  counted:
    from: ever
    aggregate: {{by: [ex, q_id], window: {{tumbling: 1 minute}}, compute: {{n: count(*)}}}}
sinks:
  out: {{from: near, memory: {{}}}}
  counts: {{from: counted, memory: {{}}}}
"""


@pytest.mark.parametrize("mode", ["micro-batch", "batch"])
def test_as_of_gives_what_the_oracle_gives(mode: str, spark: SparkSession) -> None:
    trades, quotes = streams(4), streams(5)
    found = run(spark, read(AS_OF), mode, trades=trades, quotes=quotes)
    ours, theirs = both_in_time(trades, quotes, mode)
    near = list(oracle.as_of(ours, theirs, timedelta(minutes=1)))
    assert len([1 for _, quote in near if quote]) > 50
    expected = [(t["id"], t["at"], q and q["id"], q and q["at"]) for t, q in near]
    same([(r["id"], r["at"], r["q_id"], r["q_at"]) for r in found["out"]], expected)
    minutes = Counter(
        (t["ex"], q["id"], t["at"].replace(second=0, microsecond=0)) for t, q in oracle.as_of(ours, theirs, None) if q
    )
    same(
        [(r["ex"], r["q_id"], r["window_start"], r["n"]) for r in found["counts"]],
        [(*key, n) for key, n in minutes.items()],
    )


TABLE = f"""\
flow: enriched
spark: {{spark.sql.shuffle.partitions: 1}}
sources:
  left: {SOURCE}
  names:
    values: {{rows: []}}
    schema: k STRING, name STRING, version BIGINT
    table: {{key: k, latest_by: version}}
steps:
  known:
    from: names
    filter: name IS NOT NULL
  named:
    from: [left, known]
    join: {{on: k, kind: left}}
  only_named:
    from: [left, known]
    join: {{on: k}}
  counted:
    from: named
    aggregate: {{by: name, window: {{tumbling: 1 hour}}, compute: {{n: count(*)}}}}
sinks:
  out: {{from: named, memory: {{}}}}
  only: {{from: only_named, memory: {{}}}}
  counts: {{from: counted, memory: {{}}}}
"""
NAMES = [
    {"k": "a", "name": "Ann", "version": 2},
    {"k": "a", "name": "Abe", "version": 1},
    {"k": "b", "name": "Bob", "version": 1},
    {"k": "c", "name": None, "version": 1},
    {"k": None, "name": "Nobody", "version": 1},
]


@pytest.mark.parametrize("mode", ["micro-batch", "batch"])
def test_a_stream_joined_with_a_table(mode: str, spark: SparkSession) -> None:
    given = streams(6)
    found = run(spark, read(TABLE), mode, left=given, names=[NAMES])
    names = {"a": "Ann", "b": "Bob"}
    rows = [r for r in oracle.flat(given) if r["at"] is not None]
    same([(r["id"], r["name"]) for r in found["out"]], [(r["id"], names.get(r["k"])) for r in rows])
    same([(r["id"], r["name"]) for r in found["only"]], [(r["id"], names[r["k"]]) for r in rows if r["k"] in names])
    counts = Counter(names.get(r["k"]) for r in rows)
    same([(r["name"], r["n"]) for r in found["counts"]], counts.items())


def test_a_table_with_a_refresh_is_read_again_between_batches(spark: SparkSession, tmp_path: Path) -> None:
    """Each batch meets the table as it was last read; the clock of the run says when that is too long ago."""
    from headrace.compile.lower import lower
    from headrace.compile.planner import plan
    from headrace.compile.tables import Tables
    from headrace.compile.where import Where
    from headrace.connectors import memory

    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "first.json").write_text('{"k": "a", "name": "old"}\n')
    text = """\
flow: renewed
sources:
  left:
    values: {rows: [[1, a]]}
    schema: id BIGINT, k STRING
  names:
    files: {path: names}
    format: json
    schema: k STRING, name STRING
    table: {refresh: 1 minute}
steps:
  named: {from: [left, names], join: {on: k}}
sinks:
  out: {from: named, memory: {}}
"""
    flow = read(text)
    made = plan(flow)
    now = [0.0]
    tables = Tables(clock=lambda: now[0])
    where = Where(session=spark, streaming=True, home=tmp_path / "home", base=tmp_path, tables=tables)
    lowered = lower(made, made.queries[0], where)
    memory.tables.pop(("renewed", "out"), None)
    batch = spark.createDataFrame([(1, "a")], "id BIGINT, k STRING")
    lowered.write(batch, 0)
    (tmp_path / "names" / "first.json").write_text('{"k": "a", "name": "new"}\n')
    now[0] = 59.0
    lowered.write(batch, 1)
    now[0] = 60.0
    lowered.write(batch, 2)
    assert [row["name"] for row in memory.tables["renewed", "out"].rows] == ["old", "old", "new"]


LOOKUP = """\
flow: looked-up
spark: {{spark.sql.shuffle.partitions: 1}}
sources:
  left: {source}
steps:
  found:
    from: left
    lookup:
      {database}
      on: {{k: key, ex: nr}}
      take: name STRING, price DECIMAL(10,2), since TIMESTAMP, day DATE, good BOOLEAN, weight DOUBLE
      kind: {kind}
  counted:
    from: found
    aggregate: {{by: [name, price, since, day, good, weight], window: {{tumbling: 1 hour}}, compute: {{n: count(*)}}}}
sinks:
  out: {{from: counted, memory: {{}}}}
"""
PRODUCTS = [
    ("a", 49, "Apple", "1.50", "2026-01-01 00:00:00", "2026-01-02", True, 0.25),
    ("b", 77, "Pear", None, None, None, None, None),
]


def check_lookup(session: SparkSession, database: str, kind: str, mode: str) -> None:
    given = streams(7)
    found = run(session, read(LOOKUP.format(source=SOURCE, database=database, kind=kind)), mode, left=given)
    known = {
        ("a", 49): ("Apple", Decimal("1.50"), oracle.START, date(2026, 1, 2), True, 0.25),
        ("b", 77): ("Pear", None, None, None, None, None),
    }
    rows = [known.get((r["k"], r["ex"])) for r in oracle.flat(given) if r["at"] is not None]
    expected = Counter(row or (None,) * 6 for row in rows if row or kind == "left")
    assert expected[known["a", 49]] > 0
    taken = ("name", "price", "since", "day", "good", "weight", "n")
    same([tuple(r[n] for n in taken) for r in found["out"]], [(*row, n) for row, n in expected.items()])


@pytest.mark.parametrize(("kind", "mode"), [("left", "micro-batch"), ("inner", "batch")])
def test_rows_are_looked_up_in_sqlite(kind: str, mode: str, spark: SparkSession, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE products (key, nr, name, price TEXT, since, day, good, weight)")
        database.executemany("INSERT INTO products VALUES (?, ?, ?, ?, ?, ?, ?, ?)", PRODUCTS)
    check_lookup(spark, f"sqlite: {{path: {tmp_path / 'shop.db'}, table: products}}", kind, mode)


def test_rows_are_looked_up_in_postgresql(
    spark: SparkSession, postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    with psycopg.connect(postgresql, autocommit=True) as database:
        database.execute(
            "CREATE TABLE products_to_join (key TEXT, nr INTEGER, name TEXT, price NUMERIC(10,2), since TIMESTAMPTZ, "
            "day DATE, good BOOLEAN, weight DOUBLE PRECISION)"
        )
        insert = "INSERT INTO products_to_join VALUES (%s, %s, %s, %s, %s::timestamp AT TIME ZONE 'UTC', %s, %s, %s)"
        for row in PRODUCTS:
            database.execute(insert, row)
    monkeypatch.setenv("SHOP", postgresql)
    check_lookup(spark, 'postgresql: {url: "${env:SHOP}", table: products_to_join}', "left", "batch")


def test_a_database_that_is_away_is_worth_another_try_and_its_password_is_not_shown(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.run.failure import explain

    monkeypatch.setenv("AWAY", "postgresql://ann:hunter2@127.0.0.1:1/shop")
    database = 'postgresql: {url: "${env:AWAY}", table: products}'
    with pytest.raises(Exception, match="PostgreSQL") as raised:
        check_lookup(spark, database, "left", "batch")
    failure = explain(raised.value)
    assert (failure.kind, failure.retry) == ("endpoint", True)
    assert 'step "found"' in failure.message
    assert "hunter2" not in str(raised.value)
