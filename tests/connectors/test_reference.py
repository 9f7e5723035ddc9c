"""Every example of the reference is run: connectors on the real thing, operators on records with known answers."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.catalogue import FORMATS, OPERATORS, SINKS, SOURCES
from headrace.check import check
from headrace.check.wires import wires
from headrace.compile.lower import lower
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.connectors import memory
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.kafka_settings import ClientSettings
from headrace.log import topics
from headrace.model import Flow
from headrace.run.inline import run_to_end
from headrace.testing.cases import Case, Input
from headrace.testing.compare import difference
from headrace.testing.run_cases import outputs
from tests.unit.test_docs import example_around
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]

ANN: Row = {
    "id": 1,
    "user": " Ann",
    "utilisateur": "ann",
    "address": "1 High Street",
    "day": "2026-01-01",
    "price": "2.50",
    "quantity": 60,
    "amount": "150.00",
    "tag": "a",
    "hashtags": ["a", "b"],
    "text": "hello",
    "value": "to be",
    "at": "2026-01-01T00:00:01Z",
    "order_id": 1,
    "product_id": 7,
    "symbol": "X",
}
BOB: Row = {**ANN, "id": 2, "user": "Bob", "amount": "5.00", "text": "hi", "order_id": 3, "at": "2026-01-01T00:00:02Z"}
NOBODY: Row = {**ANN, "id": 3, "user": None, "tag": "b", "amount": "-1.00", "order_id": 2, "at": "2026-01-01T00:00:03Z"}
AGAIN: Row = {**BOB, "id": 4, "order_id": 9, "at": "2026-01-01T00:00:12Z"}
ROWS = (ANN, BOB, NOBODY, AGAIN)

ANSWERS: dict[str, list[Row]] = {
    "aggregate": [
        {"tag": "a", "window_start": "2026-01-01T00:00:00Z", "n": 2, "longest": 5},
        {"tag": "b", "window_start": "2026-01-01T00:00:00Z", "n": 1, "longest": 5},
        {"tag": "a", "window_start": "2026-01-01T00:00:10Z", "n": 1, "longest": 2},
    ],
    "as_of": [{"id": 1, "quote_id": 1}, {"id": 2, "quote_id": 2}, {"id": 3, "quote_id": 3}, {"id": 4, "quote_id": 4}],
    "bolt": [{"user": " Ann", "n": 1}, {"user": "Bob", "n": 1}, {"user": None, "n": 1}, {"user": "Bob", "n": 2}],
    "distinct": [{"user": " Ann"}, {"user": "Bob"}, {"user": None}],
    "drop": [{"id": n, "amount": row["amount"]} for n, row in enumerate(ROWS, 1)],
    "explode": [{"id": n, "tag": tag} for n in range(1, 5) for tag in "ab"],
    "filter": [{"id": 1}],
    "flat_map": [{"word": word} for word in 4 * ["to", "be"]],
    "join": [
        {"id": 1, "payment_id": 1},
        {"id": 2, "payment_id": 3},
        {"id": 3, "payment_id": 2},
        {"id": 4, "payment_id": None},
    ],
    "limit": [{"id": n} for n in range(1, 5)],
    "lookup": [{"id": n, "name": "tea", "weight": 0.5} for n in range(1, 5)],
    "map": [
        {"id": 1, "user": "ann", "total": "150.00"},
        {"id": 2, "user": "bob", "total": "150.00"},
        {"id": 3, "user": None, "total": "150.00"},
        {"id": 4, "user": "bob", "total": "150.00"},
    ],
    "map_batches": [{"id": 1, "user": " Ann"}, {"id": 2, "user": "Bob"}, {"id": 4, "user": "Bob"}],
    "process": [
        {"id": 1, "user": " Ann", "number": 1},
        {"id": 2, "user": "Bob", "number": 1},
        {"id": 3, "user": None, "number": 1},
        {"id": 4, "user": "Bob", "number": 2},
    ],
    "rename": [{"id": n, "user": "ann"} for n in range(1, 5)],
    "select": [{"id": n, "user": row["user"], "total": "150.00"} for n, row in enumerate(ROWS, 1)],
    "split": [{"id": 1}],
    "union": 2 * [{"id": n} for n in range(1, 5)],
    "with": [{"id": n, "total": "150.00"} for n in range(1, 5)],
}


def example(kind: str, name: str, sink: str = "console: {}") -> Flow:
    """The flow around an example, as the unit tests read it."""
    report = check(resolve(flowfile.read(example_around(kind, name).replace("console: {}", sink))))
    assert report.errors == ()
    return report.flow


def test_every_part_is_tried() -> None:
    assert set(ANSWERS) == set(OPERATORS)
    assert set(FED) == set(SOURCES)
    assert set(HELD) == set(SINKS)
    assert set(FILES) | {"raw"} == set(FORMATS)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker: str, postgresql: str) -> Path:
    """The project in which examples run, with what they read in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", postgresql)
    with closing(sqlite3.connect("shop.db")) as database, database:
        database.execute("CREATE TABLE products (id INTEGER, name TEXT, weight REAL)")
        database.execute("INSERT INTO products VALUES (7, 'tea', 0.5)")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.json").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return tmp_path


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_an_operator_gives_its_answer(spark: SparkSession, folder: Path, name: str) -> None:
    flow = example("operator", name)
    given = {source.name: Input(batches=(ROWS,)) for source in flow.sources}
    if name == "rename":
        given = {"orders": Input(batches=(tuple({k: v for k, v in row.items() if k != "user"} for row in ROWS),))}

    found = outputs(flow, given, Case(name="reference", given={}, expect={}, mode="batch"), spark)

    sink = flow.sinks[0]
    assert difference(tuple(ANSWERS[name]), found[sink.name], wires(flow).schemas[sink.inputs[0]]) == []


# -- connectors


def where(spark: SparkSession, home: Path, broker: str) -> Where:
    """In the project's folder, which is the one worked in."""
    return Where(session=spark, streaming=True, home=home, base=Path.cwd(), kafka={"bootstrap.servers": broker})


def send(broker: str, topic: str, values: list[bytes]) -> None:
    from confluent_kafka import Producer

    topics.create(ClientSettings({"bootstrap.servers": broker}), topic, 1)
    producer = Producer({"bootstrap.servers": broker})
    for value in values:
        producer.produce(topic, value=value)
    assert producer.flush(60) == 0


def lines_at(port: int, text: bytes) -> socket.socket:
    """A server of lines, until it is closed."""
    server = socket.create_server(("127.0.0.1", port))

    def serve() -> None:
        try:
            while True:
                caller, _ = server.accept()
                caller.sendall(text)
        except OSError:
            pass  # it was closed

    threading.Thread(target=serve, daemon=True).start()
    return server


FED = {
    "files": [{"id": 1, "amount": "2.50"}],
    "generator": None,
    "kafka": [{"id": 1, "amount": "2.50", "at": "2026-01-01T00:00:00Z"}],
    "postgresql": [{"id": 1, "name": "Ann"}],
    "rate": None,
    "socket": [{"value": "to be"}],
    "spout": None,
    "sqlite": [{"id": 7, "name": "tea", "weight": 0.5}],
    "values": [{"user": "ann", "amount": "3.50"}, {"user": "bob", "amount": "4"}],
}
"""The records each source gives; none for those that make their own."""


@pytest.fixture
def fed(folder: Path, broker: str, postgresql: str) -> Iterator[None]:
    import psycopg

    with psycopg.connect(postgresql) as database:
        database.execute("CREATE TABLE customers (id BIGINT, name TEXT)")
        database.execute("INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob')")
    (folder / "data" / "orders").mkdir()
    (folder / "data" / "orders" / "one.json").write_text('{"id": 1, "amount": 2.50}\n')
    send(broker, "orders", [b'{"id": 1, "amount": 2.50, "at": "2026-01-01T00:00:00Z"}'])
    with closing(lines_at(9999, b"to be\n")):
        yield


@pytest.mark.usefixtures("fed")
def test_every_source_gives_records(spark: SparkSession, folder: Path, broker: str) -> None:
    for name, rows in FED.items():
        flow = example("source", name, "memory: {}")
        memory.tables.pop((flow.name, "end"), None)
        made = plan(flow)
        lowered = lower(made, made.queries[0], where(spark, folder / name, broker))
        query = (
            lowered.trunk.writeStream.foreachBatch(lowered.write)
            .option("checkpointLocation", str(folder / name / "checkpoint"))
            .start()
        )
        try:
            found = eventually(lambda: memory.tables.get(("x", "end"), memory.Table()).rows)
        finally:
            query.stop()
        if rows is not None:
            assert difference(tuple(rows), found, wires(flow).schemas[flow.sinks[0].inputs[0]]) == [], name


def in_topic(broker: str) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker, "group.id": "reference"})
    found = consumer.list_topics("totals", timeout=30).topics["totals"].partitions
    ends = [consumer.get_watermark_offsets(TopicPartition("totals", number), timeout=30) for number in found]
    consumer.close()
    return sum(high - low for low, high in ends)


def in_table(address: str) -> int:
    import psycopg

    with psycopg.connect(address) as connection:
        return int(connection.execute("SELECT count(*) FROM totals").fetchone()[0])  # type: ignore[index]


def in_file(path: str) -> int:
    with closing(sqlite3.connect(path)) as database:
        return int(database.execute("SELECT count(*) FROM totals").fetchone()[0])


def in_lake(path: str) -> int:
    from deltalake import DeltaTable

    return len(DeltaTable(path).to_pyarrow_table())


HELD = {"console": None, "delta": 3, "files": 4, "kafka": None, "memory": 3, "postgresql": 3, "sqlite": 3}
"""How many rows a sink holds: four records, or three users; none where it is seen otherwise."""


def test_every_sink_holds_what_it_was_given(
    spark: SparkSession, folder: Path, broker: str, postgresql: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = 0
    for name in HELD:
        flow = example("sink", name)
        if name == "kafka":
            topics.create(ClientSettings({"bootstrap.servers": broker}), "totals", 1)
            before = in_topic(broker)
        made = plan(flow)
        run_to_end(made, made.queries[0], where(spark, folder / name, broker), folder / name / "checkpoint")

    assert "hello" in capfd.readouterr().out
    held = {
        "console": None,
        "delta": in_lake("out/totals"),
        "files": spark.read.parquet(str(folder / "out" / "orders")).count(),
        "kafka": None,
        "memory": len(memory.tables["x", "preview"].rows),
        "postgresql": in_table(postgresql),
        "sqlite": in_file("out/totals.db"),
    }
    assert held == HELD
    assert in_topic(broker) - before >= 4  # and the marks of a transaction


# -- formats


FILES = {
    "csv": "id;amount\n1;2.5\n",
    "json": '{"id": 1, "amount": 2.5}\n',
    "text": "to be\n",
    "parquet": "",
}


@pytest.mark.parametrize("name", sorted([*FILES, "raw"]))
def test_a_format_is_read(spark: SparkSession, folder: Path, broker: str, name: str) -> None:
    flow = example("format", name, "memory: {}")
    (folder / "data" / "rows.json").unlink()
    if name == "parquet":
        spark.createDataFrame([(1, 2.5)], "id BIGINT, amount DOUBLE").write.parquet(str(folder / "data" / "one"))
        for file in (folder / "data" / "one").glob("*.parquet"):
            file.rename(folder / "data" / file.name)
    elif name == "raw":
        send(broker, "data", [b"\x00\xff"])
    else:
        (folder / "data" / "one").write_text(FILES[name])
    memory.tables.pop((flow.name, "end"), None)
    made = plan(flow)
    run_to_end(made, made.queries[0], where(spark, folder / "home", broker), folder / "checkpoint")

    (row,) = memory.tables[flow.name, "end"].rows
    number: Row = {"id": 1, "amount": 2.5}
    wanted = {"text": {"value": "to be"}, "raw": {"value": bytearray(b"\x00\xff")}}.get(name, number)
    assert {key: row[key] for key in wanted} == wanted
