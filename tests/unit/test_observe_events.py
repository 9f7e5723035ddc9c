from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from headrace.observe import events
from headrace.observe.events import Follower


def test_events_are_read_in_the_order_they_were_added(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    events.append(path, "starting", run="shop")
    events.append(path, "started", queries=["a"])

    read = list(events.read(path))

    assert [e["event"] for e in read] == ["starting", "started"]
    assert read[1]["queries"] == ["a"]
    assert read[0]["at"] <= read[1]["at"]


def test_an_unlisted_event_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="unlisted"):
        events.append(tmp_path / "events.jsonl", "exploded")


def test_a_line_that_a_crash_cut_short_does_not_hide_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "starting", "at"\n{"event": "started", "at": "x"}\n[1]\n{"event": "fin')

    assert [e["event"] for e in events.read(path)] == ["started"]
    events.append(path, "finished")
    assert [e["event"] for e in events.read(path)] == ["started", "finished"]


def test_a_follower_sees_each_event_once_and_half_a_line_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    follower = Follower(path)
    assert follower.poll() == []
    events.append(path, "starting")
    with path.open("a") as file:
        file.write('{"event": "star')
        file.flush()
        assert [e["event"] for e in follower.poll()] == ["starting"]
        assert follower.poll() == []
        file.write('ted"}\n')
    assert [e["event"] for e in follower.poll()] == ["started"]


def test_a_follower_goes_on_over_a_file_that_was_set_aside_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    follower = Follower(path)
    events.append(path, "starting")
    assert len(follower.poll()) == 1
    events.append(path, "started")

    assert events.rotate(path, largest=10)
    events.append(path, "finished")

    assert [e["event"] for e in follower.poll()] == ["started", "finished"]
    assert not events.rotate(path, largest=10_000)


def test_a_follower_from_the_end_sees_only_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    events.append(path, "starting")
    follower = Follower(path, from_end=True)
    events.append(path, "started")

    assert [e["event"] for e in follower.poll()] == ["started"]


def test_the_last_event_of_a_kind_is_found(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert events.last(path, "progress") is None
    for batch in range(3):
        events.append(path, "progress", batch=batch)
    events.append(path, "stopped")

    found = events.last(path, "progress")
    assert found is not None
    assert found["batch"] == 2
    assert (events.last(path) or {})["event"] == "stopped"


def _write_many(path: Path, writer: int) -> None:
    for number in range(200):
        events.append(path, "progress", writer=writer, number=number, filler="x" * 500)


def test_lines_of_two_processes_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(path, n)) for n in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)

    lines = [json.loads(line) for line in path.read_text().splitlines()]

    assert [e["number"] for e in lines if e["writer"] == 0] == list(range(200))
    assert [e["number"] for e in lines if e["writer"] == 1] == list(range(200))
