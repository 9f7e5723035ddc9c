from __future__ import annotations

import datetime as dt
import json
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.connectors.base import ORIGIN, REASON, Between, Reading
from headrace.connectors.files import FilesSource, FilesSourceOptions
from headrace.connectors.generator import GeneratorOptions, GeneratorSource
from headrace.connectors.generators import make
from headrace.connectors.kafka import KafkaSource, KafkaSourceOptions
from headrace.connectors.rate import RateOptions, RateSource
from headrace.connectors.socket import SocketOptions, SocketSource
from headrace.connectors.values import ValuesOptions, ValuesSource
from headrace.errors import EndpointError, FlowError, UsageError
from headrace.formats.csv import CsvFormat, CsvOptions
from headrace.formats.json import JsonFormat, JsonOptions
from headrace.formats.parquet import ParquetFormat, ParquetOptions
from headrace.formats.text import TextFormat, TextOptions
from headrace.model import Schema
from headrace.run.checkpoint import last_committed, planned
from tests.connectors.suites import ALL_TYPES, EVERYTHING, Row, SourceSuite, place
from tests.servers import free_port
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = Schema.parse("user STRING, n BIGINT, at TIMESTAMP")


def person(n: int) -> Row:
    return {"user": f"user {n}", "n": n, "at": dt.datetime(2026, 1, 1, 0, 0, n % 60)}


class FilesSuite(SourceSuite):
    """The files source with one format; every step puts two files there."""

    schema = SCHEMA

    def source(self) -> FilesSource:
        return FilesSource(FilesSourceOptions(path="in", per_batch=1))

    def feed(self, folder: Path, step: int) -> list[Row]:
        rows = [person(step * 10 + n) for n in range(4)]
        (folder / "in").mkdir(exist_ok=True)
        for part, some in enumerate((rows[:2], rows[2:])):
            draft = folder / f"draft-{step}-{part}"
            self.put(draft, some)
            draft.rename(folder / "in" / f"{step}-{part}.data")
        return rows

    def put(self, path: Path, rows: list[Row]) -> None:
        raise NotImplementedError


class TestFilesJson(FilesSuite):
    form = JsonFormat(JsonOptions())

    def put(self, path: Path, rows: list[Row]) -> None:
        path.write_text("".join(json.dumps(row | {"at": row["at"].isoformat() + "Z"}) + "\n" for row in rows))

    def test_a_record_that_is_not_readable_stops_the_run_with_the_reason(self, tmp_path: Path) -> None:
        self.feed(tmp_path, 0)
        (tmp_path / "in" / "bad.data").write_text('{"user": "x", "n": "many"}\n')

        with pytest.raises(Exception, match="a record is not readable: the record is not one JSON object, or a value"):
            self.read(tmp_path, streaming=False).count()

    def test_files_below_are_read_when_asked(self, tmp_path: Path) -> None:
        rows = self.feed(tmp_path, 0)
        (tmp_path / "in" / "below").mkdir()
        self.put(tmp_path / "in" / "below" / "x.data", [person(99)])
        reading = Reading(session=self.spark, streaming=False, schema=SCHEMA, format=self.form, place=place(tmp_path))

        found = FilesSource(FilesSourceOptions(path="in", recursive=True)).read(reading).collect()

        self.same([row.asDict() for row in found], [*rows, person(99)])

    def test_a_pattern_and_a_single_file_are_paths_too(self, tmp_path: Path) -> None:
        self.feed(tmp_path, 0)
        reading = Reading(session=self.spark, streaming=False, schema=SCHEMA, format=self.form, place=place(tmp_path))

        for path, count in (("in/0-*.data", 4), ("in/0-1.data", 2), (str(tmp_path / "in"), 4)):
            assert FilesSource(FilesSourceOptions(path=path)).read(reading).count() == count

    def test_a_folder_that_is_not_there_is_said(self, tmp_path: Path) -> None:
        for streaming in (True, False):
            with pytest.raises(FlowError) as caught:
                self.read(tmp_path, streaming=streaming)
            assert caught.value.problems[0].code == "file-not-found"

    def test_files_that_were_read_are_moved_when_asked(self, tmp_path: Path) -> None:
        self.feed(tmp_path, 0)
        options = FilesSourceOptions(path="in", per_batch=1, after="archive", archive="done")
        where = place(tmp_path)
        frame = FilesSource(options).read(
            Reading(session=self.spark, streaming=True, schema=SCHEMA, format=self.form, place=where)
        )
        self.drain(tmp_path, frame)
        self.feed(tmp_path, 1)
        self.drain(tmp_path, frame)

        # Spark moves the files of a batch after the batch that follows it.
        eventually(lambda: len(list((tmp_path / "done").rglob("*.data"))) >= 2)


class TestFilesCsv(FilesSuite):
    form = CsvFormat(CsvOptions(header=True))

    def put(self, path: Path, rows: list[Row]) -> None:
        lines = ["user,n,at", *(f'"{row["user"]}",{row["n"]},{row["at"].isoformat()}Z' for row in rows)]
        path.write_text("\n".join(lines) + "\n")

    def test_a_header_with_other_names_is_an_error(self, tmp_path: Path) -> None:
        self.feed(tmp_path, 0)
        (tmp_path / "in" / "0-0.data").write_text("n,user,at\n1,x,2026-01-01T00:00:00Z\n")

        with pytest.raises(Exception, match="CSV header does not conform to the schema"):
            self.read(tmp_path, streaming=False).collect()

    @pytest.mark.parametrize("line", ["x,1", "x,y,2026-01-01T00:00:00Z", "x,1,2026-01-01T00:00:00Z,more"])
    def test_a_record_that_is_not_readable_stops_the_run_with_the_reason(self, tmp_path: Path, line: str) -> None:
        self.feed(tmp_path, 0)
        (tmp_path / "in" / "bad.data").write_text(f"user,n,at\n{line}\n")

        with pytest.raises(Exception, match="a record is not readable: .*" + line):
            self.read(tmp_path, streaming=False).collect()

    def test_a_decimal_that_is_none_or_huge_is_not_readable(self, tmp_path: Path) -> None:
        lines = [
            "1,1.5,x",
            "2,1e34567890,x",
            "3,1e-34567890,x",
            '4,abc," x, y"',
            "5,,x",
            "6,1e3,12e45678",
            "7,1e9,x",
            "8",
        ]
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "some.data").write_text("\n".join(["id,d,s", *lines]) + "\n")
        schema = Schema.parse("id BIGINT, d DECIMAL(6,2), s STRING")
        reading = Reading(session=self.spark, streaming=False, schema=schema, format=self.form, place=place(tmp_path))

        told = self.source().read(replace(reading, reasons=True, origin=True)).collect()

        assert {row.id: row.d for row in told if row[REASON] is None} == {1: Decimal("1.50"), 5: None, 6: Decimal(1000)}
        bad = {row.id: bytes(row[ORIGIN].value).decode() for row in told if row[REASON] is not None}
        assert bad == {int(line[0]): line for line in lines if line[0] in "23478"}
        with pytest.raises(Exception, match=r"a record is not readable: .*2,1e34567890,x"):
            self.source().read(reading).collect()


class TestFilesParquet(FilesSuite):
    form = ParquetFormat(ParquetOptions())

    def put(self, path: Path, rows: list[Row]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from headrace.connectors.arrow import arrow_schema

        pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(SCHEMA)), path)


class TestFilesText(FilesSuite):
    form = TextFormat(TextOptions())
    schema = None

    def feed(self, folder: Path, step: int) -> list[Row]:
        return [{"value": row["user"]} for row in super().feed(folder, step)]

    def put(self, path: Path, rows: list[Row]) -> None:
        path.write_text("".join(row["user"] + "\n" for row in rows))


class TestValues(SourceSuite):
    schema = SCHEMA

    def source(self) -> ValuesSource:
        rows = [person(n) | {"at": person(n)["at"].isoformat()} for n in range(7)]
        return ValuesSource(ValuesOptions(rows=rows, per_batch=3))

    def feed(self, folder: Path, step: int) -> list[Row]:
        return [person(n) for n in range(7)] if step == 0 else []

    def test_rows_come_in_batches_of_the_size_asked_for(self, tmp_path: Path) -> None:
        batches = self.drain(tmp_path, self.read(tmp_path, streaming=True))

        assert [(number, [row["n"] for row in rows]) for number, rows in batches] == [
            (0, [0, 1, 2]),
            (1, [3, 4, 5]),
            (2, [6]),
        ]

    def test_every_type_can_be_written_by_hand(self, tmp_path: Path) -> None:
        row = EVERYTHING | {
            "m": "-123456789.125", "long": "1234567890123456789012345678.0123456789", "day": "1969-12-31",
            "at": "2026-01-02T04:04:05.678901+01:00", "local": "2026-03-29T02:30:00.000001", "bytes": "ü",
        }  # fmt: skip
        source = ValuesSource(ValuesOptions(rows=[row, {"id": 1}]))
        reading = Reading(
            session=self.spark, streaming=False, schema=Schema.parse(ALL_TYPES), format=None, place=place(tmp_path)
        )

        found = [r.asDict(recursive=True) for r in source.read(reading).collect()]

        self.same([found[0]], [EVERYTHING | {"bytes": "ü".encode()}])
        assert found[1] == {name: 1 if name == "id" else None for name in EVERYTHING}

    def test_no_rows_are_no_rows(self, tmp_path: Path) -> None:
        reading = Reading(session=self.spark, streaming=False, schema=SCHEMA, format=None, place=place(tmp_path))
        assert ValuesSource(ValuesOptions(rows=())).read(reading).collect() == []

    def test_rows_that_do_not_fit_are_all_named(self, tmp_path: Path) -> None:
        source = ValuesSource(ValuesOptions(rows=[{"n": 1.5}, {"n": 1}, {"who": "x"}, ["x", 1]]))
        with pytest.raises(FlowError) as caught:
            source.read(Reading(session=self.spark, streaming=False, schema=SCHEMA, format=None, place=place(tmp_path)))
        assert [problem.message.split(" of ")[0] for problem in caught.value.problems] == ["row 1", "row 3", "row 4"]


class TestGenerator(SourceSuite):
    def source(self) -> GeneratorSource:
        return GeneratorSource(GeneratorOptions(kind="orders", seed=7, limit=250, rate=100))

    def feed(self, folder: Path, step: int) -> list[Row]:
        return [make("orders").record(7, n, rate=100) for n in range(250)] if step == 0 else []

    def test_it_keeps_its_pace_and_ends_at_its_limit(self, tmp_path: Path) -> None:
        source = GeneratorSource(GeneratorOptions(kind="tweets", limit=60, rate=40))
        reading = Reading(session=self.spark, streaming=True, schema=None, format=None, place=place(tmp_path))
        sizes: list[int] = []
        due: list[float] = []
        began = time.monotonic()

        def keep(batch: DataFrame, number: int) -> None:
            sizes.append(batch.count())
            due.append((time.monotonic() - began) * 40)

        query = (
            source.read(reading)
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        try:
            eventually(lambda: sum(sizes) >= 60, 60, diagnose=lambda: f"{sizes} {query.exception()}")
            query.processAllAvailable()
        finally:
            query.stop()

        assert sum(sizes) == 60
        assert all(sum(sizes[: n + 1]) <= most for n, most in enumerate(due))

    def test_a_batch_without_an_end_is_refused(self, tmp_path: Path) -> None:
        source = GeneratorSource(GeneratorOptions(kind="tweets"))
        with pytest.raises(FlowError) as caught:
            source.read(Reading(session=self.spark, streaming=False, schema=None, format=None, place=place(tmp_path)))
        assert caught.value.problems[0].code == "missing-option"

    @pytest.mark.parametrize("kind", ["card_payments", "clicks", "sensors", "tweets"])
    def test_spark_gives_the_records_of_every_kind(self, tmp_path: Path, kind: Any) -> None:
        source = GeneratorSource(GeneratorOptions(kind=kind, seed=3, limit=20))
        reading = Reading(session=self.spark, streaming=False, schema=None, format=None, place=place(tmp_path))

        found = [row.asDict(recursive=True) for row in source.read(reading).collect()]

        self.same(found, [make(kind).record(3, n) for n in range(20)])


class TestKafka(SourceSuite):
    @pytest.fixture(autouse=True)
    def _topic(self, broker: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        self.broker, self.topic = broker, f"source-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": broker})
        # Its records have times that lie long ago, and Kafka would delete them when it next looks.
        wanted = NewTopic(self.topic, 2, 1, config={"retention.ms": "-1"})
        for future in admin.create_topics([wanted]).values():
            future.result(30)

    def kafka(self) -> Mapping[str, str]:
        return {"bootstrap.servers": self.broker}

    def source(self, **options: Any) -> KafkaSource:
        return KafkaSource(KafkaSourceOptions(**{"topic": self.topic, "per_batch": 6, **options}))

    def feed(self, folder: Path, step: int) -> list[Row]:
        values = [f"value {step}-{n}".encode() for n in range(10)]
        self.produce(values, 1_767_225_600_000 + step * 60_000)
        return [{"value": value} for value in values]

    def test_the_properties_of_the_author_reach_the_consumer(self, tmp_path: Path) -> None:
        self.feed(tmp_path, 0)
        where = place(tmp_path, kafka=self.kafka(), step="in")
        reading = Reading(session=self.spark, streaming=False, schema=self.schema, format=self.form, place=where)
        frame = self.source(client={"max.poll.records": 0}).read(reading)
        with pytest.raises(Exception, match=r"Invalid value 0 for configuration max\.poll\.records"):
            frame.collect()

    def produce(self, values: list[bytes], at: int) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.broker})
        for n, value in enumerate(values):
            producer.produce(self.topic, value, key=f"k{n}", partition=n % 2, timestamp=at + n, headers=[("h", b"1")])
        assert producer.flush(30) == 0

    def found(self, folder: Path, *, streaming: bool, **changes: Any) -> list[str]:
        frame = self.read(folder, streaming=streaming, **changes)
        if streaming:
            return sorted(bytes(row["value"]).decode() for _, rows in self.drain(folder, frame) for row in rows)
        return sorted(bytes(row.value).decode() for row in frame.collect())

    @pytest.mark.parametrize("streaming", [True, False])
    @pytest.mark.parametrize(
        ("start", "stop", "wanted"),
        [
            ("8", None, {"1-6", "1-7", "1-8", "1-9"}),
            (None, "1", {"0-0", "0-1"}),
            ("0:9,1:9", "0:10", {"1-8", "1-9"}),
            ("2026-01-01T00:01:00.004Z", None, {f"1-{n}" for n in range(4, 10)}),
            (None, "2026-01-01T00:00:30Z", {f"0-{n}" for n in range(10)}),
            ("2026-01-01T00:00:00.008Z", "2026-01-01T00:01:00.002Z", {"0-8", "0-9", "1-0", "1-1"}),
            ("2030-01-01T00:00:00Z", None, set()),
        ],
    )
    def test_it_begins_and_ends_where_it_is_told(
        self, tmp_path: Path, streaming: bool, start: str | None, stop: str | None, wanted: set[str]
    ) -> None:
        for step in (0, 1):
            self.feed(tmp_path, step)

        found = self.found(tmp_path, streaming=streaming, start=start, stop=stop)

        assert set(found) == {f"value {name}" for name in wanted}

    def test_a_batch_that_is_repeated_has_the_records_of_its_first_attempt(self, tmp_path: Path) -> None:
        self.feed(tmp_path, 0)
        first = self.found(tmp_path, streaming=False, pinned=True)
        self.feed(tmp_path, 1)

        assert len(self.found(tmp_path, streaming=False)) == 20
        assert self.found(tmp_path, streaming=False, pinned=True) == first == [f"value 0-{n}" for n in range(10)]
        later = {"start": "3", "stop": "2030-01-01T00:00:00Z"}
        assert self.found(tmp_path, streaming=False, pinned=True, **later) == [f"value 0-{n}" for n in range(6, 10)]

    def test_what_comes_with_a_record_can_be_had(self, tmp_path: Path) -> None:
        self.feed(tmp_path, 0)
        source = self.source(metadata=("key", "topic", "partition", "offset", "timestamp", "headers"))
        where = place(tmp_path, kafka=self.kafka())
        reading = Reading(session=self.spark, streaming=False, schema=None, format=None, place=where)

        frame: DataFrame = source.read(reading)
        row = frame.where("value = CAST('value 0-3' AS BINARY)").first()

        assert row is not None
        assert row.asDict(recursive=True) == {
            "value": b"value 0-3",
            "kafka_key": "k3",
            "kafka_topic": self.topic,
            "kafka_partition": 1,
            "kafka_offset": 1,
            "kafka_timestamp": dt.datetime(2026, 1, 1, 0, 0, 0, 3000),
            "kafka_headers": [{"key": "h", "value": b"1"}],
        }
        types = {f.name: f.dataType.simpleString() for f in frame.schema.fields[1:]}
        assert types == {f.name: str(f.type) for f in source.metadata()}

    def test_a_topic_that_is_not_there_is_said(self, tmp_path: Path) -> None:
        source = KafkaSource(KafkaSourceOptions(topic="no-such-topic"))
        where = place(tmp_path, kafka=self.kafka())
        with pytest.raises(EndpointError, match='topic "no-such-topic"') as caught:
            source.read(Reading(session=self.spark, streaming=True, schema=None, format=None, place=where))
        assert caught.value.hint == "headrace topic create no-such-topic"

    def test_a_position_that_is_none_is_misuse(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="neither an offset nor a time"):
            self.read(tmp_path, streaming=False, start="yesterday")


def test_a_cluster_that_is_away_is_an_outage(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connectors.kafka_client.ANSWER_SECONDS", 1.0)
    source = KafkaSource(KafkaSourceOptions(topic="t", bootstrap=f"127.0.0.1:{free_port()}"))
    where = place(tmp_path)
    with pytest.raises(EndpointError, match="could not reach"):
        source.read(Reading(session=spark, streaming=True, schema=None, format=None, place=where))


def test_rate_gives_numbered_rows_again_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    source = RateSource(RateOptions(rows_per_second=50))
    seen: list[int] = []
    given: list[tuple[int, dt.datetime]] = []

    def keep(batch: DataFrame, number: int) -> None:
        given.extend((row.value, row.timestamp) for row in batch.collect())
        seen.extend(row.value for row in batch.collect())

    def run(until: int) -> None:
        reading = Reading(session=spark, streaming=True, schema=None, format=None, place=place(tmp_path))
        frame = source.read(reading)
        assert {f.name: f.dataType.simpleString() for f in frame.schema.fields} == {
            f.name: str(f.type) for f in source.columns()
        }
        query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            eventually(lambda: len(seen) >= until, 60, diagnose=lambda: f"{len(seen)} rows; {query.exception()}")
        finally:
            query.processAllAvailable()
            query.stop()

    run(50)
    run(len(seen) + 50)

    assert sorted(seen) == list(range(len(seen)))

    checkpoint = tmp_path / "checkpoint"
    last = last_committed(checkpoint)
    assert last is not None
    end = planned(checkpoint, last).offsets[0]
    again = Between(start="1", end=end, kept=str(checkpoint / "sources" / "0"))
    reading = Reading(session=spark, streaming=False, schema=None, format=None, place=place(tmp_path), between=again)
    rows = [(row.value, row.timestamp) for row in source.read(reading).collect()]
    assert sorted(rows) == sorted((value, at) for value, at in given if value >= 50)


def test_rate_cannot_be_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    reading = Reading(session=spark, streaming=False, schema=None, format=None, place=place(tmp_path))
    with pytest.raises(FlowError, match="never ends"):
        RateSource(RateOptions()).read(reading)


def test_socket_gives_lines_as_bytes(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections: list[socket.socket] = []

        def serve() -> None:
            connection, _ = server.accept()
            connections.append(connection)
            connection.sendall("one\nzwei ü\n".encode())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        source = SocketSource(SocketOptions(port=server.getsockname()[1]))
        frame = source.read(Reading(session=spark, streaming=True, schema=None, format=None, place=place(tmp_path)))
        query = (
            frame.writeStream.foreachBatch(lambda b, n: seen.extend(bytes(row.value).decode() for row in b.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        try:
            eventually(lambda: seen == ["one", "zwei ü"], 60, diagnose=lambda: f"{seen} {query.exception()}")
        finally:
            query.stop()
            thread.join(10)
            for connection in connections:
                connection.close()

    again = Between(start=None, end="1")
    reading = Reading(session=spark, streaming=False, schema=None, format=None, place=place(tmp_path), between=again)
    with pytest.raises(FlowError, match="cannot be read again"):
        source.read(reading)


def test_decimals_of_the_generators_are_exact() -> None:
    record = make("orders").record(7, 5)
    assert record["amount"] == record["price"] * record["quantity"]
    assert isinstance(record["price"], Decimal)
