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
from headrace.connectors.kafka_client import java_settings, require_topic
from headrace.connectors.tasks import task_names

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
