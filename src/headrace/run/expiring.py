"""A warning before Kafka deletes what a run has not read yet.

Once in a while, where a run is behind, the age of the oldest record it has not read is held against the topic's
retention time. Nothing is asked while the run keeps up. What is deleted because a topic has grown too large
(`retention.bytes`) is not foreseen: how soon that is depends on what others write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.compile.plan import Plan
from headrace.model import Source
from headrace.observe import events
from headrace.run.home import Home
from headrace.run.lost import client_of

EVERY = 60.0
"""Seconds from one look to the next."""
NEAR = 0.2
"""The part of the retention that is left when it is time to warn."""
_PATIENCE = 10.0


@dataclass(frozen=True, kw_only=True)
class Left:
    """How long the oldest record of a partition that is not read yet will stay."""

    topic: str
    partition: int
    offset: int
    seconds: float


def near(age: float, retention: float) -> bool:
    """Whether a record of that age, in seconds, will be deleted soon.

    >>> near(79, 100), near(80, 100), near(5, -1)
    (False, True, False)
    """
    return retention > 0 and age >= retention * (1 - NEAR)


class Expiring:
    """Looks in a thread of its own, so that no batch waits for it."""

    def __init__(self, plan: Plan, home: Home, kafka: Mapping[str, str], every: float = EVERY) -> None:
        self._plan, self._home, self._kafka, self._every = plan, home, kafka, every
        self._looked: dict[str, float] = {}
        self._thread: threading.Thread | None = None

    def note(self, measured: Mapping[str, Any]) -> None:
        """A batch was committed."""
        query, now = str(measured["query"]), time.monotonic()
        busy = self._thread is not None and self._thread.is_alive()
        if not measured.get("lag") or busy or now - self._looked.get(query, -self._every) < self._every:
            return
        self._looked[query] = now
        self._thread = threading.Thread(target=self._look, args=(measured,), name="expiring", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Waits for a look that is under way."""
        if self._thread is not None:
            self._thread.join(_PATIENCE)

    def _look(self, measured: Mapping[str, Any]) -> None:
        from confluent_kafka import KafkaException

        for source in self._plan.flow.sources:
            if source.connector != "kafka" or source.table is not None:
                continue
            try:
                found = expiring(client_of(source, self._kafka), _behind(source, measured))
            except KafkaException:
                continue  # whoever needs Kafka will say that it is gone; this is only a warning
            for left in found:
                events.append(
                    self._home.events,
                    "expiring",
                    query=measured["query"],
                    source=source.name,
                    topic=left.topic,
                    partition=left.partition,
                    offset=left.offset,
                    seconds=round(left.seconds),
                )


def _behind(source: Source, measured: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Topic, partition and the next offset to be read."""
    return [
        (topic, int(partition), int(at))
        for read in measured.get("sources", ())
        if isinstance(read.get("to"), Mapping) and read.get("lag")
        for topic, partitions in read["to"].items()
        if topic in source.options.topic and isinstance(partitions, Mapping)
        for partition, at in partitions.items()
    ]


def expiring(client: Mapping[str, str], behind: Iterable[tuple[str, int, int]]) -> list[Left]:
    """Those of the records at these offsets that will be deleted soon; asks Kafka."""
    from confluent_kafka import Consumer, TopicPartition

    found: list[Left] = []
    consumer = Consumer({**client, "group.id": "headrace-expiring", "enable.auto.commit": False, "log_level": 0})
    try:
        kept: dict[str, float] = {}
        for topic, partition, offset in behind:
            if topic not in kept:
                kept[topic] = _retention(client, topic)
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_PATIENCE)
            if kept[topic] <= 0 or offset >= high:
                continue
            consumer.assign([TopicPartition(topic, partition, max(low, offset))])
            message = consumer.poll(_PATIENCE)
            if message is None or message.error() is not None:
                continue
            age = time.time() - message.timestamp()[1] / 1000
            if near(age, kept[topic]):
                found.append(Left(topic=topic, partition=partition, offset=offset, seconds=kept[topic] - age))
    finally:
        consumer.close()
    return found


def _retention(client: Mapping[str, str], topic: str) -> float:
    """For how long a topic keeps records, in seconds; -1: for ever."""
    from confluent_kafka.admin import AdminClient, ConfigResource

    resource = ConfigResource("topic", topic)
    admin = AdminClient({**client, "log_level": 0})  # held on to: its answers come only as long as it lives
    settings = admin.describe_configs([resource])[resource].result(_PATIENCE)
    if "delete" not in settings["cleanup.policy"].value:
        return -1
    return int(settings["retention.ms"].value) / 1000
