"""Every golden flow gives the same rows straight through, stopped and resumed half way, and killed and resumed.

A folder of tests/golden/flows holds a flow, its input as JSON files (one a batch; for a topic, records and the times at
which they arrived), the tables it looks things up in, and the rows each sink must hold, which were worked out without
Headrace. Late records in them are late however the input is cut: the watermark stands still around them. The records of
a topic take its partitions in turns, since which of them are read together says what is late.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from headrace.check import load
from headrace.check.wires import wires
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.declare.show import show
from headrace.log import topics
from headrace.model import Flow, Sink
from headrace.observe import events
from headrace.run.home import home_of
from headrace.run.inline import run_to_end
from headrace.testing.compare import difference
from tests.commands import place_of_work
from tests.waiting import eventually, tail

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "flows"
NAMES = sorted(folder.name for folder in GOLDEN.iterdir() if folder.is_dir())


class Golden:
    """A copy of a golden flow in a project of its own."""

    def __init__(self, name: str, root: Path, broker: str) -> None:
        self.root, self.name, self.client = root, name, {"bootstrap.servers": broker}
        shutil.copytree(GOLDEN / name, root)
        if (root / "tables.sql").exists():
            with closing(sqlite3.connect(root / "tables.db")) as database:
                database.executescript((root / "tables.sql").read_text())
        streams = [source for source in self.flow.sources if source.table is None]
        self.topics = [root / name for s in streams if s.connector == "kafka" for name in s.options.topic]
        self.inputs = [root / str(s.options.path) for s in streams if s.connector == "files"] + self.topics
        self.mark, self.sent = uuid4().hex[:8], set[Path]()
        if self.topics:
            text = (root / "flow.yaml").read_text().replace("topic: ", f"topic: {self.mark}-")
            (root / "flow.yaml").write_text(text)
        for folder in self.topics:  # the records are old, and Kafka would delete them when it looks, every five minutes
            topics.create(self.client, self.topic(folder), 2, keeping=topics.Keeping(retention=timedelta(0)))
        for number, file in enumerate(sorted(f for folder in self.inputs for f in folder.iterdir())):
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # read in the order of their times

    @property
    def flow(self) -> Flow:
        return load(self.root / "flow.yaml")

    def topic(self, folder: Path) -> str:
        """Of a topic, the name that it has for this copy alone."""
        return f"{self.mark}-{folder.name}"

    def send(self) -> None:
        """Sends the records of topics that are there and were not sent, to each partition in turn."""
        producer = Producer(self.client)
        for folder in self.topics:
            for file in sorted(set(folder.iterdir()) - self.sent):
                for number, line in enumerate(file.read_text().splitlines()):
                    record = json.loads(line)
                    value = json.dumps(record["value"])
                    producer.produce(self.topic(folder), value, partition=number % 2, timestamp=record["timestamp"])
                self.sent.add(file)
        assert producer.flush(30) == 0

    def take(self, session: SparkSession, *, flush: bool) -> None:
        """Processes the input there is, on the checkpoint there is."""
        self.send()
        made = plan(self.flow)
        where = Where(session=session, streaming=True, home=self.root / "home", base=self.root, kafka=self.client)
        for query in made.queries:
            run_to_end(made, query, where, self.root / "checkpoints" / query.name, flush=flush)

    def hold_back_half(self) -> Iterator[None]:
        """Takes the later half of the input away; the next step of the iterator brings it back."""
        aside = self.root / "aside"
        moved = []
        for folder in self.inputs:
            files = sorted(folder.iterdir())
            for file in files[len(files) // 2 :]:
                target = aside / folder.name / file.name
                target.parent.mkdir(parents=True, exist_ok=True)
                file.rename(target)
                moved.append((target, file))
        yield
        for target, file in moved:
            target.rename(file)
        yield

    def check(self) -> None:
        """Every sink holds exactly the expected rows."""
        flow = self.flow
        schemas = wires(flow).schemas
        for sink in flow.sinks:
            expected = [
                json.loads(line) for line in (self.root / "expected" / f"{sink.name}.jsonl").read_text().splitlines()
            ]
            wrong = difference(expected, self._rows(sink), schemas[sink.inputs[0]])
            assert not wrong, f"sink {sink.name}\n" + "\n".join(wrong)

    def _rows(self, sink: Sink) -> list[dict[str, Any]]:
        path = self.root / str(sink.options.path)
        if sink.connector == "files":
            return [json.loads(line) for file in path.glob("part-*") for line in file.read_text().splitlines()]
        with closing(sqlite3.connect(path)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(f"SELECT * FROM {sink.options.table}")]


@pytest.fixture
def golden(request: pytest.FixtureRequest, tmp_path: Path, broker: str) -> Golden:
    return Golden(request.param, tmp_path / request.param, broker)


@pytest.mark.parametrize("golden", NAMES, indirect=True)
def test_straight_through(golden: Golden, spark: SparkSession) -> None:
    golden.take(spark, flush=True)
    golden.check()


@pytest.mark.parametrize("golden", NAMES, indirect=True)
def test_stopped_half_way_and_resumed(golden: Golden, spark: SparkSession) -> None:
    half = golden.hold_back_half()
    next(half)
    golden.take(spark, flush=False)
    next(half)
    golden.take(spark, flush=True)
    golden.check()


def test_killed_and_resumed(tmp_path: Path, broker: str) -> None:
    """All of them as one flow, so that one driver is killed for all."""
    goldens = [Golden(name, tmp_path / name, broker) for name in NAMES]
    for golden in goldens:
        golden.send()
    for module in (module for golden in goldens for module in golden.root.glob("*.py")):
        module.rename(tmp_path / module.name)
    (tmp_path / "headrace.toml").write_text('[spark]\nmaster = "local[2]"\n')
    (tmp_path / "packed.json").write_text(json.dumps(packed(goldens)))
    queries = {query.name for query in plan(load(tmp_path / "packed.json")).queries}
    home = home_of(tmp_path / ".headrace", "packed")

    def begun() -> set[str]:
        return {event["query"] for event in events.read(home.events) if event["event"] == "progress"}

    with place_of_work(tmp_path) as place:
        child = place.start("run", "packed.json", "--until-done", "--bootstrap", broker)
        eventually(
            lambda: begun() == queries or child.poll() is not None,
            300,
            every=0.2,  # soon enough: the last of them has most of its input before it then
            diagnose=lambda: f"{queries - begun()}\n{tail(home.log)}",
        )
        assert begun() == queries, tail(home.log)
        driver = home.read().driver
        assert driver is not None
        os.kill(driver.pid, signal.SIGKILL)
        place.ended(child)
    why = Counter(e["why"] for e in events.read(home.events) if e["event"] == "retrying")
    assert why.pop("the driver was killed by signal 9") == 1
    # Spark's own limit may be met on a busy machine, before or after; nothing else may have gone wrong.
    assert all("Python did not start within ten seconds" in other for other in why), why
    for golden in goldens:
        golden.check()


def packed(goldens: list[Golden]) -> dict[str, Any]:
    """One flow of several: each part has its flow's name before its own, each path its flow's folder."""
    one: dict[str, Any] = {"flow": "packed", "sources": {}, "steps": {}, "sinks": {}}
    for golden in goldens:
        for section, parts in show(golden.flow).items():
            for name, entry in parts.items() if section in one and section != "flow" else ():
                origin = entry.get("from", [])
                named = [f"{golden.name}_{part}" for part in ([origin] if isinstance(origin, str) else origin)]
                moved = {"from": named} if named else {}
                one[section][f"{golden.name}_{name}"] = below(golden.name, entry) | moved
    return one


def below(folder: str, value: Any, option: str = "") -> Any:
    """The same options, with every path in a folder."""
    if isinstance(value, dict):
        return {name: below(folder, entry, name) for name, entry in value.items()}
    return f"{folder}/{value}" if option in ("files", "path") else value
