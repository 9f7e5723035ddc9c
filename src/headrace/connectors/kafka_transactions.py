"""Exactly-once into Kafka: rows and a mark of their batch in one transaction, per task.

Spark's own Kafka writer may write a repeated batch twice. Here each task of a batch writes with a transactional
producer whose id is the writer's name and the task's, and in the same transaction a mark, "batch N is written". A task
that finds its mark skips. A micro-batch is repeated with the same rows in tasks of the same names (`tasks.py`), so
the mark means the same rows. The tasks' part is in Java (`headrace.KafkaOnce`), where the rows are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.connectors.base import Written
from headrace.connectors.kafka_client import ANSWER_SECONDS, admin, java_settings, require_topic
from headrace.connectors.tasks import task_names
from headrace.errors import EndpointError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MARKS = "headrace.marks"
"""The topic whose offsets are the marks, and the first part of the names of their groups; it stays empty."""
_writers: dict[str, dict[str, str]] = {}
"""Which process wrote for each task of a writer last."""


def write_once(
    frame: DataFrame,
    client: Mapping[str, str],
    topic: str,
    batch_id: int,
    who: str,
    step: str,
    tuned: Mapping[str, str] | None = None,
) -> Written:
    """Writes the frame's `key`, `value` and `headers` as one batch, once, however often it is repeated.

    `tuned` is how the producer is set.
    """
    require_topic(client, MARKS, 1, step)
    java: Any = frame.sparkSession._jvm
    settings = {name.removeprefix("kafka."): value for name, value in java_settings(client).items()}
    known = _writers.setdefault(who, {})
    said = java.headrace.KafkaOnce.write(
        frame._jdf, MARKS, settings, dict(tuned or {}), topic, who, batch_id, task_names(frame), known
    )
    told = list(said)
    known |= dict(zip(told[::4], told[1::4], strict=True))
    return Written(written=sum(map(int, told[2::4])), skipped=sum(map(int, told[3::4])))


def newest_mark(client: Mapping[str, str], who: str, step: str) -> int | None:
    """The newest batch that a task of a writer has marked; None: none, or so long ago that Kafka has forgotten it."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

    asking = admin(client)
    try:
        listed = asking.list_consumer_groups(request_timeout=ANSWER_SECONDS).result()
        if listed.errors:  # of a broker that may have some of them
            raise listed.errors[0]
        groups = [g.group_id for g in listed.valid if g.group_id.startswith(f"{MARKS}/{who}/")]
        wanted = [ConsumerGroupTopicPartitions(group, [TopicPartition(MARKS, 0)]) for group in groups]
        asked = [asking.list_consumer_group_offsets([one], request_timeout=ANSWER_SECONDS) for one in wanted]
        told = [future.result().topic_partitions for one in asked for future in one.values()]
    except KafkaException as error:
        raise EndpointError(
            f'could not ask "{client["bootstrap.servers"]}" what sink "{step}" has written', detail=str(error)
        ) from None
    return max((place.offset - 1 for places in told for place in places if place.offset > 0), default=None)
