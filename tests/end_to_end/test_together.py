"""`headrace run flows/`: two flows with a topic between them, started, watched and stopped as one."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.commands import Place, place_of_work
from tests.waiting import eventually

FIRST = """\
flow: split-lines
parameters: {shortest: {type: int, default: 1}}
sources:
  lines:
    values:
      rows: [[NE Scala 2016 Apache Apache Spark], [Storm Apache Trident Flink], [Streaming Samza Scala 2016 Streaming]]
    schema: line STRING
steps:
  words:
    from: lines
    flat_map: {each: "split(line, ' ')", as: word}
  long:
    from: words
    filter: length(word) >= ${param:shortest}
sinks:
  words-topic:
    from: long
    kafka: {topic: words-between, key: word}
    format: json
"""
SECOND = """\
flow: count-words
sources:
  words:
    kafka: words-between
    format: json
    schema: word STRING
steps:
  counts:
    from: words
    aggregate: {by: word, compute: {n: count(*)}}
sinks:
  table:
    from: counts
    sqlite: {path: counts.db, table: counts, key: word}
"""


def counts(root: Path) -> dict[str, int]:
    file = root / "counts.db"
    if not file.exists():
        return {}
    with closing(sqlite3.connect(file)) as database:
        try:
            return dict(database.execute("SELECT word, n FROM counts").fetchall())
        except sqlite3.OperationalError:
            return {}


@pytest.mark.slow
def test_a_folder_of_flows_is_one_pipeline(tmp_path: Path, broker: str) -> None:
    environment = {"HEADRACE_SPARK_MASTER": "local[1]", "HEADRACE_KAFKA_BOOTSTRAP": broker}
    with place_of_work(tmp_path / "work", environment) as place:
        flows = place.root / "flows"
        flows.mkdir()
        (flows / "count.yaml").write_text(SECOND)
        (flows / "split.yaml").write_text(FIRST)

        running = place.start("run", "flows/", "--json", "--param", "shortest=3")
        eventually(lambda: len(counts(place.root)) == 9, 240, diagnose=place.logs)
        listed = json.loads(place.run("list", "--json").out)
        running.send_signal(signal.SIGINT)
        events = [json.loads(line) for line in place.ended(running).out.splitlines()]

        assert [(row["name"], row["status"]) for row in listed] == [
            ("count-words", "running"),
            ("split-lines", "running"),
        ]
        assert counts(place.root)["Apache"] == 3
        assert "NE" not in counts(place.root), "the parameter reached the flow that has it"
        started = [e["run"] for e in events if e["event"] == "started"]
        assert started == ["split-lines", "count-words"], "who writes the topic comes first"
        assert [e["run"] for e in events if e["event"] == "stopped"].count("count-words") == 1
        statuses = {row["name"]: row["status"] for row in json.loads(place.run("list", "--json").out)}
        assert statuses == {"count-words": "stopped", "split-lines": "stopped"}
        detached(place)


def detached(place: Place) -> None:
    """The same in the background, resumed with what it was given, stopped by the folder."""
    said = place.run("run", "flows/", "--detach").err
    assert '"split-lines" is running' in said
    assert "count-words reads from split-lines" in said
    stopped = place.run("stop", "flows").err
    assert '"split-lines" is stopped' in stopped
    assert '"count-words" is stopped' in stopped
    assert counts(place.root)["Apache"] == 3, "resumed, not begun anew"
