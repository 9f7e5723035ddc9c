"""Real runs on real Spark: straight through, stopped and resumed, killed and resumed; the same answer each time."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from deltalake import DeltaTable

from headrace.catalogue import SINKS
from headrace.check import load
from headrace.connectors.base import Place
from headrace.connectors.identity import writer_of
from headrace.connectors.kafka_transactions import MARKS
from headrace.log import groups
from headrace.log.consume import consume
from headrace.observe import events
from headrace.project import Project
from headrace.run import audits, control
from headrace.run.home import Home, home_of
from tests.waiting import eventually, tail

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = """\
flow: sums
sources:
  orders:
    files: {path: data, per_batch: 1}
    format: json
    schema: at TIMESTAMP, user STRING, amount BIGINT
    time: {column: at, watermark: 30 seconds}
steps:
  doubled:
    from: orders
    with:
      amount: {python: "functions:double", returns: BIGINT}
  per_minute:
    from: doubled
    aggregate:
      by: user
      window: {tumbling: 1 minute}
      compute: {n: count(*), total: sum(amount)}
sinks:
  store:
    from: per_minute
    sqlite: {path: out/sums.db, table: sums}
  kept:
    from: per_minute
    files: {path: out/kept}
    format: json
"""

FUNCTIONS = """\
def double(amount):
    return 2 * int(str(amount))
"""

EVERYWHERE = """\
flow: sums
sources:
  orders:
    files: {{path: data}}
    format: json
    schema: at TIMESTAMP, user STRING, amount BIGINT
sinks:
  store: {{from: orders, sqlite: {{path: out/sums.db, table: sums}}}}
  bank: {{from: orders, postgresql: {{url: "{url}", table: {name}}}}}
  kept: {{from: orders, files: {{path: out/kept}}, format: json}}
  lake: {{from: orders, delta: {{path: out/lake}}}}
  log: {{from: orders, kafka: {{topic: {name}, partitions: 2}}}}
"""

FILES, USERS = 8, 3

SPOUTED = FLOW.replace(
    "steps:",
    """\
  numbers:
    spout: {python: "functions:Queue", per_batch: 20, arguments: {size: 200, file: queue}}
steps:""",
).replace(
    "sinks:",
    """\
sinks:
  lake:
    from: numbers
    delta: {path: out/lake}""",
)
QUEUE = """

from pathlib import Path

from headrace import Spout


class Queue(Spout):
    # What was not acknowledged is handed over once more by whoever opens it next.
    returns = "n BIGINT"

    def __init__(self, size, file):
        self.size, self.file, self.waiting = size, Path(file), []

    def open(self):
        done = {int(n) for n in self.file.read_text().split()} if self.file.exists() else set()
        self.waiting = [n for n in range(self.size) if n not in done]

    def next(self):
        if not self.waiting:
            raise StopIteration
        n = self.waiting.pop(0)
        return {"n": n}, n

    def ack(self, id):
        with self.file.open("a") as out:
            out.write(f"{id}\\n")
"""


class Shop:
    """A project of its own with a flow, its data, and what can be done with it."""

    def __init__(self, root: Path) -> None:
        self.root, self.mark = root, f"HEADRACE_TEST_{uuid4().hex}"
        (root / "flows").mkdir(parents=True)
        (root / "data").mkdir()
        (root / "headrace.toml").write_text('[spark]\nmaster = "local[2]"\n')
        (root / "flows" / "sums.yaml").write_text(FLOW)
        (root / "flows" / "functions.py").write_text(FUNCTIONS)
        for number in range(FILES):
            self.add(number)
        self.home: Home = home_of(root / ".headrace", "sums")
        self.children: list[subprocess.Popen[str]] = []

    def add(self, number: int) -> None:
        path = self.root / "data" / f"{number}.json"
        rows = [
            {"at": f"2024-01-01T00:{number:02d}:{second:02d}Z", "user": f"u{second % USERS}", "amount": second}
            for second in range(50)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # files are read in the order of their times

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "headrace.cli.main", "run", "flows/sums.yaml", *arguments]
        child = subprocess.Popen(
            command,
            cwd=self.root,
            env={**os.environ, self.mark: "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.children.append(child)
        return child

    def run(self, *arguments: str, code: int = 0) -> str:
        child = self.start(*arguments)
        _, said = child.communicate(timeout=240)
        assert child.returncode == code, f"{said}\n{tail(self.home.log)}"
        return said

    def batches(self, at_least: int, query: str | None = None) -> None:
        """Waits until so many batches are committed, of one query or of all."""

        def counts(event: Any) -> bool:
            return event["event"] == "progress" and query in (None, event["query"])

        eventually(
            lambda: sum(counts(e) for e in events.read(self.home.events)) >= at_least,
            120,
            every=0.05,  # what follows is to happen between two batches of a few
            diagnose=lambda: tail(self.home.log),
        )

    def processes(self) -> list[str]:
        """Everything that was started by a run of this project and is still there."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (entry / "environ").read_bytes() and "Z" not in _state(entry):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
            except (OSError, UnicodeDecodeError):
                continue
        return found

    def answers(self) -> tuple[list[tuple[object, ...]], list[str]]:
        """What is in both sinks, sorted."""
        with closing(sqlite3.connect(self.root / "out" / "sums.db")) as database:
            rows = sorted(database.execute("SELECT window_start, user, n, total FROM sums").fetchall())
        kept = [line for file in (self.root / "out" / "kept").glob("part-*") for line in file.read_text().splitlines()]
        return rows, sorted(kept)


def _state(entry: Path) -> str:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / "shop")
    yield shop
    for child in shop.children:
        if child.poll() is None:
            child.kill()
            child.communicate()
    eventually(lambda: not shop.processes(), 60, diagnose=lambda: "\n".join(shop.processes()))


def expected(files: int = FILES) -> list[tuple[object, ...]]:
    """The answer worked out by hand: one row per minute and user."""
    rows: list[tuple[object, ...]] = []
    for minute in range(files):
        for user in range(USERS):
            amounts = [2 * second for second in range(50) if second % USERS == user]
            rows.append((minute, f"u{user}", len(amounts), sum(amounts)))
    return rows


def check_answers(shop: Shop) -> None:
    rows, kept = shop.answers()
    minutes = [(int(str(row[0])[14:16]), *row[1:]) for row in rows]
    assert sorted(minutes) == sorted(expected())
    assert len(kept) == len(rows)
    assert sorted((r["user"], r["n"], r["total"]) for r in map(json.loads, kept)) == sorted(row[1:] for row in rows)
    found = audits.of_run(Project.find(shop.root), shop.home)
    assert found.findings == ()
    numbers = {total.part: total.numbers for total in found.totals}
    assert numbers["orders"]["read"] == numbers["doubled"]["emitted"] == numbers["per_minute"]["read"] == FILES * 50
    assert numbers["per_minute"]["emitted"] == numbers["store"]["given"] == FILES * USERS
    assert numbers["per_minute"]["held"] == 0


def check_audit(shop: Shop) -> None:
    """The command: 0 as it is, 1 once a single number is changed."""

    def audit() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "headrace.cli.main", "audit", "sums"]
        return subprocess.run(command, cwd=shop.root, capture_output=True, text=True, check=False)

    said = audit()
    assert said.returncode == 0, said.stderr
    assert "every record is accounted for" in said.stdout
    with closing(sqlite3.connect(shop.home.ledger)) as database, database:
        database.execute(
            """UPDATE batches SET lines = replace(lines, '"emitted":50', '"emitted":49') WHERE batch = 2"""
        )
    said = audit()
    assert said.returncode == 1, said.stderr
    assert 'does not add up: query "per_minute", batch 2, source "orders"' in said.stdout


def test_a_bounded_input_is_processed_to_its_last_window_and_the_run_then_asks_for_a_fresh_start(shop: Shop) -> None:
    said = shop.run("--until-done")

    check_answers(shop)
    check_audit(shop)
    assert f"finished · in {FILES * 50} · out {FILES * USERS}" in said
    assert shop.home.read().drained
    assert shop.home.read().status == "finished"
    assert "WARN" not in said
    eventually(lambda: not shop.processes(), 60, diagnose=lambda: "\n".join(shop.processes()))

    said = shop.run("--until-done", code=2)
    assert "--fresh" in said

    said = shop.run("--mode", "batch")
    rows, _ = shop.answers()
    assert len(rows) == 2 * len(expected()), "a batch run is another writer: its rows are added, not taken for old ones"


@pytest.mark.slow
def test_a_driver_that_is_killed_resumes_by_itself_with_the_same_answer(shop: Shop) -> None:
    (shop.root / "flows" / "sums.yaml").write_text(SPOUTED)
    queue = shop.root / "queue"
    (shop.root / "flows" / "functions.py").write_text(FUNCTIONS + QUEUE.replace("Path(file)", f"Path({str(queue)!r})"))
    child = shop.start("--until-done", "--spare")
    for query in ("per_minute", "numbers"):
        shop.batches(2, query)
    driver = shop.home.read().driver
    assert driver is not None
    os.kill(driver.pid, signal.SIGKILL)
    assert len(queue.read_text().split()) < 200, "it is killed in between"
    _, said = child.communicate(timeout=240)

    assert child.returncode == 0, f"{said}\n{tail(shop.home.log)}"
    assert "the driver was killed by signal 9" in said
    assert re.search(r"running again after [\d.]+ s", said)
    assert shop.home.read().restarts == 1
    kinds = [event["event"] for event in events.read(shop.home.events)]
    assert "spare" in kinds[: kinds.index("recovered")], "it is the spare that went on"
    check_answers(shop)
    numbers = DeltaTable(str(shop.root / "out" / "lake")).to_pyarrow_table().column("n").to_pylist()
    assert sorted(numbers) == list(range(200)), "what a spout had handed over is neither lost nor there twice"
    assert set(map(int, queue.read_text().split())) >= set(range(180)), "all but the last batch is acknowledged by then"
    eventually(lambda: not shop.processes(), 60, diagnose=lambda: "\n".join(shop.processes()))


@pytest.mark.slow
def test_stopped_orphaned_or_with_a_damaged_checkpoint_a_run_leaves_nothing_behind_and_a_copy_of_it_goes_on(
    shop: Shop, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "else where"
    (shop.root / "headrace.toml").write_text(
        f'[spark]\nmaster = "local[2]"\n[checkpoints]\npath = "{elsewhere.as_uri()}"\n'
    )
    child = shop.start()
    shop.batches(3)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=120)
    assert child.returncode == 0, f"{said}\n{tail(shop.home.log)}"
    assert re.search(r"per_minute will resume after batch \d+, at \{", said)
    eventually(lambda: not shop.processes(), 60, diagnose=lambda: "\n".join(shop.processes()))
    stopped = control.status(control.find(Project.find(shop.root), "sums"))
    assert stopped["status"] == "stopped"
    checkpoint = shop.home.checkpoint("per_minute")
    assert checkpoint.is_relative_to(elsewhere)
    assert not list((shop.home.path / "checkpoints").iterdir())
    copy = tmp_path / "copy"
    shutil.copytree(shop.home.path, copy)
    shutil.copytree(checkpoint.parent, copy / "checkpoints", dirs_exist_ok=True)
    shutil.copytree(shop.root / "out", tmp_path / "out")

    child = shop.start()
    eventually(lambda: shop.home.read().status == "running", 120, diagnose=lambda: tail(shop.home.log))
    child.kill()
    child.communicate()
    eventually(lambda: not shop.processes(), 60, diagnose=lambda: "\n".join(shop.processes()))
    assert shop.home.read().shown_status == "died"

    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda p: int(p.name))
    last.write_bytes(b"")
    said = shop.run("--until-done", code=1)
    assert f'checkpoint file "{last}" is empty' in said
    assert "--restore" in said
    shutil.rmtree(shop.root / "out")  # the orphan may have gone further than the copy, which has its own sinks
    shutil.copytree(tmp_path / "out", shop.root / "out")
    shop.run("--until-done", "--fresh", "--restore", str(copy))
    check_answers(shop)


def test_a_record_that_breaks_a_rule_that_stops_is_named_and_not_tried_again(shop: Shop) -> None:
    rules = "    expect: {rules: amount IS NOT NULL, else: stop}\nsteps:"
    (shop.root / "flows" / "sums.yaml").write_text(FLOW.replace("steps:", rules, 1))
    (shop.root / "data" / "3.json").write_text('{"at": "2024-01-01T00:03:00Z", "user": "u0"}\n')

    said = shop.run("--until-done", code=1)

    assert "trying again" not in said
    assert "stops at a record: amount IS NOT NULL does not hold" in said
    assert '"user":"u0"' in said
    assert str(shop.home.log) in said
    assert "Traceback" not in said
    assert "Traceback" in shop.home.log.read_text()
    eventually(lambda: not shop.processes(), 60, diagnose=lambda: "\n".join(shop.processes()))


def test_a_run_that_is_put_back_behind_its_sinks_is_stopped_before_they_drop_what_comes_next(
    shop: Shop, tmp_path: Path, spark: SparkSession, broker: str, postgresql: str
) -> None:
    import psycopg

    name = f"back_{uuid4().hex[:8]}"
    (shop.root / "flows" / "sums.yaml").write_text(EVERYWHERE.format(url=postgresql, name=name))
    kafka = {"bootstrap.servers": broker}
    for number in range(6, FILES):
        (shop.root / "data" / f"{number}.json").unlink()

    def run(cores: int, *arguments: str, code: int = 0) -> str:
        (shop.root / "headrace.toml").write_text(
            f'[spark]\nmaster = "local[{cores}]"\n[kafka]\nbootstrap = "{broker}"\n'
        )
        return shop.run("--until-done", *arguments, code=code)

    def held() -> list[int]:
        with closing(sqlite3.connect(shop.root / "out" / "sums.db")) as database:
            counts = [database.execute("SELECT count(*) FROM sums").fetchone()[0]]
        with psycopg.connect(postgresql) as there:
            counts += [row[0] for row in there.execute(f"SELECT count(*) FROM {name}".encode())]
        counts += [sum(len(f.read_text().splitlines()) for f in (shop.root / "out" / "kept").glob("part-*"))]
        counts += [DeltaTable(str(shop.root / "out" / "lake")).to_pyarrow_table().num_rows]
        return [*counts, len(list(consume(kafka, name, until_end=True)))]

    run(2)
    copy = tmp_path / "copy"
    shutil.copytree(shop.home.path, copy)
    for number in range(6, 12):
        shop.add(number)
    run(5)
    assert held() == [600] * 5
    places = [
        Place(step=sink, flow="sums", home=shop.home.path / "places" / sink, base=shop.root, kafka=kafka)
        for sink in ("store", "bank", "kept", "lake", "log")
    ]
    marks = f"{MARKS}/{writer_of(places[-1])}/"
    tasks = {group.name.removeprefix(marks) for group in groups.listing(kafka) if group.name.startswith(marks)}
    assert tasks == {"0", "1"}, "a batch is cut as on the machine where the run began, not into three"
    shop.add(12)

    said = run(2, "--fresh", "--restore", str(copy), code=1)

    assert held() == [600] * 5
    assert 'sink "store" (sqlite) has batch 1 of this run, and the checkpoint of query "orders" ends at batch 0' in said
    assert "trying again" not in said
    flow = load(shop.root / "flows" / "sums.yaml")
    for sink, place in zip(flow.sinks, places, strict=True):
        assert SINKS[sink.connector](sink.options).newest(spark, place) == 1, sink.name
