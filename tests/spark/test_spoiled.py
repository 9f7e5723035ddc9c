"""Parquet files that cannot be read are dead letters, each once and as a whole; the rest of their batch goes on."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.check import check, load
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.connectors.unreadable import DAMAGED, EMPTY, NOT_PARQUET, OTHER_TYPE
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.model import Mode
from headrace.project import Project
from headrace.run import letters
from headrace.run.audit import audit
from headrace.run.audits import of_run
from headrace.run.driver import _wait
from headrace.run.home import Asked, Home
from headrace.run.inline import run_to_end
from headrace.run.ledger import Ledger
from headrace.run.prepare import prepare
from headrace.run.queries import Stopping, Watch, run_batch, start_query
from headrace.run.verify import verify
from tests.bad_inputs import damaged, other_type, parquet_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = """\
flow: spoiled
sources:
  orders:
    files: {path: in put, per_batch: 5}
    format: parquet
    schema: id BIGINT, user STRING
    expect: id <> 13
steps:
  totals:
    from: orders
    aggregate: {by: user, compute: {n: count(*)}}
sinks:
  all:
    from: orders
    sqlite: {path: out.db, table: orders}
  per_user:
    from: totals
    sqlite: {path: out.db, table: totals, key: user}
  bad:
    from: orders.dead_letter
    sqlite: {path: out.db, table: bad}
"""
KINDS = (EMPTY, NOT_PARQUET, DAMAGED, OTHER_TYPE)


class Shop:
    """The flow above in a project of its own, driven by the tests' own Spark."""

    def __init__(self, root: Path, session: SparkSession, flow: str = FLOW) -> None:
        self.root, self.session, self.files = root, session, 0
        (root / "in put").mkdir(parents=True)
        (root / "spoiled.yaml").write_text(flow)
        (root / "headrace.toml").write_text("")
        self.project = Project.find(root)

    @property
    def home(self) -> Home:
        return Home(self.project.home / "runs" / "spoiled")

    def feed(self, content: bytes) -> Path:
        file = self.root / "in put" / f"{self.files} ü.parquet"
        file.write_bytes(content)
        os.utime(file, (1_700_000_000 + self.files,) * 2)
        self.files += 1
        return file

    def batch(self, first: int) -> list[Path]:
        """Four files that cannot be read, one of each kind, and one that can."""
        kinds = [b"", parquet_bytes(first + 1000)[:200], damaged(first + 2000), other_type()]
        files = [self.feed(content) for content in kinds]
        self.feed(parquet_bytes(first))
        return files

    def take(self, mode: str | None = None) -> None:
        ready = prepare(self.project, self.root / "spoiled.yaml", Asked(until_done=mode is None, mode=mode))
        with ready.lock:
            for name, value in ready.plan.spark.items():
                self.session.conf.set(name, value)
            batch = ready.plan.mode is Mode.BATCH
            home = ready.home.batch(ready.home.read().batch_runs) if batch else ready.home.path
            where = Where(session=self.session, streaming=not batch, home=home, base=self.root)
            watch = Watch(ready.home, ready.plan.queries, lambda _: None)
            for query in ready.plan.queries:
                if batch:
                    run_batch(ready.home, ready.plan, query, where)
                    continue
                stopping = Stopping()
                running = start_query(ready.home, ready.plan, query, where, stopping, watch, until_done=True)
                _wait([running], stopping)

    def column(self, statement: str) -> list[Any]:
        with closing(sqlite3.connect(self.root / "out.db")) as database:
            return sorted(row[0] for row in database.execute(statement))

    def letters(self) -> list[tuple[str, str]]:
        """The name of the file and the reason of each dead letter."""
        return sorted((name_of(one.told["file"]), one.reason) for one in letters.letters(self.home))

    def equal(self) -> None:
        found = [v.as_dict() for v in verify(self.project, self.home, self.session)]
        assert [(v["sink"], v["verdict"]) for v in found if v["verdict"] != "equal"] == [("bad", "not compared")], found


def name_of(address: str) -> str:
    from urllib.parse import unquote

    return unquote(address).rpartition("/")[2]


def expected(*batches: list[Path]) -> list[tuple[str, str]]:
    return sorted((file.name, reason) for files in batches for file, reason in zip(files, KINDS, strict=True))


def uncommit(home: Home) -> None:
    """As if the driver had been killed when the sinks had the last batch and Spark had not committed it."""
    for commits in home.path.glob("checkpoints/*/commits"):
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
        for name in (f"{last}", f".{last}.crc"):
            (commits / name).unlink(missing_ok=True)


def test_each_file_that_cannot_be_read_is_one_letter_and_the_others_are_taken(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Shop(tmp_path / "shop", spark)
    first, second = shop.batch(0), shop.batch(10_000)
    shop.take()
    good = [*range(13), *range(14, 40), *range(10_000, 10_040)]
    rule = [("4 ü.parquet", "id <> 13 does not hold")]
    wanted = sorted(expected(first, second) + rule)

    def holds() -> None:
        assert shop.column("SELECT id FROM orders") == good
        assert shop.column("SELECT sum(n) FROM totals") == [len(good)]
        assert shop.letters() == wanted
        assert shop.column("SELECT reason FROM bad") == sorted(reason for _, reason in wanted)
        made = of_run(shop.project, shop.home)
        assert made.findings == ()
        counted = {(t.query, t.part): dict(t.numbers) for t in made.totals}
        for query in ("orders", "totals"):
            assert counted[query, "orders"] == {"read": len(good) + 9, "emitted": len(good), "dead": 9}

    holds()
    uncommit(shop.home)
    shutil.copy(shop.root / "in put" / "4 ü.parquet", second[1])  # mended, but noted: it stays out of the batch
    shop.take()
    holds()
    shop.equal()
    told = {name_of(one.told["file"]): one.told for one in letters.letters(shop.home) if one.reason in KINDS}
    assert "value" not in told[first[0].name]
    assert json.loads(told[first[1].name]["record"])["length"] == 200
    assert "error" in json.loads(told[first[2].name]["record"])


STATELESS = FLOW.replace("  totals:\n", "  steps_only:\n").replace(
    "aggregate: {by: user, compute: {n: count(*)}}", "filter: id >= 0"
)
STATELESS = STATELESS.replace("from: totals", "from: steps_only").replace("table: totals, key: user", "table: totals")


def test_a_file_that_was_mended_is_read_by_a_replay_once(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop", spark, STATELESS)
    files = shop.batch(0)
    shop.take()
    files[2].write_bytes(parquet_bytes(2000))
    made = plan(load(shop.root / "spoiled.yaml"), mode=Mode.BATCH)

    def where(own: Path) -> Where:
        return Where(session=spark, streaming=False, home=own, base=shop.root)

    done = letters.replay(shop.home, made, where)
    assert (done.taken, done.failed) == (4, 3)
    assert [(step, number) for step, _, number in done.left] == [("orders", 1)], "of a row of Parquet no bytes are kept"
    assert shop.column("SELECT id FROM orders WHERE id >= 2000") == [*range(2000, 2040)]
    again = [one for one in letters.letters(shop.home) if one.id.startswith("replay-1/")]
    assert sorted(one.reason for one in again) == sorted({EMPTY, NOT_PARQUET, OTHER_TYPE})
    (letters.folder(shop.home) / "replays" / "1" / "done.json").unlink()  # as if it had been killed just before
    assert letters.replay(shop.home, made, where).number == 1
    assert shop.column("SELECT id FROM orders WHERE id >= 2000") == [*range(2000, 2040)]
    shop.equal()


def test_in_batch_mode_they_are_letters_too(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop", spark)
    files = shop.batch(0)
    shop.take("batch")
    assert shop.column("SELECT id FROM orders") == [*range(13), *range(14, 40)]
    assert shop.column("SELECT sum(n) FROM totals") == [39]
    assert shop.letters() == sorted([*expected(files), ("4 ü.parquet", "id <> 13 does not hold")])
    assert of_run(shop.project, shop.home).findings == ()


def run(root: Path, text: str, session: SparkSession, kafka: dict[str, str] | None = None) -> Ledger:
    report = check(resolve(flowfile.read(text)))
    assert not report.errors, "\n".join(map(str, report.errors))
    made, ledger = plan(report.flow), Ledger(root / "ledger.db")
    where = Where(session=session, streaming=True, home=root / "home", base=root, kafka=kafka or {}, counted=True)
    for query in made.queries:
        run_to_end(made, query, where, root / "checkpoints" / query.name, ledger=ledger)
    return ledger


PLAIN = """\
flow: spoiled-plain
sources:
  orders: {files: {path: in}, format: parquet, schema: "id BIGINT, user STRING"}
sinks:
  out: {from: orders, SINK}
"""


def fill(root: Path, *contents: bytes) -> list[Path]:
    (root / "in").mkdir()
    files = [root / "in" / f"{number}.parquet" for number in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    return files


def kept(root: Path) -> list[dict[str, Any]]:
    texts = [file.read_text() for file in sorted((root / "home" / "dead-letters").glob("*/*.jsonl"))]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def test_nothing_of_a_file_that_fails_in_its_second_half_is_sent_to_a_topic(
    spark: SparkSession, broker: str, tmp_path: Path
) -> None:
    from tests.recovery.test_letters import committed

    fill(tmp_path, parquet_bytes(0), damaged(100), parquet_bytes(200), b"")
    text = PLAIN.replace("SINK", "kafka: {topic: spoiled-out, partitions: 1}")
    ledger = run(tmp_path, text, spark, {"bootstrap.servers": broker})
    assert sorted(row["id"] for row in committed(broker, "spoiled-out")) == [*range(40), *range(200, 240)]
    assert sorted(one["reason"] for one in kept(tmp_path)) == [DAMAGED, EMPTY]
    assert audit(ledger.entries(), {"orders": 0}).findings == ()


@pytest.mark.parametrize("delivery", ["exactly-once", "at-most-once"])
def test_a_batch_of_nothing_but_such_files_is_empty(spark: SparkSession, tmp_path: Path, delivery: str) -> None:
    fill(tmp_path, b"PAR1", b"")
    run(tmp_path, PLAIN.replace("SINK", f"files: out, format: json, delivery: {delivery}"), spark)
    assert not list((tmp_path / "out").glob("part-*"))
    assert sorted(one["reason"] for one in kept(tmp_path)) == [EMPTY, NOT_PARQUET]


def test_at_most_once_has_the_others(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path, b"PAR1", parquet_bytes(0))
    run(tmp_path, PLAIN.replace("SINK", "sqlite: {path: out.db, table: t}, delivery: at-most-once"), spark)
    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        assert sorted(database.execute("SELECT id FROM t")) == [(n,) for n in range(40)]


def test_more_such_files_than_letters_are_allowed_stop_the_flow(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path, b"PAR1", parquet_bytes(0), b"")
    text = "dead_letters: {per_minute: 1}\n" + PLAIN.replace("SINK", "sqlite: {path: out.db, table: t}")
    with pytest.raises(Exception, match="more than 1 dead letters in a minute"):
        run(tmp_path, text, spark)
    assert kept(tmp_path) == []
    run(tmp_path, text.replace("per_minute: 1", "per_minute: 2"), spark)
    assert sorted(one["reason"] for one in kept(tmp_path)) == [EMPTY, NOT_PARQUET]


def test_of_a_source_that_deletes_its_files_a_copy_stays(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path, b"PAR1 and no more", parquet_bytes(0))
    run(tmp_path, PLAIN.replace("path: in", "path: in, after: delete").replace("SINK", "memory: {}"), spark)
    [letter] = kept(tmp_path)
    assert Path(json.loads(letter["record"])["copy"]).read_bytes() == b"PAR1 and no more"


def test_a_file_that_is_gone_is_no_letter(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.compile.lower import Lowered

    files = fill(tmp_path, parquet_bytes(0), parquet_bytes(100))
    write: Callable[..., Any] = Lowered.write

    def late(self: Lowered, frame: Any, batch: int) -> Any:
        files[1].unlink(missing_ok=True)
        return write(self, frame, batch)

    monkeypatch.setattr(Lowered, "write", late)
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        run(tmp_path, PLAIN.replace("SINK", "sqlite: {path: out.db, table: t}"), spark)
    assert kept(tmp_path) == []
