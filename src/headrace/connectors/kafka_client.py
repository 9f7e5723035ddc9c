"""What the Kafka source and sink ask the cluster themselves, before Spark does, to say in plain words what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from headrace.errors import DataError, EndpointError, FlowError, Problem

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

ANSWER_SECONDS = 15.0
_FINAL = (
    *("RecordTooLargeException", "InvalidTopicException", "TopicAuthorizationException"),
    *("MSG_SIZE_TOO_LARGE", "TOPIC_EXCEPTION", "TOPIC_AUTHORIZATION_FAILED"),
)
"""Refusals that another try would only meet again, as Java's client and librdkafka name them."""
_there: set[tuple[str, str]] = set()
"""Topics that were found; they are not asked for again with every batch."""


def client_settings(bootstrap: str | None, project: Mapping[str, str], step: str) -> dict[str, str]:
    """Client settings; those of the project (and its credentials) are never sent to another cluster."""
    client = {"bootstrap.servers": bootstrap} if bootstrap else dict(project)
    if "bootstrap.servers" not in client:
        raise FlowError(
            Problem(
                code="missing-option",
                message=f'"{step}" (kafka) is not told the address of a Kafka cluster',
                step=step,
                hint="start one with `headrace broker start`, or set kafka.bootstrap in headrace.toml",
            )
        )
    return client


def java_settings(client: Mapping[str, str]) -> dict[str, str]:
    """The settings as Spark's Kafka connector takes them."""
    from headrace.kafka_settings import spark_kafka_options

    return dict(spark_kafka_options(client))


def partitions_of(client: Mapping[str, str], topics: tuple[str, ...], step: str) -> dict[str, int]:
    """How many partitions each topic has."""
    known = _topics(client, step)
    for topic in topics:
        if topic not in known:
            raise _not_there(client, topic, f'which source "{step}" reads', f"headrace topic create {topic}")
    return {topic: len(known[topic].partitions) for topic in topics}


def ends_of(client: Mapping[str, str], topic: str, step: str) -> dict[str, int]:
    """Where each partition of a topic ends; nothing if the topic is not there."""
    return {partition: end for partition, (_, end) in bounds_of(client, topic, step).items()}


def bounds_of(client: Mapping[str, str], topic: str, step: str) -> dict[str, tuple[int, int]]:
    """Where each partition of a topic begins and ends; nothing if the topic is not there."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    known = _topics(client, step)
    if topic not in known:
        return {}
    consumer = Consumer({**client, "group.id": "headrace-ends", "enable.auto.commit": False, "log_level": 0})
    try:
        return {
            str(n): consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=ANSWER_SECONDS)
            for n in known[topic].partitions
        }
    except KafkaException as error:
        raise EndpointError(f'could not ask what topic "{topic}" of "{step}" has', detail=str(error)) from None
    finally:
        consumer.close()


def require_topic(client: Mapping[str, str], topic: str, partitions: int | None, step: str) -> None:
    """Makes sure that a topic is there before the producer waits a minute for it; creates it if it may."""
    identity = client["bootstrap.servers"], topic
    if identity in _there:
        return
    if topic not in _topics(client, step):
        if partitions is None:
            hint = f"headrace topic create {topic}, or say `partitions` and it is created"
            raise _not_there(client, topic, f'which sink "{step}" writes to', hint)
        _create(client, topic, partitions, step)
    _there.add(identity)


def _topics(client: Mapping[str, str], step: str) -> dict[str, Any]:
    from confluent_kafka import KafkaException

    try:
        # All of them: asking for one by name would create it where the cluster allows that.
        return dict(admin(client).list_topics(timeout=ANSWER_SECONDS).topics)
    except KafkaException as error:
        raise EndpointError(
            f'could not reach "{client["bootstrap.servers"]}" for "{step}"',
            detail=str(error.args[0].str()),
            hint="`headrace broker status` says whether the local one runs",
        ) from None


def admin(client: Mapping[str, str]) -> AdminClient:
    """A client for questions, kept: a new one has its first answer after 50 ms, and a start asks half a dozen times."""
    return _admin(frozenset(client.items()))


@cache
def _admin(client: frozenset[tuple[str, str]]) -> AdminClient:
    from confluent_kafka.admin import AdminClient

    return AdminClient({**dict(client), "log_level": "0", "reconnect.backoff.max.ms": "500"})


def _create(client: Mapping[str, str], topic: str, partitions: int, step: str) -> None:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    try:
        for future in admin(client).create_topics([NewTopic(topic, partitions)]).values():
            future.result(ANSWER_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # somebody else was quicker
            raise EndpointError(f'could not create topic "{topic}" for sink "{step}"', detail=str(error)) from None


def _not_there(client: Mapping[str, str], topic: str, whose: str, hint: str) -> EndpointError:
    return EndpointError(f'topic "{topic}", {whose}, does not exist on "{client["bootstrap.servers"]}"', hint=hint)


@contextmanager
def trouble(client: Mapping[str, str], topic: str, step: str) -> Iterator[None]:
    """Says what the producer could not do, and whether another try may help."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        found = re.findall(r"org\.apache\.kafka\.common\.errors\.(\w+): ([^\n]*)", str(error))
        found += re.findall(r'KafkaError\{code=(\w+),val=-?\d+,str="([^"\n]*)"', str(error))
        if not found:
            raise
        kind, said = found[0]
        _there.discard((client["bootstrap.servers"], topic))
        if kind in _FINAL:
            raise DataError(f'topic "{topic}" refused a record of sink "{step}"', detail=said) from error
        raise EndpointError(f'could not write to topic "{topic}" for sink "{step}"', detail=said) from error
