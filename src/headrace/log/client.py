"""Kafka clients that keep quiet, and what their errors mean to a user."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.errors import EndpointError, HeadraceError, UsageError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, ClusterMetadata

Settings = Mapping[str, str]

PATIENCE = 10.0
"""Seconds that one question to the cluster may take."""

_log = logging.getLogger("headrace.kafka")
_log.addHandler(logging.NullHandler())  # else what librdkafka says would reach the terminal as Python's last resort


class Watch:
    """Hears what a client says about its connections; the last of it is the reason in an error."""

    def __init__(self) -> None:
        self.last = ""
        self.down = self.refused = False

    def __call__(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError as Codes

        self.refused = self.refused or error.code() in (Codes._AUTHENTICATION, Codes.SASL_AUTHENTICATION_FAILED)
        self.down = self.down or error.code() == Codes._ALL_BROKERS_DOWN
        if error.code() != Codes._ALL_BROKERS_DOWN or not self.last:
            self.last = str(error.str())
        _log.debug("client says: %s", error)


def _quiet(client: Settings, watch: Watch, **settings: object) -> dict[str, Any]:
    return {**client, "logger": _log, "error_cb": watch, **{k.replace("_", "."): v for k, v in settings.items()}}


def admin(client: Settings, watch: Watch | None = None) -> AdminClient:
    """A client for questions and orders to the cluster."""
    from confluent_kafka.admin import AdminClient

    return AdminClient(_quiet(client, watch or Watch()))


def producer(client: Settings, watch: Watch, **settings: object) -> Producer:
    """A producer that writes nothing twice, and puts a key where Java clients (and so Spark) put it."""
    from confluent_kafka import Producer

    return Producer(
        _quiet(client, watch, enable_idempotence=True, partitioner="murmur2_random", linger_ms=5, **settings)
    )


def consumer(client: Settings, watch: Watch, **settings: object) -> Consumer:
    """A consumer that commits only what it is told to."""
    from confluent_kafka import Consumer

    return Consumer(_quiet(client, watch, enable_auto_commit=False, **settings))


def metadata(client: Settings, patience: float = PATIENCE, via: AdminClient | None = None) -> ClusterMetadata:
    """What the cluster says about itself; an EndpointError with the reason when it does not answer."""
    from confluent_kafka import KafkaException

    watch = Watch()
    asking = via or admin(client, watch)
    deadline = time.monotonic() + patience
    while True:
        try:
            return asking.list_topics(timeout=1.0)
        except KafkaException as error:
            asking.poll(0)  # lets the watch hear why
            if not _passing(error.args[0]):
                fail(error.args[0], client)
            if watch.refused:
                raise _not_let_in(client, watch.last) from None
            # A broker that was down may be starting, so a refused connection is given a moment, but not all patience.
            late = time.monotonic() > deadline or (watch.down and time.monotonic() > deadline - patience * 0.7)
            if late:
                raise unreachable(client, watch.last or str(error.args[0].str())) from None


def _passing(error: KafkaError) -> bool:
    from confluent_kafka import KafkaError as Codes

    return error.code() in (Codes._TRANSPORT, Codes._TIMED_OUT, Codes._ALL_BROKERS_DOWN, Codes._RESOLVE)


def unreachable(client: Settings, reason: str) -> EndpointError:
    """The error for a cluster that does not answer."""
    return EndpointError(
        f'could not reach Kafka at "{client["bootstrap.servers"]}" [endpoint-unreachable]',
        detail=reason,
        hint="headrace broker status shows the local broker; for another cluster check --bootstrap and [kafka]",
    )


def fail(error: KafkaError, client: Settings, what: str = "") -> NoReturn:
    """Raises what a client's error means, with the address, to whoever must act."""
    raise translate(error, client, what)


def translate(error: KafkaError, client: Settings, what: str = "") -> HeadraceError:
    """What a client's error means: a mistake in the request, or trouble outside."""
    from confluent_kafka import KafkaError as Codes

    asked_wrong = {
        Codes.TOPIC_ALREADY_EXISTS: "headrace topic alter changes it, headrace topic describe shows it",
        Codes.INVALID_PARTITIONS: "the number of partitions can only rise",
        Codes.INVALID_REPLICATION_FACTOR: "there are not as many brokers as copies are asked for",
        Codes.INVALID_CONFIG: "",
        Codes.TOPIC_EXCEPTION: "a topic's name has letters, digits, dots, - and _, at most 249",
        Codes.POLICY_VIOLATION: "",
        Codes.UNKNOWN_TOPIC_OR_PART: "headrace topic list",
        Codes.GROUP_ID_NOT_FOUND: "headrace group list",
        Codes.NON_EMPTY_GROUP: "stop its members first; headrace group describe shows them",
        Codes.INVALID_REQUEST: "",
        Codes.INVALID_RECORD: "a compacted topic takes only records with a key: --key-column, --key or --key-separator",
        Codes._INVALID_ARG: "",
    }
    prefix = f"{what}: " if what else ""
    if error.code() in asked_wrong:
        return UsageError(f"{prefix}{error.str()}", hint=asked_wrong[error.code()])
    if _passing(error):
        return unreachable(client, error.str())
    if error.code() in (Codes._AUTHENTICATION, Codes.SASL_AUTHENTICATION_FAILED, Codes._SSL):
        return _not_let_in(client, error.str())
    return EndpointError(f'{prefix}Kafka at "{client["bootstrap.servers"]}" refused: {error.str()}')


def _not_let_in(client: Settings, reason: str) -> EndpointError:
    return EndpointError(
        f'Kafka at "{client["bootstrap.servers"]}" did not let us in',
        detail=reason,
        hint="check security, username, password and certificates under [kafka]",
    )


def result(future: Any, client: Settings, what: str = "") -> Any:
    """What the cluster answered to one request, or the error it means."""
    from confluent_kafka import KafkaException

    try:
        return future.result(timeout=PATIENCE * 3)
    except KafkaException as error:
        raise translate(error.args[0], client, what) from None
    except TimeoutError:
        raise unreachable(client, "no answer in time") from None


def ask(request: Callable[[], Any], client: Settings, what: str = "") -> Any:
    """What a group's coordinator answered; one that is still waking up is asked again, until patience ends."""
    from confluent_kafka import KafkaError, KafkaException

    waking = (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            answer = request().result(timeout=PATIENCE * 3)
            errors = list(getattr(answer, "errors", ()))
        except KafkaException as error:
            answer, errors = None, [error.args[0]]
        except TimeoutError:
            raise unreachable(client, "no answer in time") from None
        if not errors:
            return answer
        if errors[0].code() not in waking or time.monotonic() > deadline:
            fail(errors[0], client, what)
        time.sleep(0.1)


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that the cluster does not have, with those it has.

    >>> print(unknown("topic", "order", ["orders", "users"]))
    there is no topic "order"
      hint: did you mean "orders"? There are orders, users.
    """
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f'did you mean "{close[0]}"? ' if close else ""
    shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    listed = f"There are {shown}." if names else f"There is no {kind} at all."
    return UsageError(f'there is no {kind} "{name}"', hint=f"{guess}{listed}")


def partitions_of(name: str, client: Settings, cluster: ClusterMetadata | None = None) -> list[int]:
    """The partitions of a topic; a UsageError with the nearest names if there is no such topic."""
    found = (cluster or metadata(client)).topics
    if name not in found:
        raise unknown("topic", name, (t for t in found if not t.startswith("__")))
    return sorted(found[name].partitions)


def earliest() -> Any:
    """The first offset a partition still has."""
    from confluent_kafka.admin import OffsetSpec

    return OffsetSpec.earliest()  # type: ignore[no-untyped-call]


def latest() -> Any:
    """The offset the next record will get."""
    from confluent_kafka.admin import OffsetSpec

    return OffsetSpec.latest()  # type: ignore[no-untyped-call]


def offsets(asking: AdminClient, client: Settings, wanted: Mapping[tuple[str, int], Any]) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition, for specs such as `latest()`; a partition between two leaders is asked again."""
    from confluent_kafka import KafkaException, TopicPartition

    found: dict[tuple[str, int], int] = {}
    deadline = time.monotonic() + PATIENCE
    while left := [place for place in wanted if place not in found]:
        request = {TopicPartition(*place): wanted[place] for place in left}
        for where, future in asking.list_offsets(request, request_timeout=PATIENCE).items():
            try:
                found[where.topic, where.partition] = int(future.result(timeout=PATIENCE * 3).offset)
            except KafkaException as error:
                passing = error.args[0].retriable() or _unsettled(error.args[0])
                if not passing or time.monotonic() > deadline:
                    fail(error.args[0], client, f'topic "{where.topic}"')
            except TimeoutError:
                raise unreachable(client, "no answer in time") from None
        if len(found) < len(wanted):
            time.sleep(0.05)
    return found


def _unsettled(error: KafkaError) -> bool:
    """What a broker says for a moment after a topic is made or a leader has died."""
    from confluent_kafka import KafkaError as Codes

    return error.code() in (
        Codes.NOT_LEADER_FOR_PARTITION,
        Codes.LEADER_NOT_AVAILABLE,
        Codes.UNKNOWN_TOPIC_OR_PART,
        Codes.FENCED_LEADER_EPOCH,
    )


def at(topic: str, partition: int, offset: int | None = None) -> TopicPartition:
    """A place in a topic."""
    from confluent_kafka import TopicPartition

    return TopicPartition(topic, partition) if offset is None else TopicPartition(topic, partition, offset)
