"""When a silence has lasted long enough for time to be moved on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headrace import Flow, tumbling
from headrace.compile.plan import Plan
from headrace.compile.planner import plan
from headrace.connectors.time import Time
from headrace.run.checkpoint import planned
from headrace.run.flush import plan_watermark
from headrace.run.home import Home
from headrace.run.idle import Idle, Silence

TIME = Time.model_validate({"column": "at", "watermark": "5 s", "idle": "60 s"})
ENTRY = 'v1\n{"batchWatermarkMs":1000,"batchTimestampMs":1,"conf":{}}\n{"logOffset":2}'


def silence(*sources: str) -> Silence:
    return Silence(times=dict.fromkeys(sources, TIME), since=dict.fromkeys(sources, 0.0))


def batch(state: int = 3, **newest: int) -> dict[str, Any]:
    return {
        "query": "n",
        "batch": 0,
        "state": state,
        "observed": {f"{k}.time": {"records": 1, "newest": v} for k, v in newest.items()},
    }


def tens() -> Plan:
    flow = Flow("f")
    rows = flow.source(
        "a", "files", path=".", format="json", schema="at TIMESTAMP", time={"column": "at", "idle": "60 s"}
    )
    rows.aggregate("n", window=tumbling("10 s"), n="count(*)").sink("out", "memory")
    return plan(flow.build())


def test_where_all_are_silent_time_goes_on_as_the_clock_does() -> None:
    known = silence("a")
    known.note(batch(a=100_000), now=10.0)
    assert known.due(now=69.0) is None
    assert known.due(now=70.0) == 100_000 + 60_000 - 5_000


def test_where_one_is_silent_the_others_lead() -> None:
    known = silence("a", "b")
    known.note(batch(a=100_000, b=50_000), now=0.0)
    known.note(batch(a=200_000), now=61.0)
    assert known.due(now=62.0) == 200_000 - 5_000


def test_a_silent_source_that_is_ahead_does_not_make_the_live_ones_late() -> None:
    known = silence("a", "b", "c")
    known.note(batch(a=43_200_000, b=39_600_000, c=39_700_000), now=0.0)
    known.note(batch(b=39_660_000, c=39_700_000), now=61.0)
    assert known.due(now=62.0) is None, "it holds nothing back"
    known.spoken.clear()
    known.note(batch(b=39_670_000, c=39_700_000), now=63.0)
    assert known.due(now=64.0) == 39_670_000 - 5_000, "started anew, Spark waits for it: the slowest that goes on leads"


def test_a_source_that_has_no_idle_is_waited_for() -> None:
    known = silence("a", "b")
    known.times = {"a": TIME, "b": TIME.model_copy(update={"idle": None})}
    known.note(batch(a=43_200_000), now=0.0)
    assert known.due(now=100.0) is None, "b has not given a record yet"
    known.note(batch(b=39_600_000), now=100.0)
    known.spoken.clear()
    assert known.due(now=1000.0) == 39_600_000 - 5_000


def test_where_all_are_silent_the_one_that_came_farthest_leads() -> None:
    known = silence("a", "b")
    known.note(batch(a=200_000, b=100_000), now=0.0)
    known.note(batch(b=110_000), now=30.0)
    assert known.due(now=90.0) == 200_000 + 60_000 - 5_000


def test_nothing_is_moved_before_the_first_record_or_when_nothing_is_held() -> None:
    known = silence("a")
    assert known.due(now=1000.0) is None
    known.note(batch(state=0, a=1), now=1000.0)
    assert known.due(now=2000.0) is None


def test_a_long_silence_is_tended_ever_more_rarely_until_a_record_comes() -> None:
    known = silence("a")
    known.note(batch(a=100_000), now=0.0)
    assert known.due(now=60.0) is not None
    known.move(now=60.0)
    assert known.due(now=179.0) is None
    assert known.due(now=180.0) is not None
    known.note(batch(a=110_000), now=181.0)
    assert known.tries == 0


def test_records_of_others_do_not_shorten_the_distance() -> None:
    known = silence("a", "b")
    known.note(batch(a=100_000, b=100_000), now=0.0)
    moved = []
    for second in range(1, 4000):
        known.note(batch(b=100_000 + 1000 * second), now=second)
        if known.due(now=second) is not None:
            known.move(now=second)
            moved.append(second)
    assert moved == [60, 180, 420, 900, 1860, 2820, 3780], "twice as far each time, and no farther than 16 times"
    known.note(batch(a=100_000), now=4000.0)
    known.note(batch(b=4_000_000), now=4061.0)
    assert known.due(now=4061.0) is not None, "another silence begins anew"


def test_a_batch_that_takes_long_is_not_a_silence(tmp_path: Path) -> None:
    seconds = [0.0]
    home = Home(tmp_path)
    idle = Idle(tens(), home, clock=lambda: seconds[0])
    offsets = home.checkpoint("n") / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text(ENTRY)
    idle.note(batch(a=100_000))
    seconds[0] = 100.0
    (offsets / "1").write_text(ENTRY)
    assert idle._due("n") is None, "its records may be among those of batch 1"
    idle.note({**batch(), "batch": 1})
    assert idle._due("n") is not None


def test_silence_is_counted_from_when_a_query_has_looked_for_records(tmp_path: Path) -> None:
    seconds = [0.0]
    made, home = tens(), Home(tmp_path)
    for folder in ("offsets", "commits"):
        (home.checkpoint("n") / folder).mkdir(parents=True)
        (home.checkpoint("n") / folder / "0").write_text(ENTRY)
    idle = Idle(made, home, clock=lambda: seconds[0])
    one: Any = SimpleNamespace(query=made.queries[0], active=True, waits=False)
    seconds[0] = 100.0
    assert not idle._listens(one), "Spark is still starting: what lies there was not looked for"
    one.waits = True
    assert not idle._listens(one)
    assert idle._listens(one)
    assert idle._due("n") is None
    seconds[0] = 160.0
    assert idle._due("n") == 1000 + 60_000, "from the watermark of the run before, as the clock went"


def test_a_watermark_is_planned_once_and_only_between_batches(tmp_path: Path) -> None:
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "4").write_text(ENTRY)
    assert plan_watermark(tmp_path, 1000) is None
    assert plan_watermark(tmp_path, 2000) == 5
    assert planned(tmp_path, 5).metadata["batchWatermarkMs"] == 2000
    assert planned(tmp_path, 5).offsets == planned(tmp_path, 4).offsets
    assert plan_watermark(tmp_path, 3000) is None, "that batch must run first"
    (tmp_path / "offsets" / "5").write_text(ENTRY.replace('"logOffset":2', '"logOffset":3'))
    assert plan_watermark(tmp_path, 3000, refused=True) == 5
    assert planned(tmp_path, 5).metadata["batchWatermarkMs"] == 3000
    assert planned(tmp_path, 5).offsets == ('{"logOffset":3}',), "with the records it was to have"
