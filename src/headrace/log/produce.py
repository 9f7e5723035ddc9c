"""Writes records to a topic and sees to it that each is confirmed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from headrace.errors import EndpointError, HeadraceError, UsageError
from headrace.log import client as kafka
from headrace.log.records import Record

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

Spread = Literal["key", "round-robin"]


@dataclass(frozen=True, kw_only=True)
class Produced:
    """What came of it: every record counted here is on the log."""

    topic: str
    records: int
    bytes: int
    seconds: float
    partitions: dict[int, int]
    """Records per partition."""

    def as_dict(self) -> dict[str, object]:
        """The result as plain data, for `--json`."""
        return {
            "topic": self.topic,
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "partitions": {str(p): n for p, n in sorted(self.partitions.items())},
        }


class _Confirmed:
    """Counts delivery reports; the first that failed stops everything."""

    def __init__(self) -> None:
        self.records = self.bytes = 0
        self.partitions: dict[int, int] = {}
        self.failed: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed = self.failed or error
            return
        self.records += 1
        self.bytes += len(message)
        where = message.partition() or 0
        self.partitions[where] = self.partitions.get(where, 0) + 1


def produce(
    client: kafka.Settings,
    topic: str,
    records: Iterable[Record],
    *,
    spread: Spread = "key",
    rate: float | None = None,
    count: int | None = None,
    progress: Callable[[int], None] | None = None,
    patience: float = 60.0,
) -> Produced:
    """Writes records in order and returns when the log has confirmed every one; else raises, and says how many it has.

    `spread="key"` puts equal keys into the same partition (the one Java clients choose) and records without a key
    anywhere; `"round-robin"` deals records out evenly, whatever their key. `rate` is records per second.
    """
    if rate is not None and rate <= 0:
        raise UsageError(f"a rate of {rate:g} records per second never ends", hint="--rate 100")
    partitions = kafka.partitions_of(topic, client)
    watch, confirmed = kafka.Watch(), _Confirmed()
    # delivery.timeout.ms bounds the wait for each record, so a cluster that went away ends in an error, not in silence.
    writer = kafka.producer(client, watch, delivery_timeout_ms=round(patience * 1000))
    began = told = time.monotonic()
    sent = 0
    source = iter(records)
    try:
        while count is None or sent < count:  # so that not one record too many is taken
            try:
                record = next(source, None)
            except HeadraceError:  # what came before a bad line is still written
                _drain(writer, confirmed, client, watch, topic, patience, progress)
                raise
            if record is None:
                break
            if rate is not None:
                _keep_pace(writer, began + sent / rate)
            key, value = record
            where: dict[str, Any] = {"partition": partitions[sent % len(partitions)]} if spread == "round-robin" else {}
            _send(writer, topic, key, value, confirmed, where)
            sent += 1
            _check(confirmed, client, watch, topic)
            if progress and time.monotonic() - told > 0.2:
                told = time.monotonic()
                progress(confirmed.records)
    except KeyboardInterrupt:  # the way to end an endless source: what was taken from it is still written
        _drain(writer, confirmed, client, watch, topic, patience, progress)
        raise
    _drain(writer, confirmed, client, watch, topic, patience, progress)
    return Produced(
        topic=topic,
        records=confirmed.records,
        bytes=confirmed.bytes,
        seconds=time.monotonic() - began,
        partitions=confirmed.partitions,
    )


def _send(
    writer: Producer, topic: str, key: bytes | None, value: bytes | None, confirmed: _Confirmed, where: dict[str, Any]
) -> None:
    while True:
        try:
            writer.produce(topic, value=value, key=key, on_delivery=confirmed, **where)
        except BufferError:  # the queue is full: wait for room, lose nothing
            writer.poll(0.1)
            if confirmed.failed:
                return  # the caller sees it and raises
        else:
            writer.poll(0)
            return


def _keep_pace(writer: Producer, due: float) -> None:
    while (wait := due - time.monotonic()) > 0:
        writer.poll(min(wait, 0.1))


def _drain(
    writer: Producer,
    confirmed: _Confirmed,
    client: kafka.Settings,
    watch: kafka.Watch,
    topic: str,
    patience: float,
    progress: Callable[[int], None] | None,
) -> None:
    deadline = time.monotonic() + patience + 5
    while len(writer) and time.monotonic() < deadline:
        writer.flush(0.2)
        _check(confirmed, client, watch, topic)
        if progress:
            progress(confirmed.records)
    _check(confirmed, client, watch, topic)
    if len(writer):
        raise _incomplete(confirmed, client, watch.last or "no confirmation in time", topic)


def _check(confirmed: _Confirmed, client: kafka.Settings, watch: kafka.Watch, topic: str) -> None:
    if confirmed.failed is None:
        return
    from confluent_kafka import KafkaError as Codes

    if confirmed.failed.code() in (Codes._MSG_TIMED_OUT, Codes._TRANSPORT, Codes._TIMED_OUT):
        raise _incomplete(confirmed, client, watch.last or str(confirmed.failed.str()), topic)
    kafka.fail(confirmed.failed, client, f'topic "{topic}" took {confirmed.records} records, then failed')


def _incomplete(confirmed: _Confirmed, client: kafka.Settings, reason: str, topic: str) -> EndpointError:
    return EndpointError(
        f'could not write everything to topic "{topic}" at "{client["bootstrap.servers"]}": '
        f"{confirmed.records} records are confirmed [endpoint-unreachable]",
        detail=reason,
        hint="headrace broker status; records beyond the confirmed ones may or may not be on the log",
    )
