"""Kafka's own client properties that an author may set on a source or sink: those that tune it.

What guarantees hang on (acknowledgement, transactions, offsets) is not for the author to set, and how a cluster is
reached, with its secrets, is the project's to say. So the list is of what may be set, and a slip of the pen is found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import BeforeValidator

from headrace.errors import nearest
from headrace.options import refuse

_EITHER = frozenset(
    "client.dns.lookup client.rack connections.max.idle.ms metadata.max.age.ms receive.buffer.bytes send.buffer.bytes "
    "reconnect.backoff.ms reconnect.backoff.max.ms request.timeout.ms retry.backoff.ms retry.backoff.max.ms "
    "socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms".split()
)
READING = _EITHER | frozenset(
    "check.crcs default.api.timeout.ms fetch.max.bytes fetch.max.wait.ms fetch.min.bytes heartbeat.interval.ms "
    "max.partition.fetch.bytes max.poll.interval.ms max.poll.records session.timeout.ms".split()
)
WRITING = _EITHER | frozenset(
    "batch.size buffer.memory compression.type compression.gzip.level compression.lz4.level compression.zstd.level "
    "delivery.timeout.ms linger.ms max.block.ms max.request.size metadata.max.idle.ms "
    "partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.ignore.keys "
    "transaction.timeout.ms".split()
)
_GUARANTEES = frozenset(
    "acks enable.idempotence transactional.id retries max.in.flight.requests.per.connection isolation.level group.id "
    "group.instance.id group.protocol auto.offset.reset enable.auto.commit auto.commit.interval.ms "
    "allow.auto.create.topics interceptor.classes partitioner.class partition.assignment.strategy "
    "key.serializer value.serializer key.deserializer value.deserializer".split()
)
_REACHING = ("bootstrap.servers", "security.", "sasl.", "ssl.")


def _taking(known: frozenset[str]) -> Callable[[object], object]:
    def check(given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        return {str(name): _text(str(name), value, known) for name, value in given.items()}

    return check


def _text(name: str, value: object, known: frozenset[str]) -> str:
    if name.startswith(_REACHING):
        hint = "under [kafka] in headrace.toml, with secrets from the environment or a file"
        raise refuse("bad-option", f'"{name}" says how the cluster is reached, which is the project\'s to say', hint)
    if name in _GUARANTEES:
        raise refuse("bad-option", f'"{name}" cannot be set: what the flow promises hangs on it')
    if name not in known:
        raise refuse(
            "unknown-option", f'"{name}" is no property of Kafka\'s that may be set here', nearest(name, known)
        )
    if not isinstance(value, str | int | float) or not str(value).strip():
        raise refuse("bad-option", f'"{name}" is {value!r}, not a text or a number')
    return str(value).lower() if isinstance(value, bool) else str(value)


ReadProperties = Annotated[dict[str, str], BeforeValidator(_taking(READING))]
WriteProperties = Annotated[dict[str, str], BeforeValidator(_taking(WRITING))]
"""Values by Kafka's own names, as text."""
