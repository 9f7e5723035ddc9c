"""Topics: create, list, describe, alter, delete."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.errors import EndpointError, UsageError
from headrace.log import client as kafka

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ClusterMetadata


@dataclass(frozen=True, kw_only=True)
class Partition:
    """One partition: who leads it, who has copies, and which offsets it has."""

    id: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A topic; `settings` are those that were chosen for it, not the cluster's defaults."""

    name: str
    partitions: tuple[Partition, ...]
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def replication(self) -> int:
        """How many copies there are."""
        return min((len(p.replicas) for p in self.partitions), default=0)

    @property
    def records(self) -> int:
        """How many offsets it spans; with compaction or transactions there are fewer records."""
        return sum(p.end - p.begin for p in self.partitions)

    def as_dict(self) -> dict[str, object]:
        """The topic as plain data, for `--json`."""
        whole = asdict(self)
        return {**whole, "replication": self.replication, "records": self.records, "settings": dict(self.settings)}


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """How long a topic keeps what it has; None leaves a point as it is."""

    retention: timedelta | None = None
    """Older records go; zero or less keeps them for ever."""
    retention_size: int | None = None
    """Bytes per partition; the oldest go beyond it. Below zero: no bound."""
    compact: bool | None = None
    """Keep the last record of each key; False: delete by age and size only."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Kafka's own settings, by their names."""

    def config(self) -> dict[str, str]:
        """The same in Kafka's words; with both compaction and a bound, both apply."""
        found: dict[str, str] = {}
        bounded = (self.retention or timedelta()) > timedelta() or (
            self.retention_size is not None and self.retention_size >= 0
        )
        if self.retention is not None:
            ms = round(self.retention.total_seconds() * 1000)
            found["retention.ms"] = str(ms if ms > 0 else -1)
        if self.retention_size is not None:
            found["retention.bytes"] = str(max(self.retention_size, -1))
        if self.compact is not None:
            found["cleanup.policy"] = ("compact,delete" if bounded else "compact") if self.compact else "delete"
        return found | dict(self.settings)


def create(
    client: kafka.Settings,
    name: str,
    partitions: int = 1,
    replication: int | None = None,
    keeping: Keeping | None = None,
) -> None:
    """Creates a topic and waits until every partition has a leader; as many copies as the cluster does by default."""
    from confluent_kafka.admin import NewTopic

    kafka.metadata(client)
    asking = kafka.admin(client)
    wanted = NewTopic(
        name,
        num_partitions=partitions,
        replication_factor=-1 if replication is None else replication,
        config=(keeping or Keeping()).config(),
    )
    for future in asking.create_topics([wanted], request_timeout=kafka.PATIENCE).values():
        kafka.result(future, client, f'topic "{name}"')
    _await(asking, client, f'topic "{name}" to have leaders', lambda cluster: _led(cluster, name, partitions))


def listing(client: kafka.Settings, internal: bool = False) -> list[Topic]:
    """Every topic, by name; Kafka's own only if asked for."""
    cluster = kafka.metadata(client)
    names = sorted(name for name in cluster.topics if internal or not name.startswith("__"))
    return _topics(client, cluster, names)


def describe(client: kafka.Settings, name: str) -> Topic:
    """One topic with offsets and the settings chosen for it."""
    from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

    cluster = kafka.metadata(client)
    kafka.partitions_of(name, client, cluster)
    (topic,) = _topics(client, cluster, [name])
    asking = kafka.admin(client)
    resource = ConfigResource(ResourceType.TOPIC, name)
    (future,) = asking.describe_configs([resource], request_timeout=kafka.PATIENCE).values()
    chosen = {
        entry.name: entry.value
        for entry in kafka.result(future, client, f'topic "{name}"').values()
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value and not entry.is_sensitive
    }
    return Topic(name=name, partitions=topic.partitions, settings=dict(sorted(chosen.items())))


def alter(client: kafka.Settings, name: str, partitions: int | None = None, keeping: Keeping | None = None) -> None:
    """Raises the number of partitions, changes how long records are kept, or both."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType

    has = len(kafka.partitions_of(name, client))
    if partitions is not None and partitions < has:
        raise UsageError(
            f'topic "{name}" has {has} partitions and cannot go down to {partitions}',
            hint="create another topic and copy what is needed",
        )
    asking = kafka.admin(client)
    config = (keeping or Keeping()).config()
    if config:
        entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in config.items()]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        (future,) = asking.incremental_alter_configs([resource], request_timeout=kafka.PATIENCE).values()
        kafka.result(future, client, f'topic "{name}"')
    if partitions is not None and partitions > has:
        (future,) = asking.create_partitions([NewPartitions(name, partitions)], request_timeout=kafka.PATIENCE).values()
        kafka.result(future, client, f'topic "{name}"')
        _await(asking, client, f'topic "{name}" to have leaders', lambda cluster: _led(cluster, name, partitions))


def delete(client: kafka.Settings, names: Iterable[str]) -> None:
    """Deletes topics with everything in them, all or, if one does not exist, none; waits until they are gone."""
    wanted = list(dict.fromkeys(names))
    cluster = kafka.metadata(client)
    for name in wanted:
        kafka.partitions_of(name, client, cluster)
    asking = kafka.admin(client)
    for name, future in asking.delete_topics(wanted, request_timeout=kafka.PATIENCE).items():
        kafka.result(future, client, f'topic "{name}"')
    _await(asking, client, "topics to be gone", lambda found: not set(wanted) & set(found.topics))


def _topics(client: kafka.Settings, cluster: ClusterMetadata, names: list[str]) -> list[Topic]:

    asking = kafka.admin(client)
    # A partition without a leader cannot be asked; its offsets are shown as 0 and its leader as -1.
    led = [(n, p.id) for n in names for p in cluster.topics[n].partitions.values() if p.leader >= 0]
    begins = kafka.offsets(asking, client, dict.fromkeys(led, kafka.earliest()))
    ends = kafka.offsets(asking, client, dict.fromkeys(led, kafka.latest()))
    return [
        Topic(
            name=name,
            partitions=tuple(
                Partition(
                    id=p.id,
                    leader=p.leader,
                    replicas=tuple(p.replicas),
                    in_sync=tuple(p.isrs),
                    begin=begins.get((name, p.id), 0),
                    end=ends.get((name, p.id), 0),
                )
                for _, p in sorted(cluster.topics[name].partitions.items())
            ),
        )
        for name in names
    ]


def _led(cluster: ClusterMetadata, name: str, partitions: int) -> bool:
    found = cluster.topics.get(name)
    return found is not None and sum(p.leader >= 0 for p in found.partitions.values()) >= partitions


def _await(asking: AdminClient, client: kafka.Settings, what: str, so: Callable[[ClusterMetadata], bool]) -> None:
    """The cluster agrees first and acts a moment later; the next command must find it done."""
    deadline = time.monotonic() + kafka.PATIENCE * 3
    while not so(kafka.metadata(client, via=asking)):
        if time.monotonic() > deadline:
            raise EndpointError(
                f'Kafka at "{client["bootstrap.servers"]}" took too long for {what}', hint="headrace topic list"
            )
        time.sleep(0.02)
