from __future__ import annotations

import datetime as dt
import json
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.connectors import memory
from headrace.connectors.base import Batch, Written
from headrace.connectors.console import ConsoleOptions, ConsoleSink
from headrace.connectors.delta import DeltaOptions, DeltaSink
from headrace.connectors.files import FilesSink, FilesSinkOptions
from headrace.connectors.identity import writer
from headrace.connectors.kafka import KafkaSink, KafkaSinkOptions
from headrace.connectors.memory import MemoryOptions, MemorySink
from headrace.connectors.sqlite import SqliteOptions, SqliteSink
from headrace.errors import DataError, EndpointError
from headrace.formats.base import Format
from headrace.formats.csv import CsvFormat, CsvOptions
from headrace.formats.json import JsonFormat, JsonOptions
from headrace.formats.parquet import ParquetFormat, ParquetOptions
from headrace.formats.text import TextFormat, TextOptions
from headrace.model import Changes, Delivery, Schema
from tests.connectors.suites import SIMPLE, KeyedSinkSuite, Row, SinkSuite, place, simple

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession


def zoned(row: Row) -> Row:
    """Spark gives a TIMESTAMP as a local time without a zone, which is UTC in the tests."""
    at, ats = row.get("at"), row.get("ats")
    if isinstance(ats, list):
        row = row | {"ats": [one.replace(tzinfo=dt.UTC) for one in ats]}
    return row | {"at": at.replace(tzinfo=dt.UTC)} if isinstance(at, dt.datetime) else row


class TestMemory(KeyedSinkSuite):
    has_latest_by = False

    @pytest.fixture(autouse=True)
    def _empty(self) -> None:
        memory.tables.clear()

    def sink(self, **options: Any) -> MemorySink:
        return MemorySink(MemoryOptions(**options))

    def rows(self, folder: Path, schema: str) -> list[Row]:
        return [
            zoned({k: bytes(v) if isinstance(v, bytearray) else v for k, v in row.items()})
            for row in memory.tables["shop", "out"].rows
        ]


class TestSqlite(KeyedSinkSuite):
    def sink(self, **options: Any) -> SqliteSink:
        return SqliteSink(SqliteOptions(**{"path": "out/rows.db", "table": 'the "rows"', **options}))

    def rows(self, folder: Path, schema: str) -> list[Row]:
        with closing(sqlite3.connect(folder / "out" / "rows.db")) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute('SELECT * FROM "the ""rows"""')]

    def expected(self, row: Row) -> Row:
        return row | {
            "yes": 1,
            "m": -123456789.125,
            "long": "1234567890123456789012345678.0123456789",
            "day": "1969-12-31",
            "at": "2026-01-02 03:04:05.678901",
            "local": "2026-03-29 02:30:00.000001",
            "l": "[1,null,3]",
            "o": '{"k":"x","v":[1.5],"n":"2026-03-29T02:30:00.000001"}',
            "k": '{"a":1}',
            "ats": '["2026-01-02T03:04:05.678901Z"]',
        }

    def test_times_are_utc_whatever_the_sessions_zone(self, tmp_path: Path) -> None:
        zone = self.spark.conf.get("spark.sql.session.timeZone")
        self.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        try:
            # The clocks go back between the two: in Berlin both are 02:00.
            frame = self.spark.sql("SELECT timestamp_seconds(s) AS at FROM VALUES (1792886400), (1792890000) AS t(s)")
            self.sink().write(frame, Batch(id=0, changes=Changes.APPEND, place=place(tmp_path)))
        finally:
            self.spark.conf.set("spark.sql.session.timeZone", str(zone))

        found = sorted(row["at"] for row in self.rows(tmp_path, "at TIMESTAMP"))
        wanted = [
            dt.datetime.fromtimestamp(s, dt.UTC).replace(tzinfo=None).isoformat(" ") for s in (1792886400, 1792890000)
        ]
        assert found == wanted

    def test_others_may_write_to_the_file_while_the_rows_are_computed(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple("ann", 1)])
        file = str(tmp_path / "out" / "rows.db")

        def locking(batches: Iterator[Any]) -> Iterator[Any]:
            with closing(sqlite3.connect(file, timeout=0.1, isolation_level=None)) as database:
                database.execute("BEGIN IMMEDIATE")
            yield from batches

        frame = self.spark.createDataFrame([("bob", 2)], "user STRING, n INT").mapInArrow(locking, "user STRING, n INT")
        written = self.sink().write(frame, Batch(id=1, changes=Changes.APPEND, place=place(tmp_path)))

        assert written.written == 1

    def test_nothing_of_a_batch_that_failed_is_kept(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple("ann", 1)])
        with pytest.raises(DataError, match="no column"):
            self.write(tmp_path, 1, [{"user": "x", "other": 1}], "user STRING, other INT")
        self.write(tmp_path, 1, [simple("bob", 2)])

        assert self.simple_rows(tmp_path) == [("ann", 1), ("bob", 2)]

    def test_a_table_without_a_unique_key_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        with closing(sqlite3.connect(tmp_path / "out" / "rows.db")) as database:
            database.execute('CREATE TABLE "the ""rows""" (user, n, at)')
            database.commit()

        with pytest.raises(DataError) as caught:
            self.update(tmp_path, 0, [simple("ann", 1)])
        assert "unique" in caught.value.hint

    def test_a_database_that_stays_locked_is_an_outage(self, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        with closing(sqlite3.connect(tmp_path / "out" / "rows.db", isolation_level=None)) as other:
            other.execute("PRAGMA journal_mode = WAL")
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(EndpointError, match="could not write"):
                self.write(tmp_path, 0, [simple("ann", 1)], patience="50 ms")

    def test_columns_that_are_all_key_are_kept_once(self, tmp_path: Path) -> None:
        for batch in (0, 1):
            self.write(tmp_path, batch, [{"user": "ann"}, {"user": None}], "user STRING", key=("user",))

        assert sorted((row["user"] for row in self.rows(tmp_path, "")), key=repr) == ["ann", None]


class TestDelta(KeyedSinkSuite):
    def sink(self, **options: Any) -> DeltaSink:
        return DeltaSink(DeltaOptions(**{"path": "out/rows", **options}))

    def table(self, folder: Path) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(folder / "out" / "rows")

    def rows(self, folder: Path, schema: str) -> list[Row]:
        rows: list[Row] = self.table(folder).to_pyarrow_table().to_pylist()
        return [row | {"k": dict(row["k"])} if row.get("k") is not None else row for row in rows]

    def test_rows_and_the_mark_of_their_batch_are_one_commit(self, tmp_path: Path) -> None:
        self.write(tmp_path, 7, [simple("ann", 1)])
        self.write(tmp_path, 8, [])
        self.update(tmp_path, 9, [simple("ann", 2)])

        commits = sorted((tmp_path / "out" / "rows" / "_delta_log").glob("*.json"))
        actions = [[json.loads(line) for line in file.read_text().splitlines()] for file in commits]
        marks = [[a["txn"]["version"] for a in commit if "txn" in a] for commit in actions]
        assert marks == [[7], [9]]
        assert all(any("add" in a for a in commit) for commit in actions)

    def test_what_was_written_and_what_was_there_is_counted(self, tmp_path: Path) -> None:
        frame = self.frame([simple("ann", 1), simple("bob", 2)], "user STRING, n BIGINT, at TIMESTAMP")
        batch = Batch(id=0, changes=Changes.APPEND, place=place(tmp_path))
        assert self.sink().write(frame, batch) == Written(written=2)
        assert self.sink().write(frame, batch) == Written(skipped=2)

    def test_a_table_is_divided_by_columns_and_small_files_are_put_together(self, tmp_path: Path) -> None:
        for batch in range(4):
            rows = [simple("ann", batch), simple("bob", batch)]
            self.write(tmp_path, batch, rows, partition_by=("user",), compact_every=4)

        files = [Path(uri) for uri in self.table(tmp_path).file_uris()]
        assert sorted(file.parent.name for file in files) == ["user=ann", "user=bob"]
        assert len(self.simple_rows(tmp_path)) == 8

    def test_rows_with_other_columns_are_refused_and_nothing_is_kept(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple("ann", 1)])
        with pytest.raises(DataError, match="refused the rows"):
            self.write(tmp_path, 1, [{"user": "x", "other": 1}], "user STRING, other INT")
        self.write(tmp_path, 1, [simple("bob", 2)])

        assert self.simple_rows(tmp_path) == [("ann", 1), ("bob", 2)]

    def test_of_two_writers_of_one_batch_one_is_let_through(self, tmp_path: Path) -> None:
        """A driver that was thought dead has opened the table before the new one writes the same batch."""
        import pyarrow as pa

        self.write(tmp_path, 0, [simple("ann", 1)])
        late = self.table(tmp_path)
        self.write(tmp_path, 1, [simple("bob", 2)])

        rows = pa.table({"user": ["bob"], "n": [2], "at": pa.array([None], pa.timestamp("us", "UTC"))})
        name = writer(Batch(id=1, changes=Changes.APPEND, place=place(tmp_path)))
        with pytest.raises(Exception, match=r"(?i)transaction|conflict|concurrent"):
            self.sink()._commit(str(tmp_path / "out" / "rows"), late, rows, name, 1)
        assert self.simple_rows(tmp_path) == [("ann", 1), ("bob", 2)]


class FilesSuite(SinkSuite):
    """The files sink with one format."""

    def sink(self, **options: Any) -> FilesSink:
        return FilesSink(FilesSinkOptions(**{"path": "out", **options}))

    def files(self, folder: Path) -> list[Path]:
        found = (folder / "out").rglob("*")
        return sorted(
            p
            for p in found
            if p.is_file() and not any(part.startswith(("_", ".")) for part in p.relative_to(folder / "out").parts)
        )

    def leftovers(self, folder: Path) -> list[Path]:
        """Files that are neither data nor the record of a batch."""
        files = [p for p in (folder / "out").rglob("*") if p.is_file() and p not in self.files(folder)]
        return [p for p in files if p.suffix != ".json"]


class TestFilesParquet(FilesSuite):
    def format(self) -> Format[Any]:
        return ParquetFormat(ParquetOptions())

    def rows(self, folder: Path, schema: str) -> list[Row]:
        rows = self.spark.read.schema(schema).parquet(str(folder / "out")).collect()
        return [
            zoned({k: bytes(v) if isinstance(v, bytearray) else v for k, v in row.asDict(recursive=True).items()})
            for row in rows
        ]


class TestFilesJson(FilesSuite):
    def format(self) -> Format[Any]:
        return JsonFormat(JsonOptions())

    def rows(self, folder: Path, schema: str) -> list[Row]:
        rows = self.spark.read.schema(schema).option("mode", "FAILFAST").json(str(folder / "out")).collect()
        return [
            zoned({k: bytes(v) if isinstance(v, bytearray) else v for k, v in row.asDict(recursive=True).items()})
            for row in rows
        ]

    def test_one_batch_is_one_file_and_an_empty_one_none(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple(str(n), n) for n in range(100)])
        self.write(tmp_path, 1, [])
        self.write(tmp_path, 2, [simple("ann", 1)])

        names = [path.name for path in self.files(tmp_path)]
        assert len(names) == 2
        assert names[0].startswith("part-0000000000-0000-shop-out-")
        assert names[1].startswith("part-0000000002-0000-shop-out-")
        assert self.leftovers(tmp_path) == []

    def test_more_files_when_asked(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple(str(n), n) for n in range(100)], files_per_batch=3)
        assert len(self.files(tmp_path)) == 3
        self.write(tmp_path, 1, [simple(str(n), n) for n in range(100)], rows_per_file=40)
        assert len(self.files(tmp_path)) == 6

    def test_columns_become_folders_with_one_file_each(self, tmp_path: Path) -> None:
        rows = [simple("a b/c" if n % 2 else "plain", n) for n in range(50)]
        for batch in (0, 1):
            self.write(tmp_path, batch, rows, partition_by=("user",))

        folders = {path.parent.name for path in self.files(tmp_path)}
        assert folders == {"user=a b%2Fc", "user=plain"}
        assert len(self.files(tmp_path)) == 4
        assert len(self.simple_rows(tmp_path)) == 100

    def test_folders_may_have_several_files(self, tmp_path: Path) -> None:
        rows = [simple("ann" if n % 2 else "bob", n) for n in range(200)]
        self.write(tmp_path, 0, rows, partition_by=("user",), files_per_batch=2)

        assert 2 <= len(self.files(tmp_path)) <= 4
        assert len(self.simple_rows(tmp_path)) == 200

    def test_what_a_killed_batch_left_is_not_seen_and_is_cleaned(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple("ann", 1)])
        [records] = (tmp_path / "out" / "_headrace").iterdir()
        staging = records / "0000000001.staging"
        staging.mkdir()
        (staging / "part-00000.json").write_text('{"user":"ghost","n":9}\n')

        assert self.simple_rows(tmp_path) == [("ann", 1)]
        self.write(tmp_path, 1, [simple("bob", 2)])
        assert self.simple_rows(tmp_path) == [("ann", 1), ("bob", 2)]
        assert not staging.exists()

    def test_a_batch_killed_while_it_was_published_is_completed(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple("ann", 1)])
        [records] = (tmp_path / "out" / "_headrace").iterdir()
        staging = records / "0000000001.staging"
        (staging / "user=bob").mkdir(parents=True)
        (staging / "user=bob" / "b.json").write_text('{"n":2}\n')
        moved = tmp_path / "out" / "user=cid" / "part-0000000001-0001-x.json"
        moved.parent.mkdir()
        moved.write_text('{"n":3}\n')
        moves = {
            "user=bob/b.json": "user=bob/part-0000000001-0000-x.json",
            "user=cid/c.json": "user=cid/part-0000000001-0001-x.json",
        }
        (records / "0000000001.publishing").write_text(json.dumps({"batch": 1, "rows": 2, "files": moves}))

        self.write(tmp_path, 1, [simple("bob", 2), simple("cid", 3)], partition_by=("user",))

        assert {path.parent.name for path in self.files(tmp_path)} == {"out", "user=bob", "user=cid"}
        assert len(self.files(tmp_path)) == 3
        assert self.leftovers(tmp_path) == []

    def test_the_record_of_a_batch_names_its_files(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple("ann", 1), simple("bob", 1)], partition_by=("user",))

        [record] = (tmp_path / "out" / "_headrace").rglob("*.json")
        said = json.loads(record.read_text())
        assert (said["batch"], said["rows"]) == (0, 2)
        assert sorted(said["files"].values()) == [str(p.relative_to(tmp_path / "out")) for p in self.files(tmp_path)]

    def test_records_of_old_batches_do_not_pile_up(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple("ann", 1)])
        [records] = (tmp_path / "out" / "_headrace").iterdir()
        for batch in range(1, 40):
            (records / f"{batch:010d}.json").write_text("{}")
        self.write(tmp_path, 40, [simple("bob", 1)])

        assert len(list(records.iterdir())) == 20
        assert (records / "0000000040.json").exists()


class TestFilesCsv(FilesSuite):
    keeps_types = False

    def format(self) -> Format[Any]:
        return CsvFormat(CsvOptions(header=True))

    def rows(self, folder: Path, schema: str) -> list[Row]:
        form = CsvFormat(CsvOptions(header=True))
        flat = Schema.parse(schema).names
        types = ", ".join(
            f"{n} {t if t in ('bigint', 'string') else 'STRING'}"
            for n, t in ((n, str(Schema.parse(schema)[n])) for n in flat)
        )
        reader = self.spark.read.schema(types).options(**form.file_options()[1]).option("multiLine", True)
        return [row.asDict() for row in reader.csv(str(folder / "out")).collect()]


def test_text_files_have_one_line_for_each_row(spark: SparkSession, tmp_path: Path) -> None:
    sink = FilesSink(FilesSinkOptions(path="out"))
    frame = spark.createDataFrame([("one",), ("two",)], "word STRING")

    sink.write(frame, Batch(id=0, changes=Changes.APPEND, place=place(tmp_path), format=TextFormat(TextOptions())))

    [file] = (tmp_path / "out").glob("part-*.txt")
    assert sorted(file.read_text().splitlines()) == ["one", "two"]


class TestKafka(SinkSuite):
    repeats_once = True

    @pytest.fixture(autouse=True)
    def _broker(self, broker: str) -> None:
        self.broker, self.topic = broker, f"sink-{uuid.uuid4().hex[:8]}"

    def sink(self, **options: Any) -> KafkaSink:
        return KafkaSink(KafkaSinkOptions(**{"topic": self.topic, "partitions": 2, **options}))

    def format(self) -> Format[Any]:
        return JsonFormat(JsonOptions())

    def place(self, folder: Path) -> Any:
        return place(folder, kafka={"bootstrap.servers": self.broker})

    def messages(self) -> list[Any]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.broker, "group.id": "look", "enable.partition.eof": True})
        try:
            partitions = consumer.list_topics(self.topic).topics[self.topic].partitions
            consumer.assign([TopicPartition(self.topic, n, 0) for n in partitions])
            found, ended = [], 0
            while ended < len(partitions):
                message = consumer.poll(10)
                assert message is not None, "the broker does not answer"
                if message.error():
                    ended += 1
                else:
                    found.append(message)
            return found
        finally:
            consumer.close()

    def rows(self, folder: Path, schema: str) -> list[Row]:
        lines = self.spark.createDataFrame([(m.value().decode(),) for m in self.messages()], "value STRING")
        from pyspark.sql import functions as F

        parsed = lines.select(F.from_json("value", schema, {"mode": "FAILFAST"}).alias("row")).select("row.*")
        return [
            zoned({k: bytes(v) if isinstance(v, bytearray) else v for k, v in row.asDict(recursive=True).items()})
            for row in parsed.collect()
        ]

    def test_the_key_and_headers_are_those_that_are_named(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple("ann", 1), simple(None, 2)], key="user", headers={"origin": "tests"})

        assert sorted(((m.key(), m.headers()) for m in self.messages()), key=repr) == [
            (None, [("origin", b"tests")]),
            (b"ann", [("origin", b"tests")]),
        ]

    def test_at_most_once_a_task_that_is_repeated_sends_nothing_twice(self, tmp_path: Path) -> None:
        """A task that has sent some of its rows is lost; Spark runs it again within the same batch."""
        from pyspark.sql import functions as F

        rows = self.spark.range(2000).coalesce(1).select(F.col("id").cast("string").cast("binary").alias("value"))
        lost = F.when(F.col("value") == b"1999", F.raise_error(F.lit("lost")).cast("binary")).otherwise(F.col("value"))
        batch = Batch(
            id=0,
            changes=Changes.APPEND,
            place=self.place(tmp_path),
            format=self.format(),
            delivery=Delivery.AT_MOST_ONCE,
        )
        with pytest.raises(Exception, match="lost"):
            self.sink().write(rows.select(lost.alias("value")), batch)

        assert self.sink().write(rows, batch) == Written(written=2000)
        assert len(self.messages()) == 2000

    def test_a_topic_that_is_not_there_and_may_not_be_created_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(EndpointError, match="does not exist"):
            self.write(tmp_path, 0, [simple("ann", 1)], partitions=None)

    def test_a_record_that_is_too_large_is_said(self, tmp_path: Path) -> None:
        from random import Random

        noise = Random(1).randbytes(2_000_000).hex()
        with pytest.raises(DataError, match="refused a record"):
            self.write(tmp_path, 0, [simple(noise, 1)])

    @pytest.mark.parametrize("delivery", [Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE])
    def test_the_properties_of_the_author_reach_the_producer(self, tmp_path: Path, delivery: Delivery) -> None:
        form, sink = self.format(), self.sink(client={"max.request.size": 20})
        frame = self.frame([simple("ann", 1)], SIMPLE).withColumn("value", form.encode(Schema.parse(SIMPLE)))
        batch = Batch(id=0, changes=Changes.APPEND, place=self.place(tmp_path), format=form, delivery=delivery)
        with pytest.raises(DataError, match="refused a record") as said:
            sink.write(frame, batch)
        assert "max.request.size" in str(said.value.detail)

    def test_a_key_is_what_lets_it_take_updates(self) -> None:
        assert self.sink(key="user").takes_updates()
        assert not self.sink().takes_updates()


def test_console_prints_an_aligned_table(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = spark.createDataFrame(
        [(1, "ann", Decimal("1.50")), (20, None, None)], "n INT, user STRING, sum DECIMAL(10,2)"
    )
    sink = ConsoleSink(ConsoleOptions(key=("user",)))

    sink.write(frame.orderBy("n"), Batch(id=7, changes=Changes.UPDATE, place=place(tmp_path)))

    assert capsys.readouterr().out.splitlines() == [
        "out, batch 7",
        "user   n   sum",
        "────  ──  ────",
        "ann    1  1.50",
        "∅     20     ∅",
        "",
    ]


def test_console_prints_json_lines_and_no_more_than_its_limit(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = spark.sql("SELECT id, array(id) AS l, timestamp'2026-01-02 03:04:05' AS at FROM range(5) ORDER BY id")

    ConsoleSink(ConsoleOptions(style="json", limit=2)).write(
        frame, Batch(id=0, changes=Changes.APPEND, place=place(tmp_path))
    )

    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"id": n, "l": [n], "at": "2026-01-02T03:04:05"} for n in (0, 1)
    ]


def test_console_says_when_there_is_more_and_nothing_when_there_is_nothing(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = ConsoleSink(ConsoleOptions(limit=3))
    sink.write(spark.range(0), Batch(id=0, changes=Changes.APPEND, place=place(tmp_path)))
    assert capsys.readouterr().out == ""

    sink.write(spark.range(9), Batch(id=1, changes=Changes.APPEND, place=place(tmp_path)))
    assert "… more than 3 rows" in capsys.readouterr().out
