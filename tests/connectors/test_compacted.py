"""A compacted topic of a real Kafka as a table that changes: the latest of each key, deletions too, read again."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from headrace.check import load
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.log import topics
from headrace.run.inline import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = """\
flow: priced
sources:
  orders:
    files: {path: orders, per_batch: 1}
    format: json
    schema: id BIGINT, product STRING
  prices:
    kafka: {topic: TOPIC, metadata: [offset]}
    format: json
    schema: product STRING, price DOUBLE
    table: {refresh: 1 millisecond, key: product, latest_by: kafka_offset}
steps:
  priced:
    from: [orders, prices]
    join: {on: product, kind: left}
sinks:
  out:
    from: priced
    sqlite: {path: out.db, table: priced, key: id}
"""


def produce(broker: str, topic: str, prices: dict[str, float | None]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker})
    for product, price in prices.items():
        value = None if price is None else json.dumps({"product": product, "price": price})
        producer.produce(topic, key=product, value=value)
    assert producer.flush(30) == 0


def test_a_compacted_topic_is_a_table_that_changes(broker: str, spark: SparkSession, tmp_path: Path) -> None:
    topic, client = f"prices-{uuid4().hex[:8]}", {"bootstrap.servers": broker}
    topics.create(client, topic, partitions=2, keeping=topics.Keeping(compact=True))
    (tmp_path / "orders").mkdir()
    (tmp_path / "flow.yaml").write_text(FLOW.replace("TOPIC", topic))
    made = plan(load(tmp_path / "flow.yaml"))
    where = Where(session=spark, streaming=True, home=tmp_path / "home", base=tmp_path, kafka=client)

    def order(number: int) -> None:
        rows = [{"id": number * 10 + i, "product": product} for i, product in enumerate(["tea", "jam", "nothing"])]
        (tmp_path / "orders" / f"{number}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        run_to_end(made, made.queries[0], where, tmp_path / "checkpoint")

    produce(broker, topic, {"tea": 1.0, "jam": 2.0})
    produce(broker, topic, {"tea": 1.5})
    order(1)
    produce(broker, topic, {"jam": 2.5})
    order(2)
    produce(broker, topic, {"tea": None, "jam": None, "never": None})
    produce(broker, topic, {"jam": 3.0})
    order(3)

    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        found = dict(database.execute("SELECT id, price FROM priced").fetchall())
    assert found == {10: 1.5, 11: 2.0, 12: None, 20: 1.5, 21: 2.5, 22: None, 30: None, 31: 3.0, 32: None}
