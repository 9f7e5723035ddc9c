"""`headrace state`: what a run remembers, while it runs and after it has stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from struct import pack
from typing import TYPE_CHECKING, Any

import pytest

from headrace.check import load
from headrace.cli.state import table
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.errors import UsageError
from headrace.operators.ordered import LIKE, PACKED
from headrace.run.change import describe
from headrace.run.checkpoint import last_committed
from headrace.run.failure import explain
from headrace.run.home import Home, Record, home_of
from headrace.run.inline import run_to_end
from headrace.run.queries import Running, Stopping, Watch, start_query
from headrace.run.state import _entry, _unpacked, parse_key, query_of, read
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = """\
flow: keeps
sources:
  clicks:
    files: {path: clicks}
    format: json
    schema: id BIGINT, user STRING, at TIMESTAMP
    time: {column: at, watermark: 10 seconds}
steps:
  per_user:
    from: clicks
    aggregate: {by: user, compute: {n: count(*)}}
  once:
    from: clicks
    distinct: id
  numbered:
    from: once
    process:
      python: headrace.processor:numbered
      by: user
      state: n BIGINT
      returns: id BIGINT, user STRING, number BIGINT
      ttl: 1 hour
sinks:
  table:
    from: per_user
    sqlite: {path: out.db, table: users, key: user}
  kept:
    from: numbered
    files: {path: out}
    format: json
"""

ROWS = [(1, "ann"), (2, "bob"), (2, "bob"), (3, "ann"), (4, None)]


def headrace(root: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace.cli.main", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done


@dataclass
class Live:
    """A flow whose queries run, in this process, on a home as a supervisor would make it."""

    home: Home
    running: list[Running]

    def stop(self) -> None:
        for one in self.running:
            one.stop(30)


@pytest.fixture
def live(tmp_path: Path, spark: SparkSession) -> Iterator[Live]:
    """A flow that runs, with all its input done."""
    file = tmp_path / "keeps.yaml"
    file.write_text(FLOW)
    (tmp_path / "headrace.toml").touch()
    (tmp_path / "clicks").mkdir()
    rows = [{"id": id_, "user": user, "at": f"2026-01-01T00:00:0{id_ - 1}Z"} for id_, user in ROWS]
    (tmp_path / "clicks" / "all.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = plan(load(file))
    for name, value in made.spark.items():
        spark.conf.set(name, value)
    home = home_of(tmp_path / ".headrace", "keeps")
    home.make()
    home.write(
        Record(name="keeps", file=str(file), root=str(tmp_path), hash="", mode="micro-batch", queries=describe(made))
    )
    where = Where(session=spark, streaming=True, home=home.path, base=tmp_path)
    stopping, watch = Stopping(), Watch(home, made.queries, lambda _: None)
    live = Live(home, [])

    def done() -> bool:
        for index, one in enumerate(live.running):
            try:
                one.check()
            except Exception as error:
                if not explain(error).retry:  # a busy machine is slow to start Python; a supervisor tries again too
                    raise
                live.running[index] = start_query(home, made, one.query, where, stopping, watch, until_done=False)
        return all(last_committed(home.checkpoint(one.query.name)) is not None for one in live.running)

    try:
        for query in made.queries:  # one after the other: Spark gives each Python it starts ten seconds
            live.running.append(start_query(home, made, query, where, stopping, watch, until_done=False))
            eventually(done, 240)
        yield live
    finally:
        live.stop()


def held(home: Home, step: str, spark: SparkSession, **more: Any) -> list[dict[str, Any]]:
    return sorted((e.as_dict() for e in read(home, step, spark, **more).entries), key=str)


def test_state_is_read_by_key_or_scan_while_a_flow_runs_and_after_it_stopped(live: Live, spark: SparkSession) -> None:
    home = live.home
    numbered = [
        {"key": {"user": "ann"}, "value": {"n": 2}, "expires": "2026-01-01T01:00:02.000Z"},
        {"key": {"user": "bob"}, "value": {"n": 1}, "expires": "2026-01-01T01:00:01.000Z"},
        {"key": {"user": None}, "value": {"n": 1}, "expires": "2026-01-01T01:00:03.000Z"},
    ]
    assert all(one.active for one in live.running)
    assert held(home, "numbered", spark) == sorted(numbered, key=str)
    assert held(home, "numbered", spark, key="bob") == [numbered[1]]
    assert held(home, "numbered", spark, key="user=null") == [numbered[2]]
    assert {tuple(e["key"].values()) for e in held(home, "once", spark)} == {(1,), (2,), (3,), (4,)}
    per_user = {e["key"]["user"]: e["value"]["count"] for e in held(home, "per_user", spark)}
    assert per_user == {"ann": 2, "bob": 2, None: 1}
    some = read(home, "once", spark, limit=3)
    assert (len(some.entries), some.more) == (3, True)

    assert all(one.active for one in live.running)
    live.stop()
    root = home.path.parents[2]
    said = json.loads(headrace(root, "state", "keeps", "numbered", "--key", "ann", "--json").stdout)
    assert said["entries"] == [numbered[0]]
    lines = table(read(home, "numbered", spark))
    assert lines[0].split() == ["USER", "EXPIRES", "N"]
    assert ["bob", "2026-01-01T01:00:01.000Z", "1"] in [line.split() for line in lines]
    wrong = headrace(root, "state", "keeps", "nubered", code=2)
    assert 'did you mean "numbered"?' in wrong.stderr


BRANCHES = """\
flow: branches
sources:
  a: {files: {path: a}, format: json, schema: "x BIGINT, at TIMESTAMP", time: {column: at, watermark: 10 seconds}}
  b: {files: {path: b}, format: json, schema: "y BIGINT, at TIMESTAMP", time: {column: at, watermark: 10 seconds}}
steps:
  of_a: {from: a, distinct: x}
  of_b: {from: b, distinct: y}
  met: {from: [of_a, of_b], join: {on: {x: y}, within: 1 minute, prefix: b_}}
sinks:
  out: {from: met, files: {path: out}, format: json}
"""


def test_of_two_branches_each_has_its_own_state(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "branches.yaml"
    file.write_text(BRANCHES)
    for name, column, value in (("a", "x", 1), ("b", "y", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.json").write_text(json.dumps({column: value, "at": "2026-01-01T00:00:00Z"}))
    made = plan(load(file))
    for name, value in made.spark.items():
        spark.conf.set(name, value)
    home = home_of(tmp_path / ".headrace", "branches")
    home.make()
    record = Record(name="branches", file=str(file), root=str(tmp_path), hash="", mode="micro-batch")
    home.write(replace(record, queries=describe(made)))
    where = Where(session=spark, streaming=True, home=home.path, base=tmp_path)
    run_to_end(made, made.queries[0], where, home.checkpoint("met"), flush=False)
    assert [e["key"] for e in held(home, "of_a", spark)] == [{"x": 1}]
    assert [e["key"] for e in held(home, "of_b", spark)] == [{"y": 2}]
    assert {e["state"] for e in held(home, "met", spark)} == {"left", "right"}


def test_a_run_that_is_not_there_is_said_without_starting_spark(tmp_path: Path) -> None:
    assert 'there is no run "keeps"' in headrace(tmp_path, "state", "keeps", "numbered", code=2).stderr
    with pytest.raises(UsageError):
        query_of(home_of(tmp_path, "keeps"), "numbered")


def test_a_key_is_written_as_values_or_by_name() -> None:
    assert parse_key("a=b", ["user"]) == {"user": "a=b"}
    assert parse_key("a,b", ["user"]) == {"user": "a,b"}
    assert parse_key("day=3", ["user", "day"]) == {"day": "3"}
    with pytest.raises(UsageError):
        parse_key("ann", ["user", "day"])


def test_the_records_that_a_window_in_order_holds_are_shown(spark: SparkSession) -> None:
    """As `headrace.InOrder` writes them: how many there were, a timer, those kept, those that wait."""

    def record(at: int, x: float | None, t: int | None) -> bytes:
        values = pack("<qdq", (x is None) + 2 * (t is None), x or 0.0, t or 0)
        return pack(">qi", at, len(values)) + values

    schema = f"key STRUCT<user: STRING>, value STRUCT<{PACKED}: BINARY, {LIKE}: STRUCT<x: DOUBLE, t: TIMESTAMP>>"
    moment = round(datetime(2300, 1, 1, tzinfo=UTC).timestamp() * 1_000_000)
    packed = pack(">qqi", 3, -1, 1) + record(5, 0.5, None) + pack(">i", 1) + record(7, None, moment)
    frame = _unpacked(spark.createDataFrame([(("ann",), (packed, None))], schema))
    (row,) = frame.collect()
    shown = [{"at": 5, "x": 0.5, "t": None}, {"at": 7, "x": None, "t": "2300-01-01T00:00:00"}]
    entry = _entry("", row.asDict(recursive=True))
    assert entry.as_dict() == {"key": {"user": "ann"}, "value": {"seen": 3, "records": shown}}
