"""Exactly-once into a real Kafka: repeated batches, killed tasks, and a zombie that is shut out."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from headrace.connectors import kafka_transactions as transactions
from headrace.connectors.kafka_transactions import MARKS, write_once
from headrace.log import topics
from headrace.log.consume import consume

if TYPE_CHECKING:
    from confluent_kafka import Producer
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def topic(broker: str) -> str:
    name = f"once-{uuid4().hex[:8]}"
    topics.create({"bootstrap.servers": broker}, name, partitions=3)
    return name


def rows(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.range(first, end, numPartitions=2).selectExpr(
        "CAST(id AS STRING) AS key", "CAST(concat('v', id) AS BINARY) AS value"
    )


def found(broker: str, topic: str) -> list[str]:
    """What a consumer of committed records sees."""
    client = {"bootstrap.servers": broker}
    return sorted(m.value.decode() for m in consume(client, topic, until_end=True) if m.value is not None)


def values(first: int, end: int) -> list[str]:
    return sorted(f"v{i}" for i in range(first, end))


def plain_producer(broker: str) -> Producer:
    from confluent_kafka import Producer

    return Producer({"bootstrap.servers": broker})


def older_producer(broker: str, who: str) -> Producer:
    """As a task of an older driver has it, in a transaction."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker, "transactional.id": f"{who}/0", "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


def test_a_repeated_batch_is_written_once(broker: str, topic: str, spark: SparkSession) -> None:
    client, who = {"bootstrap.servers": broker}, f"w-{uuid4().hex}"
    assert write_once(rows(spark, 0, 100), client, topic, 0, who, "out").written == 100
    again = write_once(rows(spark, 0, 100), client, topic, 0, who, "out")
    assert (again.written, again.skipped) == (0, 100)
    assert write_once(rows(spark, 100, 150), client, topic, 1, who, "out").written == 50
    assert found(broker, topic) == values(0, 150)


def test_after_a_restart_the_marks_tell_what_is_written(broker: str, topic: str, spark: SparkSession) -> None:
    client, who = {"bootstrap.servers": broker}, f"w-{uuid4().hex}"
    write_once(rows(spark, 0, 40), client, topic, 7, who, "out")
    transactions._writers.clear()  # as a new driver: it knows of no worker, so producers are made anew
    again = write_once(rows(spark, 0, 40), client, topic, 7, who, "out")
    assert (again.written, again.skipped) == (0, 40)
    assert write_once(rows(spark, 40, 50), client, topic, 8, who, "out").written == 10
    assert found(broker, topic) == values(0, 50)


def test_a_batch_half_written_is_completed_though_the_partitions_come_in_another_order(
    broker: str, topic: str, spark: SparkSession
) -> None:
    """As after a crash between two tasks, when the next driver knows the source's partitions the other way round."""
    client, who, given = {"bootstrap.servers": broker}, f"w-{uuid4().hex}", f"given-{uuid4().hex[:8]}"
    topics.create(client, given, partitions=2)
    producer = plain_producer(broker)
    for number in range(50):
        producer.produce(given, key=str(number), value=f"v{number}", partition=number % 2)
    producer.flush()

    def read(partition: int) -> DataFrame:
        settings = {"kafka.bootstrap.servers": broker, "assign": f'{{"{given}": [{partition}]}}'}
        return spark.read.format("kafka").options(**settings).load().select("key", "value")

    assert write_once(read(0), client, topic, 4, who, "out").written == 25
    transactions._writers.clear()
    again = write_once(read(1).unionAll(read(0)), client, topic, 4, who, "out")
    assert (again.written, again.skipped) == (25, 25)
    assert found(broker, topic) == values(0, 50)


def test_a_task_killed_within_its_transaction_leaves_nothing(broker: str, topic: str, spark: SparkSession) -> None:
    client, who = {"bootstrap.servers": broker}, f"w-{uuid4().hex}"
    dying = older_producer(broker, who)
    dying.produce(topic, value="half")
    dying.flush(10)

    assert write_once(rows(spark, 0, 10).coalesce(1), client, topic, 0, who, "out").written == 10
    assert found(broker, topic) == values(0, 10)


def test_a_zombie_can_neither_commit_nor_write_twice(broker: str, topic: str, spark: SparkSession) -> None:
    from confluent_kafka import KafkaException

    client, who = {"bootstrap.servers": broker}, f"w-{uuid4().hex}"
    zombie = older_producer(broker, who)
    zombie.produce(topic, value="v0")
    write_once(rows(spark, 0, 10).coalesce(1), client, topic, 3, who, "out")
    with pytest.raises(KafkaException):
        zombie.commit_transaction(30)
    assert found(broker, topic) == values(0, 10)


def test_a_mark_is_found_though_another_writer_has_a_transaction_open(
    broker: str, topic: str, spark: SparkSession
) -> None:
    """As after a crash in which one task had committed and another had not: what is open must not hide the mark."""
    client, who = {"bootstrap.servers": broker}, f"w-{uuid4().hex}"
    other = older_producer(broker, f"w-{uuid4().hex}")
    other.produce(topic, value="open")
    other.flush(10)
    write_once(rows(spark, 0, 10).coalesce(1), client, topic, 3, who, "out")
    transactions._writers.clear()
    assert write_once(rows(spark, 0, 10).coalesce(1), client, topic, 3, who, "out").skipped == 10
    other.abort_transaction(30)
    assert found(broker, topic) == values(0, 10)


def test_a_partition_without_rows_needs_no_transaction(broker: str, topic: str, spark: SparkSession) -> None:
    client, who = {"bootstrap.servers": broker}, f"w-{uuid4().hex}"
    done = write_once(rows(spark, 0, 0), client, topic, 0, who, "out")
    assert (done.written, done.skipped) == (0, 0)
    assert f"{MARKS}/{who}/0" not in groups_of(broker)


def test_keys_headers_and_empty_values_arrive(broker: str, topic: str, spark: SparkSession) -> None:
    client, who = {"bootstrap.servers": broker}, f"w-{uuid4().hex}"
    frame = spark.sql(
        "SELECT * FROM VALUES ('a', CAST('x' AS BINARY), array(struct('h' AS key, CAST('1' AS BINARY) AS value))), "
        "(NULL, NULL, NULL) AS t(key, value, headers)"
    )
    assert write_once(frame.coalesce(1), client, topic, 0, who, "out").written == 2
    got = {(m.key, m.value, tuple(m.headers or ())) for m in consume(client, topic, until_end=True)}
    assert got == {(b"a", b"x", (("h", b"1"),)), (None, None, ())}


def groups_of(broker: str) -> list[str]:
    from confluent_kafka.admin import AdminClient

    listed = AdminClient({"bootstrap.servers": broker}).list_consumer_groups(request_timeout=20).result()
    return [group.group_id for group in listed.valid]
