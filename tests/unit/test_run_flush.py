from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.compile.plan import Query
from headrace.model import Changes, Port
from headrace.run.checkpoint import last_committed, planned, resume_point
from headrace.run.flush import END_OF_TIME, holds_windows, plan_flush

ENTRY = 'v1\n{"batchWatermarkMs":1704067346000,"batchTimestampMs":1,"conf":{"a":"b"}}\n{"logOffset":2}\n-'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    for batch in range(11):
        (tmp_path / "offsets" / str(batch)).write_text(ENTRY)
        (tmp_path / "commits" / str(batch)).write_text("v1\n{}")
        (tmp_path / "offsets" / f".{batch}.crc").write_bytes(b"crc")
    return tmp_path


def test_the_flush_reads_what_the_last_batch_read_under_a_watermark_at_the_end_of_time(checkpoint: Path) -> None:
    assert plan_flush(checkpoint) == 11

    flush = planned(checkpoint, 11)
    assert flush.offsets == planned(checkpoint, 10).offsets == ('{"logOffset":2}', "-")
    assert flush.metadata == {"batchWatermarkMs": END_OF_TIME, "batchTimestampMs": 1, "conf": {"a": "b"}}
    assert not (checkpoint / "offsets" / ".11.crc").exists()


def test_a_flush_that_was_planned_before_a_crash_is_not_planned_again(checkpoint: Path) -> None:
    assert plan_flush(checkpoint) == 11
    assert plan_flush(checkpoint) == 11


def test_a_flush_that_is_done_is_not_done_again(checkpoint: Path) -> None:
    plan_flush(checkpoint)
    (checkpoint / "commits" / "11").write_text("v1\n{}")

    assert plan_flush(checkpoint) is None


def test_an_empty_input_has_nothing_to_flush(tmp_path: Path) -> None:
    assert plan_flush(tmp_path) is None


def test_a_batch_that_is_not_done_forbids_the_flush(checkpoint: Path) -> None:
    (checkpoint / "commits" / "10").unlink()

    with pytest.raises(ValueError, match="batch 10"):
        plan_flush(checkpoint)


def test_a_run_resumes_after_the_last_batch_that_is_done(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "offsets" / "11").write_text(ENTRY.replace("2}", "9}"))

    assert last_committed(checkpoint) == 10
    assert resume_point(checkpoint) == {"batch": 10, "offsets": [{"logOffset": 2}, "-"]}
    assert resume_point(tmp_path / "nothing") is None
    assert json.dumps(resume_point(checkpoint))


@pytest.mark.parametrize(
    ("stateful", "watermarked", "changes", "expected"),
    [
        (("w",), True, Changes.APPEND, True),
        ((), True, Changes.APPEND, False),
        (("w",), False, Changes.APPEND, False),
        (("w",), True, Changes.UPDATE, False),
    ],
)
def test_only_final_results_on_event_time_are_held_back(
    stateful: tuple[str, ...], watermarked: bool, changes: Changes, expected: bool
) -> None:
    query = Query(
        name="w", trunk=Port("w"), sources=("s",), steps=("w",), sinks=("k",), changes=changes, stateful=stateful
    )

    assert holds_windows(query, watermarked=watermarked) is expected
