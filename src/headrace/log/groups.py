"""Consumer groups: who is in them, how far they are, and moving them to another place."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headrace.errors import UsageError
from headrace.log import client as kafka
from headrace.log.position import Position, resolve

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a group is in one partition."""

    topic: str
    partition: int
    offset: int | None
    """The next record to read; None if the group never kept one."""
    begin: int
    end: int
    member: str | None = None

    @property
    def lag(self) -> int:
        """Records still to be read; all there are, if the group never kept an offset here."""
        return max(0, self.end - max(self.begin, self.offset or 0))


@dataclass(frozen=True, kw_only=True)
class Member:
    """One member of a group and the partitions it has."""

    id: str
    client: str
    host: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class Group:
    """A consumer group."""

    name: str
    state: str
    members: tuple[Member, ...] = ()
    progress: tuple[Progress, ...] = ()

    @property
    def lag(self) -> int:
        """Records still to be read, in all partitions."""
        return sum(p.lag for p in self.progress)

    def as_dict(self) -> dict[str, object]:
        """The group as plain data, for `--json`."""
        rows = [{**asdict(p), "lag": p.lag} for p in self.progress]
        return {**asdict(self), "progress": rows, "lag": self.lag}


@dataclass(frozen=True, kw_only=True)
class Move:
    """One partition of a group moved from an offset to another."""

    topic: str
    partition: int
    before: int | None
    after: int


def listing(client: kafka.Settings) -> list[Group]:
    """Every group by name, with its state."""
    kafka.metadata(client)
    asking = kafka.admin(client)
    answer = kafka.ask(lambda: asking.list_consumer_groups(request_timeout=kafka.PATIENCE), client)
    found = (Group(name=g.group_id, state=_state(g.state)) for g in answer.valid)
    return sorted(found, key=lambda group: group.name)


def describe(client: kafka.Settings, name: str) -> Group:
    """One group: state, members, and how far it is in each partition."""
    _known(client, name)
    return _describe(kafka.admin(client), client, name)


def reset(client: kafka.Settings, name: str, topic: str, to: Position, dry_run: bool = False) -> list[Move]:
    """Moves a group within a topic; with `dry_run` only says what would happen. Refused while members are active."""
    partitions = kafka.partitions_of(topic, client)
    asking = kafka.admin(client)
    known = any(group.name == name for group in listing(client))
    group = _describe(asking, client, name) if known else Group(name=name, state="new")
    if group.members:
        who = ", ".join(f"{m.client} at {m.host}" for m in group.members)
        raise UsageError(
            f'group "{name}" has {len(group.members)} active members and would not notice: {who}',
            hint="stop its members first; headrace group describe shows them",
        )
    before = {p.partition: p.offset for p in group.progress if p.topic == topic}
    after = resolve(asking, client, topic, partitions, to)
    moves = [Move(topic=topic, partition=p, before=before.get(p), after=after[p]) for p in partitions]
    if not dry_run:
        from confluent_kafka import ConsumerGroupTopicPartitions

        wanted = ConsumerGroupTopicPartitions(name, [kafka.at(topic, m.partition, m.after) for m in moves])
        changed = kafka.ask(
            lambda: asking.alter_consumer_group_offsets([wanted], request_timeout=kafka.PATIENCE)[name],
            client,
            f'group "{name}"',
        )
        for place in changed.topic_partitions:
            if place.error is not None:
                kafka.fail(place.error, client, f'group "{name}", partition {place.partition}')
    return moves


def _known(client: kafka.Settings, name: str) -> None:
    names = [group.name for group in listing(client)]
    if name not in names:
        raise kafka.unknown("group", name, names)


def _describe(asking: AdminClient, client: kafka.Settings, name: str) -> Group:
    from confluent_kafka import ConsumerGroupTopicPartitions

    what = f'group "{name}"'
    found = kafka.ask(
        lambda: asking.describe_consumer_groups([name], request_timeout=kafka.PATIENCE)[name], client, what
    )
    members = tuple(_member(m) for m in found.members)
    wanted = [ConsumerGroupTopicPartitions(name)]
    offsets = kafka.ask(
        lambda: asking.list_consumer_group_offsets(wanted, request_timeout=kafka.PATIENCE)[name], client, what
    )
    kept: dict[tuple[str, int], int | None] = {
        (p.topic, p.partition): p.offset if p.offset >= 0 else None for p in offsets.topic_partitions
    }
    owners = {place: member.id for member in members for place in member.partitions}
    topics = kafka.metadata(client, via=asking).topics
    # Every partition of a topic counts, also one not yet begun; a deleted topic's offsets no longer do.
    named = sorted({topic for topic, _ in (*kept, *owners)} & set(topics))
    places = [(topic, partition) for topic in named for partition in sorted(topics[topic].partitions)]
    begins = kafka.offsets(asking, client, dict.fromkeys(places, kafka.earliest()))
    ends = kafka.offsets(asking, client, dict.fromkeys(places, kafka.latest()))
    progress = tuple(
        Progress(
            topic=topic,
            partition=partition,
            offset=kept.get((topic, partition)),
            begin=begins[topic, partition],
            end=ends[topic, partition],
            member=owners.get((topic, partition)),
        )
        for topic, partition in places
    )
    return Group(name=name, state=_state(found.state), members=members, progress=progress)


def _member(member: Any) -> Member:
    places = member.assignment.topic_partitions if member.assignment else []
    return Member(
        id=member.member_id,
        client=member.client_id,
        host=member.host.lstrip("/"),
        partitions=tuple(sorted((p.topic, p.partition) for p in places)),
    )


def _state(state: Any) -> str:
    return str(state.name).lower().replace("_", "-")
