"""Word count, the way a newcomer runs it: from a file and from a topic, as a flow file and in Python."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.check import load
from tests.commands import Place
from tests.waiting import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "word-count"
COUNTS = {
    "Apache": 3,
    "Streaming": 2,
    "Scala": 2,
    "2016": 2,
    "Spark": 1,
    "Storm": 1,
    "Trident": 1,
    "Flink": 1,
    "Samza": 1,
    "NE": 1,
}


def counts(folder: Path, table: str) -> dict[str, int]:
    with closing(sqlite3.connect(folder / "counts.db")) as database:
        rows = database.execute(f"SELECT word, n FROM {table}").fetchall()
    assert len(rows) == len(dict(rows)), "a word is there twice"
    return dict(rows)


@pytest.mark.slow
def test_ten_counts_from_a_file_and_a_topic_by_two_flows_of_one_project_at_the_same_time(
    place: Place, broker: str
) -> None:
    """One flow is run as a flow file and one in Python; of both, the other form is the same flow."""
    shutil.copytree(EXAMPLE, place.root, dirs_exist_ok=True)
    assert load(place.root / "from-file.yaml") == load(place.root / "from_file.py")
    assert load(place.root / "from-topic.yaml") == load(place.root / "from_topic.py")
    (place.root / "headrace.toml").touch()
    file_form, topic_form, topic = "from-file.yaml", "from_topic.py", "lines-counted"
    change(place.root / topic_form, ('topic="lines"', f'topic="{topic}"'))
    log = replace(place, environment={**place.environment, "HEADRACE_KAFKA_BOOTSTRAP": broker})
    log.run("topic", "create", topic, "--partitions", "2")
    log.run("produce", topic, "words.txt")

    from_file = place.start("run", file_form, "--until-done")
    from_topic = log.start("run", topic_form, "--until-done", "--json")
    eventually((place.root / ".headrace/runs/word-count/run.json").exists, 60)
    refused = place.run("run", file_form, "--until-done", code=2)
    said = place.ended(from_file)
    events = [json.loads(line) for line in log.ended(from_topic).out.splitlines()]

    assert counts(place.root, "counts") == COUNTS
    assert counts(place.root, "topic_counts") == COUNTS
    assert "finished · in 1 · out 10" in said.err
    assert [events[0]["event"], events[-1]["event"]] == ["starting", "finished"]
    assert sum(e["out"] for e in events if e["event"] == "progress") == len(COUNTS)
    assert 'flow "word-count" is running already' in refused.err
    eventually(lambda: not place.processes(), 20, diagnose=lambda: "\n".join(place.processes()))
    assert sorted(p.name for p in (place.root / ".headrace/runs").iterdir() if p.is_dir()) == [
        "word-count",
        "word-count-topic",
    ]

    change(place.root / "from-file.yaml", ("by: word", "by: lower(word) AS word"))
    change(place.root / "from_file.py", ('by="word"', 'by="lower(word) AS word"'))
    for form in ("from-file.yaml", "from_file.py"):
        said = place.run("run", form, "--until-done", code=2)
        assert 'flow "word-count" has changed' in said.err
        assert 'step "counts" means something else' in said.err
        assert "--fresh" in said.err


def change(file: Path, *changes: tuple[str, str]) -> None:
    """Rewrites a file; one of the changes must apply."""
    text = file.read_text()
    for before, after in changes:
        text = text.replace(before, after)
    assert text != file.read_text()
    file.write_text(text)
