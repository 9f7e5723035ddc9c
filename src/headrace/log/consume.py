"""Reads records from a topic, on its own or as a member of a consumer group."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.errors import UsageError
from headrace.log import client as kafka
from headrace.log.position import BEGINNING, END, Position, resolve

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition


@dataclass(frozen=True, kw_only=True)
class Consumed:
    """One record and where it stands."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    """Milliseconds since 1970."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def consume(
    client: kafka.Settings,
    topic: str,
    *,
    start: Position | None = None,
    group: str | None = None,
    maximum: int | None = None,
    until_end: bool = False,
    partition: int | None = None,
    idle: float | None = None,
) -> Generator[Consumed, None, None]:
    """Records of a topic, from `start` (else the beginning) for ever, up to `maximum`, or to the end as it is now.

    With a group the members share the partitions, begin where the group left off, and a record counts as read once
    the next one is asked for. `idle` ends the reading after so many seconds without a record.
    """
    if maximum is not None and maximum <= 0:
        return
    partitions = kafka.partitions_of(topic, client)
    if partition is not None:
        if partition not in partitions:
            raise UsageError(f'topic "{topic}" has no partition {partition}', hint=f"it has 0 to {partitions[-1]}")
        partitions = [partition]
    if group is None:
        yield from _alone(client, topic, partitions, start or BEGINNING, maximum, until_end, idle)
    else:
        if start not in (None, BEGINNING, END) or partition is not None:
            raise UsageError(
                "a group begins where it left off", hint=f"headrace group reset {group} --topic {topic} --to … moves it"
            )
        yield from _in_group(client, topic, start or BEGINNING, group, maximum, until_end, idle)


def _alone(
    client: kafka.Settings,
    topic: str,
    partitions: list[int],
    start: Position,
    maximum: int | None,
    until_end: bool,
    idle: float | None,
) -> Generator[Consumed, None, None]:
    asking = kafka.admin(client)
    begins = resolve(asking, client, topic, partitions, start)
    ends = resolve(asking, client, topic, partitions, END) if until_end else {}
    left = {p for p in partitions if begins[p] < ends[p]} if until_end else set(partitions)
    if not left:
        return
    with _reader(client, "headrace-consume", start) as (reader, watch):
        reader.assign([kafka.at(topic, p, begins[p]) for p in sorted(left)])
        given = 0
        for message in _messages(reader, client, watch, idle):
            where = int(message.partition() or 0)
            if message.error() is not None:  # the end of a partition, as it is now
                if until_end:
                    left.discard(where)
            else:
                offset = int(message.offset() or 0)
                if not until_end or offset < ends[where]:
                    yield _record(message)
                    given += 1
                if until_end and offset >= ends[where] - 1:
                    left.discard(where)
            if (until_end and not left) or given == maximum:
                return


def _in_group(
    client: kafka.Settings,
    topic: str,
    start: Position,
    group: str,
    maximum: int | None,
    until_end: bool,
    idle: float | None,
) -> Generator[Consumed, None, None]:
    with _reader(client, group, start) as (reader, watch):
        mine: set[int] = set()
        ended: set[int] = set()
        assigned = False

        def gained(_: Consumer, places: list[TopicPartition]) -> None:
            nonlocal assigned
            assigned = True
            mine.clear()
            mine.update(place.partition for place in places)
            ended.clear()

        def lost(_: Consumer, places: list[TopicPartition]) -> None:
            mine.difference_update(place.partition for place in places)

        reader.subscribe([topic], on_assign=gained, on_revoke=lost, on_lost=lost)
        given = 0
        kept, behind = time.monotonic(), False
        try:
            for message in _messages(reader, client, watch, idle, quiet=True):
                if message is not None and message.error() is not None:
                    ended.add(int(message.partition() or 0))
                elif message is not None:
                    ended.discard(int(message.partition() or 0))
                    yield _record(message)
                    given += 1
                    # Only now, since whoever takes the records has come back for more: a crash repeats, never skips.
                    reader.store_offsets(message)
                    behind = True
                if behind and time.monotonic() - kept > 1:  # also when nothing comes, or the lag would look stuck
                    kept, behind = time.monotonic(), False
                    _commit(reader, client)
                if given == maximum or (until_end and assigned and mine <= ended):
                    break
        finally:  # also on Ctrl-C: what was taken is kept
            _commit(reader, client)


@contextmanager
def _reader(client: kafka.Settings, group: str, start: Position) -> Iterator[tuple[Consumer, kafka.Watch]]:
    watch = kafka.Watch()
    reader = kafka.consumer(
        client,
        watch,
        group_id=group,
        enable_auto_offset_store=False,
        auto_offset_reset="latest" if start == END else "earliest",
        enable_partition_eof=True,
        isolation_level="read_committed",
        session_timeout_ms=10000,
        heartbeat_interval_ms=1000,
        fetch_wait_max_ms=100,
    )
    try:
        yield reader, watch
    finally:
        reader.close()


def _messages(
    reader: Consumer, client: kafka.Settings, watch: kafka.Watch, idle: float | None, quiet: bool = False
) -> Iterator[Any]:
    """Messages and ends of partitions (their error is set); with `quiet` also None, when there is nothing to read."""
    from confluent_kafka import KafkaError, KafkaException

    last = time.monotonic()
    try:
        while True:
            message: Message | None = reader.poll(0.1)
            if message is None:
                if idle is not None and time.monotonic() - last > idle:
                    return
                if quiet:
                    yield None
                continue
            error = message.error()
            if error is None:
                last = time.monotonic()
            elif error.code() != KafkaError._PARTITION_EOF:
                if error.retriable() or error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
                    continue  # the client reconnects by itself; a broker that is killed and comes back is no end
                kafka.fail(error, client)
            yield message
    except KafkaException as error:
        raise kafka.translate(error.args[0], client) from None


def _commit(reader: Consumer, client: kafka.Settings) -> None:
    from confluent_kafka import KafkaError, KafkaException

    try:
        reader.commit(asynchronous=False)
    except KafkaException as error:
        # _NO_OFFSET: nothing new to keep. The others: the group gave our partitions away; they are read again there.
        passing = (
            KafkaError._NO_OFFSET,
            KafkaError.ILLEGAL_GENERATION,
            KafkaError.REBALANCE_IN_PROGRESS,
            KafkaError.UNKNOWN_MEMBER_ID,
        )
        if error.args[0].code() not in passing:
            raise kafka.translate(error.args[0], client) from None


def _record(message: Message) -> Consumed:
    kind, stamp = message.timestamp()
    headers: Any = message.headers() or ()  # may also be a dict when writing; when reading it is a list of pairs
    return Consumed(
        topic=str(message.topic()),
        partition=int(message.partition() or 0),
        offset=int(message.offset() or 0),
        timestamp=int(stamp) if kind else None,
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=tuple((str(name), _bytes(value)) for name, value in headers),
    )


def _bytes(value: object) -> bytes | None:
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else None
