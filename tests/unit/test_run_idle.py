"""When a silence has lasted long enough for time to be moved on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.connectors.time import Time
from headrace.run.checkpoint import planned
from headrace.run.flush import plan_watermark
from headrace.run.idle import Silence

TIME = Time.model_validate({"column": "at", "watermark": "5 s", "idle": "60 s"})
ENTRY = 'v1\n{"batchWatermarkMs":1000,"batchTimestampMs":1,"conf":{}}\n{"logOffset":2}'


def silence(*sources: str) -> Silence:
    return Silence(times=dict.fromkeys(sources, TIME), since=dict.fromkeys(sources, 0.0))


def batch(state: int = 3, **newest: int) -> dict[str, Any]:
    return {"state": state, "observed": {f"{k}.time": {"records": 1, "newest": v} for k, v in newest.items()}}


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


def test_nothing_is_moved_before_the_first_record_or_when_nothing_is_held() -> None:
    known = silence("a")
    assert known.due(now=1000.0) is None
    known.note(batch(state=0, a=1), now=1000.0)
    assert known.due(now=2000.0) is None


def test_a_long_silence_is_tended_ever_more_rarely_until_a_record_comes() -> None:
    known = silence("a")
    known.note(batch(a=100_000), now=0.0)
    known.tries, known.tried = 1, 60.0
    assert known.due(now=179.0) is None
    assert known.due(now=180.0) is not None
    known.note(batch(a=110_000), now=181.0)
    assert known.tries == 0


def test_a_watermark_is_planned_once_and_only_between_batches(tmp_path: Path) -> None:
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "4").write_text(ENTRY)
    assert plan_watermark(tmp_path, 1000) is None
    assert plan_watermark(tmp_path, 2000) == 5
    assert planned(tmp_path, 5).metadata["batchWatermarkMs"] == 2000
    assert planned(tmp_path, 5).offsets == planned(tmp_path, 4).offsets
    assert plan_watermark(tmp_path, 3000) is None, "that batch must run first"
