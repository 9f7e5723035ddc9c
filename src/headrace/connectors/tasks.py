"""What the tasks of a batch are called: the same in every attempt, so that what one has written is known to the next.

Spark numbers the tasks that read a topic in the order in which it happens to know the topic's partitions. A batch
repeated by another driver may have them the other way round. So such a task is called after what it reads.
Tasks that read anything else, or what was shuffled, are called by their number. What each of them has is then a matter
of how many there are; a run keeps to the number it began with (`Record.parallelism`; for shuffles the checkpoint does).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF_A_TOPIC = ("KafkaBatchInputPartition", "KafkaSourceRDDPartition")
"""What Spark calls a part of a topic in a stream and in a batch."""


def task_names(frame: DataFrame) -> list[str]:
    """What the tasks of an action on a frame are called, by their number."""
    partitions = frame._jdf.queryExecution().toRdd().partitions()
    return unlike(_read_by(partition) or str(number) for number, partition in enumerate(partitions))


def unlike(names: Iterable[str]) -> list[str]:
    """The names, with a number where one comes again.

    >>> unlike(["orders-1", "orders-0", "orders-1"])
    ['orders-1', 'orders-0', 'orders-1.1']
    """
    seen: Counter[str] = Counter()
    made = []
    for name in names:
        made.append(f"{name}.{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return made


def _read_by(partition: Any) -> str | None:
    """The partition of a topic that a task reads; None: it reads something else, whose order is always the same."""
    kind = partition.getClass().getSimpleName()
    if kind == "UnionPartition":
        return _read_by(partition.parentPartition())
    if kind == "DataSourceRDDPartition":
        given = partition.inputPartition()
        return _read_by(given.get()) if given.isDefined() else None
    if kind in _OF_A_TOPIC:
        return str(partition.offsetRange().topicPartition().toString())
    return None
