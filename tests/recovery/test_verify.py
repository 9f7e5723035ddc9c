"""A run's sinks against the flow answered once more, on real sinks; and what a mistake looks like."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from headrace.cli.main import headrace
from headrace.cli.verify import told
from headrace.compile.where import Where
from headrace.errors import UsageError
from headrace.operators.aggregate import Aggregate
from headrace.project import Project
from headrace.run.audits import of_run
from headrace.run.flush import plan_flush
from headrace.run.home import Asked, Home
from headrace.run.prepare import prepare
from headrace.run.queries import Stopping, Watch, start_query
from headrace.run.remote import RemotePath, checkpoint_root
from headrace.run.verify import Verdict, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = """
flow: shop
sources:
  orders:
    files: {path: in, per_batch: 1}
    format: json
    schema: id BIGINT, user STRING, amount DOUBLE, at TIMESTAMP
    time: {column: at, watermark: 10 seconds}
steps:
  large:
    from: orders
    filter: amount >= 2
  per_window:
    from: large
    aggregate:
      window: {hopping: 20 seconds, every: 10 seconds}
      by: user
      compute: {n: count(*), total: sum(amount)}
      late: port
  sessions:
    from: orders
    aggregate:
      window: {session: 15 seconds}
      by: user
      compute: {n: count(*)}
  running:
    from: orders
    aggregate:
      by: user
      compute: {n: count(*), mean: avg(amount)}
sinks:
  archive:
    from: large
    files: {path: out, partition_by: user}
    format: json
  windows:
    from: per_window
    sqlite: {path: shop.db, table: windows}
  visits:
    from: sessions
    sqlite: {path: shop.db, table: visits}
    delivery: at-least-once
  totals:
    from: running
    postgresql: {url: "${env:VERIFY_URL}", table: verify_totals, key: user}
  stream:
    from: orders
    kafka: {topic: verify-orders, key: id, partitions: 2}
  seen:
    from: large
    console: {}
  tardy:
    from: per_window.late
    delta: {path: tardy}
  lake:
    from: running
    delta: {path: lake, key: user}
  refused:
    from: orders.dead_letter
    sqlite: {path: shop.db, table: refused}
"""


def order(number: int, second: int, user: str = "ann") -> dict[str, Any]:
    at = f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"
    return {"id": number, "user": user, "amount": 1.1 * (number % 7), "at": at}


class Shop:
    """The flow above, driven batch by batch in the tests' own Spark."""

    def __init__(self, root: Path, session: SparkSession, broker: str, flow: str = FLOW) -> None:
        self.root, self.session, self.files = root, session, 0
        (root / "in").mkdir(parents=True)
        (root / "shop.yaml").write_text(flow)
        (root / "headrace.toml").write_text(f'[kafka]\nbootstrap = "{broker}"\n')
        self.project = Project.find(root)

    @property
    def home(self) -> Home:
        return Home(self.project.home / "runs" / "shop")

    def feed(self, *orders: dict[str, Any]) -> None:
        file = self.root / "in" / f"{self.files}.json"
        file.write_text("".join(json.dumps(o) + "\n" for o in orders))
        os.utime(file, (1_700_000_000 + self.files,) * 2)
        self.files += 1

    def take(self, *, flush: bool = False, restore: str | None = None) -> tuple[str, ...]:
        from headrace.run.driver import kafka_of, require_restored

        source = checkpoint_root(restore) if restore else None
        ready = prepare(self.project, self.root / "shop.yaml", Asked(until_done=True), restore=source)
        with ready.lock:
            require_restored(ready.home, ready.home.read(), ready.plan)
            for name, value in ready.plan.spark.items():
                self.session.conf.set(name, value)
            kafka = kafka_of(self.project, ready.plan.flow, ready.home.read())
            where = Where(session=self.session, streaming=True, home=ready.home.path, base=self.root, kafka=kafka)
            watch = Watch(ready.home, ready.plan.queries, lambda _: None)
            detach = watch.attach(self.session)
            for query in ready.plan.queries:
                running = start_query(ready.home, ready.plan, query, where, Stopping(), watch, until_done=True)
                running.spark.awaitTermination()
                again = [running]
                if flush and query.name in ("per_window", "sessions"):
                    assert plan_flush(ready.home.checkpoint(query.name)) is not None
                    again.append(running.once_more())
                    again[-1].spark.awaitTermination()
                watch.settle(again)
            detach()
        return ready.notes

    def verdicts(self, **asked: Any) -> dict[str, Verdict]:
        return {v.sink: v for v in verify(self.project, self.home, self.session, **asked)}

    def equal(self) -> dict[str, Verdict]:
        found = self.verdicts()
        assert {n: v.as_dict() for n, v in found.items() if v.differs} == {}
        assert [n for n, v in found.items() if v.found is None] == ["seen", "refused"]
        assert "takes dead letters" in found["refused"].why
        return found

    def change(self, statement: str) -> None:
        with closing(sqlite3.connect(self.root / "shop.db")) as database, database:
            database.execute(statement)


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession, broker: str, postgresql: str, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("VERIFY_URL", postgresql)
    return Shop(tmp_path / "shop", spark, broker)


def test_what_a_stream_holds_is_what_a_batch_over_the_same_records_gives_and_every_other_row_is_named(
    shop: Shop,
) -> None:
    shop.feed(*(order(n, n, "ann" if n % 3 else "bob") for n in range(60)))
    shop.feed(order(80, 59), {**order(81, 59), "amount": None})
    # Late, by the watermark of the batch before: for some windows or for all. Then a batch that closes more.
    shop.feed(order(90, 42), order(91, 45), order(92, 3), order(93, 4, "cid"))
    shop.feed(*(order(n, n) for n in range(94, 120)))
    shop.take()
    before = shop.equal()
    assert before["windows"].late > 0
    assert before["windows"].found is not None
    assert (late := before["tardy"].found) is not None
    assert (late.rows, before["tardy"].late) == (1, 0)

    shop.take(flush=True)
    after = shop.equal()
    assert after["windows"].found is not None
    assert before["windows"].found.rows < after["windows"].found.rows  # the last windows were still open

    shop.change("INSERT INTO visits SELECT * FROM visits WHERE rowid = 2")
    twice = shop.equal()["visits"]
    assert twice.allowed == "1 repeated, as at-least-once allows"
    assert ", 1 repeated, as at-least-once allows; " in told(twice)[0]

    shop.change("INSERT INTO windows SELECT * FROM windows WHERE rowid = 2")
    shop.change("UPDATE windows SET total = total + 1 WHERE rowid = 1")
    shop.change("DELETE FROM visits WHERE rowid = 1")
    lake = DeltaTable(str(shop.root / "lake"))
    lake.update(updates={"n": "n + 1"}, predicate="user = 'ann'")
    DeltaTable(str(shop.root / "tardy")).delete("id = 93")
    found = shop.verdicts()
    counts = {n: d.counts() for n, v in found.items() if v.differs and (d := v.found)}
    assert counts == {
        "windows": {"missing": 1, "repeated": 1, "unexpected": 1},
        "visits": {"missing": 1, "repeated": 1},
        "lake": {"different": 1},
        "tardy": {"missing": 1},
    }


WRONG = """
flow: shop
sources:
  orders:
    files: {path: in}
    format: json
    schema: id BIGINT, user STRING
steps:
  running:
    from: orders
    aggregate: {by: user, compute: {n: count(*), last: max(id)}}
sinks:
  totals:
    from: running
    sqlite: {path: shop.db, table: totals, key: user}
  archive:
    from: orders
    files: {path: out}
    format: parquet
"""


def test_an_operator_that_is_wrong_in_a_stream_is_found_out(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path / "shop", spark, "nowhere:1", flow=WRONG)
    right: Callable[..., Any] = Aggregate.lower

    def wrong(self: Aggregate, frames: tuple[Any, ...], low: Any) -> Any:
        return right(self, (frames[0].where("id <> 7") if low.streaming else frames[0],), low)

    with monkeypatch.context() as patched:
        patched.setattr(Aggregate, "lower", wrong)
        shop.feed(*(order(n, n) for n in range(1, 60)))
        shop.take()

    found = shop.verdicts()

    assert {n: v.differs for n, v in found.items()} == {"totals": True, "archive": False}
    assert (differences := found["totals"].found) is not None
    assert [(d.kind, (d.expected or {})["n"], (d.found or {})["n"]) for d in differences.shown] == [
        ("different", 59, 58)
    ]
    assert told(found["totals"])[1] == "  different   user=ann, last=59: expected n=59, found n=58"
    ranged = shop.verdicts(first=0, last=0)["archive"].found
    assert ranged is not None
    assert ranged.rows == 59


REMOTE = """
flow: shop
sources:
  orders:
    files: {path: in, per_batch: 1}
    format: json
    schema: id BIGINT, user STRING, amount DOUBLE, at TIMESTAMP
    time: {column: at, watermark: 10 seconds}
steps:
  per_window:
    from: orders
    aggregate: {window: {tumbling: 10 seconds}, by: user, compute: {n: count(*)}, late: port}
sinks:
  windows:
    from: per_window
    sqlite: {path: shop.db, table: windows}
  tardy:
    from: per_window.late
    sqlite: {path: shop.db, table: tardy}
"""


@dataclass(frozen=True)
class Elsewhere:
    """A folder, and its address on a file system that only Hadoop reaches."""

    folder: Path
    address: str


@pytest.fixture
def elsewhere(tmp_path: Path, spark: SparkSession) -> Elsewhere:
    there, name = tmp_path / "there", f"t{uuid4().hex}"  # a name of its own: Hadoop keeps what it has opened
    there.mkdir()
    java: Any = spark._jsc
    java.hadoopConfiguration().set(f"fs.viewfs.mounttable.{name}.link./cp", there.as_uri())
    return Elsewhere(there, f"viewfs://{name}/cp")


def remote_shop(root: Path, session: SparkSession, flow: str, checkpoints: str) -> Shop:
    shop = Shop(root, session, "nowhere:1", flow=flow)
    with (shop.root / "headrace.toml").open("a") as file:
        file.write(f'[checkpoints]\npath = "{checkpoints}"\n')
    shop.project = Project.find(shop.root)
    return shop


def test_a_checkpoint_that_only_hadoop_reaches_serves_as_well(
    tmp_path: Path, spark: SparkSession, elsewhere: Elsewhere
) -> None:
    shop = remote_shop(tmp_path / "shop", spark, REMOTE, elsewhere.address)
    shop.feed(*(order(n, n) for n in range(60)))
    shop.feed(order(60, 60))
    shop.feed(order(61, 5), order(62, 90))
    shop.take(flush=True)

    assert isinstance(shop.home.checkpoint("per_window"), RemotePath)
    assert list(elsewhere.folder.rglob("commits/*"))
    assert not list((shop.home.path / "checkpoints").iterdir())
    found = shop.verdicts()
    assert [v.as_dict()["verdict"] for v in found.values()] == ["equal", "equal"]
    assert found["windows"].late == 1
    with closing(sqlite3.connect(shop.root / "shop.db")) as database:
        assert database.execute("SELECT id FROM tardy").fetchall() == [(61,)]
        assert database.execute("SELECT sum(n) FROM windows").fetchone() == (62,)
    # In a process without Spark.
    command = [sys.executable, "-m", "headrace.cli.main", "audit", "shop"]
    said = subprocess.run(command, cwd=shop.root, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout.splitlines()[-1]) == (0, "4 batches: every record is accounted for"), said


COPIED = """
flow: shop
sources:
  orders:
    files: {path: in, per_batch: 1}
    format: json
    schema: id BIGINT, user STRING, amount DOUBLE, at TIMESTAMP
sinks:
  copies:
    from: orders
    sqlite: {path: shop.db, table: copies}
"""


def test_a_run_goes_on_with_checkpoints_at_an_address_though_its_home_is_lost(
    tmp_path: Path, spark: SparkSession, elsewhere: Elsewhere
) -> None:
    shop = remote_shop(tmp_path / "shop", spark, COPIED, elsewhere.address)
    shop.feed(order(1, 1))
    shop.feed(order(2, 2))
    shop.take()
    [kept] = elsewhere.folder.iterdir()
    shutil.rmtree(shop.home.path)
    # The last batch was written, and not committed: it is done again, and recognised.
    for name in ("1", ".1.crc"):
        (kept / "orders" / "commits" / name).unlink()
    shop.feed(order(3, 3))

    with pytest.raises(UsageError, match="no checkpoints of this flow at") as refused:
        shop.take(restore=elsewhere.address)
    assert refused.value.detail == f"there is {kept.name}"
    shutil.rmtree(shop.home.path)
    notes = shop.take(restore=f"{elsewhere.address}/{kept.name}")

    assert notes == (
        f'continues with the checkpoints at "{elsewhere.address}/{kept.name}", where they are',
        "without the rest of the home, verify and audit know only of the batches from here on",
    )
    assert list(elsewhere.folder.iterdir()) == [kept]
    with closing(sqlite3.connect(shop.root / "shop.db")) as database:
        assert database.execute("SELECT id FROM copies ORDER BY id").fetchall() == [(1,), (2,), (3,)]
    found = of_run(shop.project, shop.home)
    assert (found.batches, found.findings) == (2, ())
    assert next(t.numbers for t in found.totals if t.part == "copies") == {"given": 2, "written": 1, "skipped": 1}


MENDED = """
flow: shop
sources:
  orders:
    files: {path: in, per_batch: 1}
    format: json
    schema: id BIGINT, amount DOUBLE, country STRING, folder STRING
    expect: [amount >= 0, {column: country, in: [DE, FR]}]
steps:
  halves:
    from: orders
    with: {half: {python: "tests.spark.letters_functions:halved"}}
sinks:
  table:
    from: halves
    sqlite: {path: shop.db, table: halves}
  archive:
    from: halves
    files: {path: out}
    format: json
  stream:
    from: halves
    kafka: {topic: verify-mended, partitions: 1}
  lake:
    from: halves
    delta: {path: lake}
"""


def test_replayed_letters_belong_to_what_sinks_should_hold_and_commands_say_so_by_their_exit_codes(
    tmp_path: Path, spark: SparkSession, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path / "shop", spark, broker, flow=MENDED)
    broken = shop.root / "broken"
    broken.touch()
    amounts = {1: 10, 2: 13, 3: 14, 4: -1, 5: 13, 6: 20}
    given = [{"id": n, "amount": a, "country": "DE", "folder": str(shop.root)} for n, a in amounts.items()]
    shop.feed(*given[:3])
    shop.feed(*given[3:], {**given[0], "id": 7, "country": "XX"}, {**given[0], "id": 8, "country": None})
    shop.take()
    broken.unlink()
    verdicts = shop.verdicts()
    assert {v.as_dict()["verdict"] for v in verdicts.values()} == {"equal"}, "what raised then is left out"

    monkeypatch.chdir(shop.root)
    monkeypatch.setattr("headrace.run.inline.local_session", lambda *_, **__: spark)

    def said(*arguments: str, code: int = 0) -> str:
        ended = CliRunner().invoke(headrace, arguments)
        assert ended.exit_code == code, (arguments, ended.output, ended.exception)
        return ended.output

    kinds = json.loads(said("dead-letters", "list", "shop", "--json"))
    assert [(k["step"], k["reason"], k["letters"]) for k in kinds] == [
        ("halves", "ValueError: thirteen", 2),
        ("orders", "amount >= 0 does not hold", 1),
        ("orders", "country is not one of DE, FR", 1),
    ]
    assert '"amount": 13' in said("dead-letters", "show", "shop", kinds[0]["example"])
    (shop.root / "shop.yaml").write_text(MENDED.replace("amount >= 0", "amount >= -10"))
    assert "replay 1: 4 letters, 1 failed again" in said("dead-letters", "replay", "shop")
    assert "equal: 7 rows" in said("verify", "shop")
    with closing(sqlite3.connect(shop.root / "shop.db")) as database:
        assert [n for (n,) in database.execute("SELECT id FROM halves ORDER BY id")] == [1, 2, 3, 4, 5, 6, 8]
    shop.change("UPDATE halves SET half = 1 WHERE id = 5")
    differs = said("verify", "shop", code=1)
    assert "table: differs: 7 rows of batches 0 to 1, 1 missing, 1 unexpected" in differs
    assert differs.count(": equal: 7 rows") == 3
