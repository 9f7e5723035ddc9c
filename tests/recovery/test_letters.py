"""A flow with bad records is killed and resumed: each dead letter is there once; then they are replayed, each once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from headrace.check import load
from headrace.cli.main import headrace
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.model import Mode
from headrace.observe import events
from headrace.run import letters
from headrace.run.home import Home, home_of
from tests.waiting import eventually, tail

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = """\
flow: mended
sources:
  orders:
    kafka: {topic: mended-in, per_batch: 100, metadata: [offset]}
    format: json
    schema: id BIGINT, amount DOUBLE
    expect: amount >= 0
steps:
  halves:
    from: orders
    with: {half: {python: "mended_functions:half"}}
sinks:
  out:
    from: halves
    sqlite: {path: out.db, table: halves}
  all:
    from: orders
    sqlite: {path: out.db, table: orders}
  unread:
    from: orders.dead_letter
    kafka: {topic: mended-letters, partitions: 1}
  failed:
    from: halves.dead_letter
    sqlite: {path: out.db, table: failed}
"""
BROKEN = """\
def half(amount: float) -> float:
    if amount == 13:
        raise ValueError("thirteen")
    return amount / 2
"""
NUMBER = 400


def value(n: int) -> bytes:
    """Every twentieth is not JSON, and one each breaks a rule or makes the function raise."""
    kinds = {
        1: b"{cut",
        2: json.dumps({"id": n, "amount": -n}).encode(),
        3: json.dumps({"id": n, "amount": 13}).encode(),
    }
    return kinds.get(n % 20, json.dumps({"id": n, "amount": 2 * n}).encode())


def offsets(remainder: int) -> list[int]:
    return [n for n in range(NUMBER) if n % 20 == remainder]


def fill(broker: str) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker})
    for made in admin.create_topics([NewTopic("mended-in", 1, 1)]).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": broker})
    for n in range(NUMBER):
        producer.produce("mended-in", value=value(n))
    producer.flush(60)


def committed(broker: str, topic: str, read: Callable[[bytes], dict[str, Any]] = json.loads) -> list[dict[str, Any]]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": "reads",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found = []
    consumer.assign([TopicPartition(topic, 0, 0)])
    while (message := consumer.poll(60)) is not None and message.error() is None:
        found.append(read(message.value() or b""))
    consumer.close()
    return found


def committed_number(broker: str, topic: str) -> int:
    """How many records a topic has; a transaction's end is not one."""
    return len(committed(broker, topic, lambda value: {"value": value}))


def column(root: Path, table: str, name: str) -> list[Any]:
    with closing(sqlite3.connect(root / "out.db")) as database:
        return sorted(row[0] for row in database.execute(f"SELECT {name} FROM {table}"))


def run_and_kill(root: Path, broker: str) -> Home:
    """A run that is killed and comes to its end all the same."""
    fill(broker)
    (root / "headrace.toml").write_text('[spark]\nmaster = "local[2]"\n')
    (root / "flow.yaml").write_text(FLOW)
    (root / "mended_functions.py").write_text(BROKEN)
    home = home_of(root / ".headrace", "mended")
    child = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli.main", "run", "flow.yaml", "--until-done", "--bootstrap", broker],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        kept = lambda: sum(e["event"] == "dead-letters" for e in events.read(home.events)) >= 1  # noqa: E731
        eventually(kept, 240, every=0.05, diagnose=lambda: tail(home.log))
        driver = home.read().driver
        assert driver is not None
        os.kill(driver.pid, signal.SIGKILL)
        said, _ = child.communicate(timeout=300)
    finally:
        if child.poll() is None:
            child.kill()
            child.communicate()
    assert child.returncode == 0, f"{said}\n{tail(home.log)}"
    assert "dead letters 60" in said
    assert home.read().restarts == 1
    return home


@pytest.mark.timeout(900)
def test_a_killed_run_has_each_dead_letter_once_and_a_replay_takes_each_once(
    broker: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = run_and_kill(tmp_path, broker)
    each_letter_is_there_once(tmp_path, home, broker)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    letters_are_listed_and_shown()
    replayed_letters_reach_the_sinks_they_missed_once(tmp_path, home, broker, spark)


def each_letter_is_there_once(root: Path, home: Home, broker: str) -> None:
    found = list(letters.letters(home))
    assert sorted(one.told["offset"] for one in found if one.step == "orders") == sorted(offsets(1) + offsets(2))
    assert sorted(one.told["offset"] for one in found if one.step == "halves") == offsets(3)
    assert all(one.bytes_of("value") == value(one.told["offset"]) for one in found)
    sent = committed(broker, "mended-letters")
    assert sorted(one["offset"] for one in sent) == sorted(offsets(1) + offsets(2))
    assert column(root, "failed", "offset") == offsets(3)
    good = [n for n in range(NUMBER) if n % 20 not in (1, 2, 3)]
    assert column(root, "halves", "id") == good
    assert column(root, "orders", "id") == sorted(good + offsets(3))


def letters_are_listed_and_shown() -> None:
    listed = CliRunner().invoke(headrace, ["dead-letters", "list", "mended", "--json"])
    kinds = json.loads(listed.output)
    assert [(k["step"], k["reason"], k["letters"], k["replayed"]) for k in kinds] == [
        ("halves", "ValueError: thirteen", 20, 0),
        ("orders", "amount >= 0 does not hold", 20, 0),
        ("orders", "the record is not a JSON object", 20, 0),
    ]
    shown = CliRunner().invoke(headrace, ["dead-letters", "show", "mended", kinds[0]["example"]]).output
    for word in (
        "ValueError: thirteen",
        "mended_functions:half at ",
        "mended_functions.py:3",
        "mended-in",
        '"amount": 13',
    ):
        assert word in shown, shown
    raw = CliRunner().invoke(headrace, ["dead-letters", "show", "mended", kinds[2]["example"], "--value"])
    assert raw.stdout_bytes == b"{cut"


def replayed_letters_reach_the_sinks_they_missed_once(root: Path, home: Home, broker: str, spark: SparkSession) -> None:
    (root / "mended_functions.py").write_text(BROKEN.replace("amount == 13", "amount == 14"))
    (root / "flow.yaml").write_text(FLOW.replace("expect: amount >= 0", "expect: amount > -100"))
    made = plan(load(root / "flow.yaml"), mode=Mode.BATCH)

    def where(own: Path) -> Where:
        return Where(session=spark, streaming=False, home=own, base=root, kafka={"bootstrap.servers": broker})

    first = letters.replay(home, made, where)
    again = [n for n in offsets(2) if n < 100]  # the others break the new rule too
    good = [n for n in range(NUMBER) if n % 20 not in (1, 2, 3)]
    assert (first.taken, first.failed, first.left) == (60, 20 + 20 - len(again), ())
    # Those that failed in the function had been written to "orders" before, and are not written there again.
    assert column(root, "orders", "id") == sorted(good + offsets(3) + again)
    assert column(root, "halves", "id") == sorted(good + offsets(3) + again)
    (letters.folder(home) / "replays" / "1" / "done.json").unlink()  # as if it had been killed just before
    assert letters.replay(home, made, where).number == 1
    assert column(root, "halves", "id") == sorted(good + offsets(3) + again)
    cut = [one for one in letters.letters(home) if one.reason == "the record is not a JSON object" and "/" in one.id][
        :20
    ]
    for _ in range(2):  # sent in one transaction with a mark, so the second time nothing is
        letters._send(made, where(root / "sent"), 0, cut)
    assert committed_number(broker, "mended-in") == NUMBER + 20
    once_more = [one for one in letters.letters(home) if one.id not in letters.replayed(home)]
    assert {one.id.partition("/")[0] for one in once_more} == {"replay-1"}
    assert sorted(one.told["offset"] for one in once_more) == sorted(offsets(1) + [n for n in offsets(2) if n >= 100])
