"""Timers and lifetimes by the clock: they come due without a record, and a run that is to end with its input ends."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import Processor, ValueState
from headrace.check import load
from headrace.compile.planner import TICK, plan
from headrace.compile.where import Where
from headrace.run.checkpoint import last_committed
from headrace.run.home import home_of
from headrace.run.queries import Stopping, Watch, start_query
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = """\
flow: clock
sources:
  clicks: {files: {path: clicks}, format: json, schema: user STRING}
steps:
  quiet: {from: clicks, process: {python: "tests.recovery.test_clock:Quiet", by: user}}
sinks:
  out: {from: quiet, sqlite: {path: out.db, table: said}}
"""


class Quiet(Processor):
    """Says that a user has come, and a second later what it still remembers."""

    clock = "processing"
    returns = "user STRING, said STRING"
    clicks = ValueState("n BIGINT")
    short = ValueState("n BIGINT", ttl="500 ms")
    bound = "cleared a second later"

    def on_record(self, record: dict[str, Any], state: Any, timers: Any) -> Iterator[dict[str, Any]]:
        state.clicks.set(1)
        state.short.set(2)
        timers.at(timers.batch_time + timedelta(seconds=1))
        yield {"user": record["user"], "said": f"{state.clicks.get()} {state.short.get()}"}

    def on_timer(self, when: Any, key: dict[str, Any], state: Any, timers: Any) -> Iterator[dict[str, Any]]:
        yield {"user": key["user"], "said": f"{state.clicks.get()} {state.short.get()}"}
        state.clicks.clear()


def test_a_timer_by_the_clock_fires_without_a_record_and_a_run_to_the_end_ends(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "clock.yaml"
    file.write_text(FLOW)
    (tmp_path / "clicks").mkdir()
    (tmp_path / "clicks" / "0.json").write_text(json.dumps({"user": "ann"}))
    made = plan(load(file))
    for name, value in made.spark.items():
        spark.conf.set(name, value)
    home = home_of(tmp_path / ".headrace", "clock")
    home.make()
    (query,) = made.queries
    where, stopping = Where(session=spark, streaming=True, home=home.path, base=tmp_path), Stopping()
    watch = Watch(home, made.queries, lambda _: None)

    def said() -> list[tuple[str, str]]:
        with closing(sqlite3.connect(tmp_path / "out.db")) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'said'").fetchall():
                return []
            return sorted(database.execute("SELECT user, said FROM said"))

    def batches() -> int:
        last = last_committed(home.checkpoint("quiet"))
        return 0 if last is None else last + 1

    live = start_query(home, made, query, where, stopping, watch, until_done=False)
    try:
        eventually(batches, 120, diagnose=lambda: str(live.spark.exception()))
        begun, first = time.monotonic(), batches()
        eventually(lambda: said() == [("ann", "1 2"), ("ann", "1 None")], 60)
        eventually(lambda: batches() >= first + 3, 60)
        since = batches() - first
        # One more than whole ticks fit in, and one that was late when the count began.
        most = (time.monotonic() - begun) / TICK.total_seconds() + 2
        assert since <= most, "nothing comes, so batches come with the clock"
    finally:
        live.stop(30)
    (tmp_path / "clicks" / "1.json").write_text(json.dumps({"user": "bob"}))
    ending = start_query(home, made, query, where, stopping, watch, until_done=True)
    try:
        assert ending.spark.awaitTermination(60), "it ends with its input, though a timer is set"
    finally:
        ending.stop(0)
    assert ("bob", "1 2") in said()
