"""Real-time mode, killed and resumed: the golden answers are there, and every record is accounted for.

What of the golden flows can run there is put into one flow, from topics to topics, so that one run shows all of it:
their windows give changes, of which the last ones are the answers. One record that cannot be read is among the input.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from headrace.check import load
from headrace.check.wires import wires
from headrace.compile.planner import plan
from headrace.declare.show import show
from headrace.log import topics
from headrace.model import Mode
from headrace.observe import events
from headrace.run.checkpoint import resume_point
from headrace.run.home import Home, home_of
from headrace.run.real_time import FEW, FIRST
from headrace.testing.compare import difference
from tests.commands import Place, place_of_work
from tests.waiting import eventually, tail

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "flows"
TAKEN: dict[str, dict[str, tuple[str, ...]]] = {
    "running": {"table": ("user",)},
    "stateless": {"archive": ()},
    "windows": {"archive": ("user", "window_start")},
    "time": {"tens_out": ("k", "window_start"), "late_out": ()},
}
"""By golden flow, the sinks that can be written in real time, and what identifies a row that is replaced."""
UNREADABLE = b"no JSON"
KILLED = 2
"""The part of the input after which the driver is killed; the bad record is in it."""


class Packed:
    """The golden flows as one, from topics to topics."""

    def __init__(self, root: Path, bootstrap: str) -> None:
        self.root, self.client, self.mark = root, {"bootstrap.servers": bootstrap}, uuid4().hex[:8]
        (root / "headrace.toml").write_text(f'[kafka]\nbootstrap = "{bootstrap}"\n')
        self.file = root / "packed.json"
        self.file.write_text(json.dumps(self._flow()))
        self.queries = [query.name for query in plan(load(self.file)).queries]
        self.sent = dict.fromkeys(TAKEN, 0)
        for golden in TAKEN:
            topics.create(self.client, self.topic(golden), partitions=1)

    def topic(self, name: str) -> str:
        return f"{name}-{self.mark}"

    def _flow(self) -> dict[str, Any]:
        spark = {"spark.sql.shuffle.partitions": "1"}  # many queries on few cores
        goal = {"latency": "20 ms", "checkpoint": "5 seconds"}
        packed: dict[str, Any] = {"flow": "packed", "goal": goal, "spark": spark}
        packed |= {"sources": {}, "steps": {}, "sinks": {}}
        for golden, sinks in TAKEN.items():
            flow = load(GOLDEN / golden / "flow.yaml")
            wanted = {name for sink in sinks for name in (*flow.upstream(sink), sink)}
            for section in ("sources", "steps", "sinks"):
                for name, entry in show(flow)[section].items():
                    if name in wanted:
                        packed[section][f"{golden}_{name}"] = self._entry(golden, section, name, dict(entry))
        return packed

    def _entry(self, golden: str, section: str, name: str, entry: dict[str, Any]) -> dict[str, Any]:
        if section == "sources":
            del entry["files"]
            return {"kafka": self.topic(golden), **entry}
        origin = entry.pop("from")
        named = f"{golden}_{origin}" if isinstance(origin, str) else [f"{golden}_{one}" for one in origin]
        if section == "sinks":
            key = {"key": TAKEN[golden][name][0]} if TAKEN[golden][name] else {}
            return {"from": named, "kafka": {"topic": self.topic(f"{golden}_{name}"), "partitions": 1, **key}}
        if "aggregate" in entry:
            entry["aggregate"] = {**entry["aggregate"], "emit": "changes"}
        return {"from": named, **entry}

    def files(self) -> Iterator[dict[str, list[bytes]]]:
        """The input of each golden flow in parts; of `time` each file is one, since what is late depends on the cut."""
        inputs = {golden: sorted((GOLDEN / golden / "input").iterdir()) for golden in TAKEN}
        parts = len(inputs["time"])
        for number in range(parts):
            cut = {
                name: files[number * len(files) // parts : (number + 1) * len(files) // parts]
                for name, files in inputs.items()
            }
            records = {golden: b"".join(f.read_bytes() for f in files).splitlines() for golden, files in cut.items()}
            yield records | ({"stateless": [UNREADABLE, *records["stateless"]]} if number == KILLED else {})

    def send(self, records: Mapping[str, list[bytes]]) -> None:
        from confluent_kafka import Producer

        producer = Producer(self.client)
        for name, lines in records.items():
            for line in lines:
                producer.produce(self.topic(name), line)
            self.sent[name] += len(lines)
        producer.flush()

    def taken(self, home: Home) -> bool:
        """Whether all that was sent is behind a checkpoint, in every query."""
        ends = {self.topic(name): count for name, count in self.sent.items()}
        for query in self.queries:
            point = resume_point(home.checkpoint(query))
            if point is None or any(n != ends[t] for o in point["offsets"] for t, ps in o.items() for n in ps.values()):
                return False
        return True

    def written(self, sink: str) -> list[dict[str, Any]]:
        """All rows in a sink's topic, in their order."""
        from confluent_kafka import Consumer, TopicPartition

        settings = {"group.id": uuid4().hex, "isolation.level": "read_committed", "enable.partition.eof": True}
        consumer = Consumer({**self.client, **settings})
        rows: list[dict[str, Any]] = []
        try:
            consumer.assign([TopicPartition(self.topic(sink), 0, 0)])
            while True:
                message = consumer.poll(30)
                assert message is not None, f"{sink}: nothing came"
                if (trouble := message.error()) is not None:
                    assert trouble.name() == "_PARTITION_EOF", trouble
                    break
                rows.append(json.loads(message.value() or b"null"))
        finally:
            consumer.close()
        return rows


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_of_work(tmp_path / "work", {"HEADRACE_SPARK_MASTER": "local[2]"}) as place:
        yield place


def test_the_golden_flows_give_their_answers_in_real_time_through_a_kill(place: Place, broker: str) -> None:
    packed = Packed(place.root, broker)
    made = plan(load(packed.file))
    assert made.mode is Mode.REAL_TIME
    home = home_of(packed.root / ".headrace", "packed")
    child = place.start("run", packed.file.name)
    told = lambda: f"{child.poll()}\n{tail(home.log)}"  # noqa: E731
    for number, records in enumerate(packed.files()):
        packed.send(records)
        if number == KILLED:  # in the middle of a batch: the answers are out, the checkpoint is not
            eventually(lambda: home.read().driver is not None, 60, diagnose=told)
            driver = home.read().driver
            assert driver is not None
            os.kill(driver.pid, signal.SIGKILL)
        eventually(lambda: packed.taken(home), 180, diagnose=told)

    verdicts = {v["sink"]: v["verdict"] for v in json.loads(place.run("verify", "packed", "--json").out)["sinks"]}
    compared = {f"{golden}_{sink}" for golden, sinks in TAKEN.items() for sink in sinks if sink != "late_out"}
    assert verdicts == {**dict.fromkeys(compared, "equal"), "time_late_out": "not compared"}

    child.send_signal(signal.SIGINT)
    place.ended(child)
    assert home.read().restarts == 1
    lasted = [e["seconds"] for e in events.read(home.events) if e["event"] == "progress" and e["batch"] > 0]
    assert min(lasted) < 4, "the first checkpoints come sooner than asked for"
    assert max(lasted) >= 5, "the later ones as asked for"

    flow = load(packed.file)
    schemas = wires(flow).schemas
    for golden, sinks in TAKEN.items():
        for sink, key in sinks.items():
            expected = (GOLDEN / golden / "expected" / f"{sink}.jsonl").read_text().splitlines()
            rows = packed.written(f"{golden}_{sink}")
            if key:
                rows = list({tuple(str(row[k]) for k in key): row for row in rows}.values())
            elif sink != "late_out":  # may be there twice after a kill, and only those
                rows = list({json.dumps(row, sort_keys=True): row for row in rows}.values())
            port = flow[f"{golden}_{sink}"].inputs[0]
            wrong = difference([json.loads(line) for line in expected], rows, schemas[port])
            assert not wrong, f"{golden} {sink}\n" + "\n".join(wrong)

    assert '"balanced": true' in place.run("audit", "packed", "--json").out
    letters = place.run("dead-letters", "list", "packed", "--json").out
    assert letters.count('"stateless_orders"') == 1, letters


COLUMNS = (
    "id BIGINT, k STRING, x DOUBLE, f FLOAT, c DECIMAL(12,2), ok BOOLEAN, raw BINARY, day DATE, at TIMESTAMP, "
    "many ARRAY<DOUBLE>, inner STRUCT<at: TIMESTAMP, c: DECIMAL(4,2)>"
)
VARIED = """
flow: {name}
goal: {{latency: 20 ms, checkpoint: 5 seconds}}
spark: {{spark.sql.shuffle.partitions: "1"}}
sources:
  left:
    kafka: {left}
    format: json
    schema: "{columns}"
    time: {{column: at, watermark: 1 minute}}
  right:
    kafka: {right}
    format: json
    schema: "{columns}"
    time: {{column: at, watermark: 1 minute}}
  heavy:
    kafka: {heavy}
    format: json
    schema: k STRING, text STRING
  names:
    files: {{path: names}}
    format: json
    schema: k STRING, called STRING
    table: {{}}
steps:
  both: {{from: [left, right], union: {{}}}}
  once: {{from: both, distinct: {{by: id}}}}
  judged: {{from: once, with: {{size: {{python: "functions:size"}}}}}}
  named: {{from: [judged, names], join: {{on: k, kind: left}}}}
  hops:
    from: both
    aggregate: {{by: k, window: {{hopping: 10 seconds, every: 5 seconds}}, compute: {{n: count(*)}}, emit: changes}}
  longest: {{from: heavy, aggregate: {{by: k, compute: {{n: count(*), text: max(text)}}}}}}
  sizes: {{from: longest, select: [k, n, {{size: length(text)}}]}}
sinks:
  sizes_out: {{from: sizes, sqlite: {{path: "{name}.db", table: sizes, key: k}}}}
  rows: {{from: named, sqlite: {{path: "{name}.db", table: rows, key: id}}}}
  windows: {{from: hops, sqlite: {{path: "{name}.db", table: windows, key: [k, window_start]}}}}
  server: {{from: named, postgresql: {{url: "${{env:DATABASE}}", table: {name}, key: id}}}}
  screen: {{from: named, console: {{style: json, limit: 100, key: k}}}}
"""
HEAVY = 30
FUNCTIONS = """
def size(x: float | None) -> str:
    if x is None:
        return "none"
    return "large" if x > 2.5 else "small"
"""


def varied() -> list[dict[str, Any]]:
    """Records with values that JSON, SQLite and Python hold differently; each comes twice."""
    reals = [1.5, "NaN", "Infinity", "-Infinity", -0.0, 0.1, 1e300, None]
    return [
        {
            "id": n,
            "k": "abc"[n % 3],
            "x": x,
            "f": 0.1 if n % 2 else "NaN",
            "c": "12.50" if n % 2 else None,
            "ok": n % 2 == 0,
            "raw": "AP8=",
            "day": "2024-02-29",
            "at": f"2024-01-01T00:00:{n:02d}.00000{n}Z",
            "many": [0.5, None, x],
            "inner": {"at": "2024-01-01T00:00:00.123456Z", "c": 1.5},
        }
        for n, x in enumerate(reals)
    ]


def test_both_modes_leave_the_same_in_every_sink(place: Place, broker: str, postgresql: str) -> None:
    import psycopg
    from confluent_kafka import Producer

    client, mark = {"bootstrap.servers": broker}, uuid4().hex[:8]
    (place.root / "headrace.toml").write_text(f'[kafka]\nbootstrap = "{broker}"\n')
    (place.root / "functions.py").write_text(FUNCTIONS)
    (place.root / "names").mkdir()
    (place.root / "names" / "one.json").write_text('{"k": "a", "called": "ann"}\n{"k": "b", "called": "bob"}\n')
    place.environment = {**place.environment, "DATABASE": postgresql}
    producer, given = Producer(client), varied()
    for topic in ("left", "right"):
        topics.create(client, f"{topic}-{mark}", partitions=1)
        for record in given:
            producer.produce(f"{topic}-{mark}", json.dumps(record))
    topics.create(client, heavy := f"heavy-{mark}", partitions=2)
    for n in range(HEAVY):  # more than may be on its way to one task at a time
        producer.produce(heavy, json.dumps({"k": "ab"[n % 2], "text": "x" * (900_000 + n)}), partition=n % 3 % 2)
    assert producer.flush(30) == 0

    def written(name: str) -> Path:
        file = place.root / f"{name}.yaml"
        there = {"left": f"left-{mark}", "right": f"right-{mark}", "heavy": heavy}
        file.write_text(VARIED.format(name=name, columns=COLUMNS, **there))
        return file

    def in_sqlite(name: str, table: str) -> list[tuple[Any, ...]]:
        path = place.root / f"{name}.db"
        if not path.exists():
            return []
        with sqlite3.connect(path) as database:
            try:
                return database.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall()
            except sqlite3.OperationalError:
                return []

    def in_postgresql(name: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(postgresql) as database:
            if database.execute("SELECT to_regclass(%s)", (name,)).fetchone() == (None,):
                return []
            return [tuple(map(str, row)) for row in database.execute(f"SELECT * FROM {name} ORDER BY id").fetchall()]

    said = {"micro": place.run("run", written(f"micro_{mark}").name, "--until-done").out}
    quick, slow = f"quick_{mark}", f"micro_{mark}"
    child = place.start("run", written(quick).name)
    home = home_of(place.root / ".headrace", quick)
    there = lambda: (  # noqa: E731
        in_sqlite(quick, "rows"),
        in_sqlite(quick, "windows"),
        in_postgresql(quick),
        in_sqlite(quick, "sizes"),
    )
    wanted = in_sqlite(slow, "rows"), in_sqlite(slow, "windows"), in_postgresql(slow), in_sqlite(slow, "sizes")
    assert [len(rows) for rows in wanted] == [len(given), len(wanted[1]), len(given), 2]
    half = HEAVY // 2
    assert wanted[3] == [("a", half, 900_000 + HEAVY - 2), ("b", half, 900_000 + HEAVY - 1)]
    assert all("00:00:00.123456Z" in str(row) for rows in (wanted[0], wanted[2]) for row in rows), "in structs"
    assert sum(row[-1] for row in wanted[1]) == 2 * 2 * len(given), "both topics, and each record in two windows"
    eventually(lambda: there() == wanted, 300, diagnose=lambda: f"{there()}\n{wanted}\n{tail(home.log)}")
    child.send_signal(signal.SIGINT)
    said["quick"] = place.ended(child).out
    lines = {name: sorted(line for line in out.splitlines() if '"id"' in line) for name, out in said.items()}
    assert len(lines["micro"]) == len(given)
    assert lines["quick"] == lines["micro"]


CUT_SHORT = """
flow: {name}
goal: {{latency: 20 ms, checkpoint: {checkpoint}}}
sources:
  clicks:
    kafka: {{topic: {name}, client: {{max.partition.fetch.bytes: 1}}}}  # slowly: one record at a time
    format: json
    schema: k STRING, at TIMESTAMP
    time: {{column: at, watermark: 1 second}}
steps:
  counts:
    from: clicks
    aggregate: {{by: k, window: {{tumbling: 10 seconds}}, compute: {{n: count(*)}}, emit: changes}}
sinks:
  table: {{from: counts, sqlite: {{path: counts.db, table: counts, key: [window_start, k]}}}}
  all: {{from: clicks, kafka: {{topic: "{name}-all", partitions: 1}}}}
"""
SLOW = 1_500


def test_what_an_attempt_that_was_cut_short_has_counted_is_not_late_when_it_is_read_again(
    place: Place, broker: str
) -> None:
    """One partition is read much later than the other, in another batch than before the kill."""
    from confluent_kafka import Producer

    name = f"cut-{uuid4().hex[:8]}"
    (place.root / "headrace.toml").write_text(f'[kafka]\nbootstrap = "{broker}"\n')
    (place.root / "cut.yaml").write_text(CUT_SHORT.format(name=name, checkpoint="2 minutes"))
    topics.create({"bootstrap.servers": broker}, name, partitions=2)
    producer = Producer({"bootstrap.servers": broker, "batch.num.messages": 1})
    at = lambda second: f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"  # noqa: E731

    def send(partition: int, second: int, times: int) -> None:
        for _ in range(times):
            producer.produce(name, json.dumps({"k": "a", "at": at(second)}), partition=partition)
            producer.poll(0)
        assert producer.flush(60) == 0

    send(0, 100, 1)
    child = place.start("run", "cut.yaml")
    home = home_of(place.root / ".headrace", name)
    told = lambda: f"{child.poll()}\n{tail(home.log)}"  # noqa: E731

    def done() -> int:
        return sum(1 for event in events.read(home.events) if event["event"] == "progress") if home.exists else 0

    def counted() -> dict[str, int]:
        with sqlite3.connect(place.root / "counts.db") as database:
            return dict(database.execute("SELECT substr(window_start, 15, 5), n FROM counts").fetchall())

    def verified() -> dict[str, Any]:
        return {v["sink"]: v for v in json.loads(place.run("verify", name, "--json").out)["sinks"]}

    def cut() -> None:
        """Kills supervisor and driver: a stop would wait for the next checkpoint."""
        driver = home.read().driver
        assert driver is not None
        child.kill()
        driver.end_group()
        child.communicate()

    # The first batches are short; one that has lasted for longer than those lasts for two minutes: long enough for a
    # slow machine to read it all and to verify it.
    eventually(lambda: done() >= FEW and time.time() - home.events.stat().st_mtime > 2 * FIRST, 120, diagnose=told)
    send(0, 200, 1)
    send(1, 150, SLOW)
    before = done()
    eventually(lambda: counted().get("02:30") == SLOW, 100, diagnose=lambda: f"{counted()}\n{told()}")
    assert verified()["table"]["verdict"] == "equal", "what a batch under way has written may be there"
    assert done() == before, "it is all in one batch, which is not done"
    cut()
    (place.root / "cut.yaml").write_text(CUT_SHORT.format(name=name, checkpoint="5 seconds"))  # nothing to wait for
    child = place.start("run", "cut.yaml")
    read = {name: {"0": 2, "1": SLOW}}
    queries = [query.name for query in plan(load(place.root / "cut.yaml")).queries]
    points = lambda: [(resume_point(home.checkpoint(query)) or {}).get("offsets") for query in queries]  # noqa: E731
    eventually(lambda: points() == [[read]] * 2, 300, diagnose=lambda: f"{points()}\n{told()}")
    cut()
    table = verified()["table"]
    assert (table["verdict"], table["late"]) == ("equal", 0)
    assert counted() == {"01:40": 1, "03:20": 1, "02:30": SLOW}
    place.run("run", "cut.yaml", "--until-done")
    twice = verified()["all"]
    assert (twice["verdict"], twice["delivery"]) == ("equal", "at-least-once"), twice
    assert twice["found"]["repeated"] > 0, "what was written before the kill is there again, in micro-batches too"
