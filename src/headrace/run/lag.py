"""Lag for everyone: what a query has read is also committed to a Kafka consumer group.

Spark keeps its offsets in the checkpoint, where ordinary lag tools do not look. After each batch they are noted here
and committed by a thread of its own, the newest only. Nothing is read from the group: a run resumes from its
checkpoint, and goes on if a commit fails.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.compile.plan import Plan, Query
from headrace.model import Source

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Offsets = dict[tuple[str, int], int]
_PAUSE = 0.5
"""Seconds before a commit is tried again, as when the group's coordinator is still loading."""


def group_name(flow: str, query: str) -> str:
    """The consumer group that shows how far a query is.

    >>> group_name("word-count", "counts")
    'headrace-word-count-counts'
    """
    return f"headrace-{flow}-{query}"


def offsets_of(progress: Mapping[str, Any], topics: frozenset[str]) -> Offsets:
    """How far each partition of these topics is read, from the fields of a "progress" event.

    >>> offsets_of({"sources": [{"to": {"tweets": {"0": 5, "1": 7}}}]}, frozenset({"tweets"}))
    {('tweets', 0): 5, ('tweets', 1): 7}
    """
    return {
        (topic, int(partition)): int(at)
        for source in progress.get("sources", ())
        if isinstance(source.get("to"), Mapping)
        for topic, partitions in source["to"].items()
        if topic in topics and isinstance(partitions, Mapping)
        for partition, at in partitions.items()
    }


class Group:
    """One consumer group on one cluster, moved forward as batches are committed."""

    def __init__(self, client: Mapping[str, str], name: str) -> None:
        self._client, self._name = dict(client), name
        self._noted: Offsets = {}
        self._more, self._closed, self._said = threading.Condition(), False, ""
        self._thread = threading.Thread(target=self._commit, name=f"group {name}", daemon=True)
        self._thread.start()

    def note(self, offsets: Offsets) -> None:
        """Takes note of new offsets and returns at once."""
        with self._more:
            self._noted |= offsets
            self._more.notify()

    def close(self, within: float = 5.0) -> None:
        """Commits what is noted, then ends."""
        with self._more:
            self._closed = True
            self._more.notify()
        self._thread.join(within)

    def _commit(self) -> None:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({**self._client, "log_level": 0})
        while True:
            with self._more:
                self._more.wait_for(lambda: self._noted or self._closed)
                noted, self._noted = self._noted, {}
                if not noted:
                    return
            said = _alter(admin, self._name, noted)
            if not said:
                self._said = ""
                continue
            # Lag is shown wrong until a commit succeeds; the run itself is not touched.
            if said != self._said:
                sys.stderr.write(f"WARN group {self._name}: offsets were not committed: {said}\n")
                self._said = said
            with self._more:
                self._noted = noted | self._noted
                if self._closed:
                    return
                self._more.wait_for(lambda: self._closed, _PAUSE)


def _alter(admin: AdminClient, group: str, offsets: Offsets) -> str:
    """Moves a group to these offsets; says what went wrong, or nothing."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

    partitions = [TopicPartition(topic, partition, at) for (topic, partition), at in offsets.items()]
    try:
        asked = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)])
        answers = [future.result(10) for future in asked.values()]
    except (KafkaException, TimeoutError) as error:
        return str(error)
    return "; ".join(str(p.error) for answer in answers for p in answer.topic_partitions if p.error)


class Groups:
    """The groups of a run: one for each query and each cluster it reads from."""

    def __init__(self, plan: Plan, kafka: Mapping[str, str]) -> None:
        self._groups: dict[str, list[tuple[frozenset[str], Group]]] = {}
        for query in plan.queries:
            for client, topics in _clusters(plan, query, kafka):
                group = Group(client, group_name(plan.flow.name, query.name))
                self._groups.setdefault(query.name, []).append((topics, group))

    def note(self, progress: Mapping[str, Any]) -> None:
        """Takes note of a "progress" event."""
        for topics, group in self._groups.get(progress["query"], ()):
            offsets = offsets_of(progress, topics)
            if offsets:
                group.note(offsets)

    def close(self) -> None:
        """Commits what is noted and ends."""
        for groups in self._groups.values():
            for _, group in groups:
                group.close()


def _clusters(plan: Plan, query: Query, kafka: Mapping[str, str]) -> list[tuple[dict[str, str], frozenset[str]]]:
    """How to reach each cluster a query reads from, and which topics it reads there."""
    found: dict[str, tuple[dict[str, str], set[str]]] = {}
    for name in query.sources:
        source = plan.flow[name]
        if not isinstance(source, Source) or source.connector != "kafka":
            continue
        own = source.options.bootstrap
        client = {"bootstrap.servers": own} if own else dict(kafka)
        found.setdefault(client["bootstrap.servers"], (client, set()))[1].update(source.options.topic)
    return [(client, frozenset(topics)) for client, topics in found.values()]
