"""The log against a real Kafka: topics, producing, consuming, groups, replication (rows A1 to A4 and A6)."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from headrace.errors import EndpointError, UsageError
from headrace.log import broker as local
from headrace.log import groups, state, topics
from headrace.log.consume import Consumed, consume
from headrace.log.position import BEGINNING, END, Position
from headrace.log.produce import produce
from headrace.log.records import Record
from headrace.project import Project, kafka_client
from tests.brokers import running_cluster
from tests.waiting import eventually

Client = dict[str, str]
_numbers = count()


@pytest.fixture
def client(broker: str) -> Client:
    return {"bootstrap.servers": broker}


@pytest.fixture
def topic(client: Client) -> str:
    name = f"log-{os.getpid()}-{next(_numbers)}"
    topics.create(client, name, partitions=3)
    return name


def numbered(n: int, start: int = 0) -> Iterator[Record]:
    return ((f"k{i % 7}".encode(), str(i).encode()) for i in range(start, start + n))


def values(records: Iterator[Consumed]) -> list[int]:
    return [int(r.value or b"") for r in records]


# --- topics


def test_a_topic_is_created_described_altered_and_deleted(client: Client) -> None:
    from datetime import timedelta

    name = f"orders-{os.getpid()}"
    keeping = topics.Keeping(retention=timedelta(hours=1), retention_size=10_000_000)
    topics.create(client, name, partitions=2, keeping=keeping)
    found = topics.describe(client, name)
    assert [(p.id, p.leader, p.replicas, p.begin, p.end) for p in found.partitions] == [
        (0, 1, (1,), 0, 0),
        (1, 1, (1,), 0, 0),
    ]
    assert found.settings["retention.ms"] == "3600000"
    assert found.settings["retention.bytes"] == "10000000"

    topics.alter(client, name, partitions=4, keeping=topics.Keeping(retention=timedelta(days=1), compact=True))
    changed = topics.describe(client, name)
    assert len(changed.partitions) == 4
    assert changed.settings["retention.ms"] == "86400000"
    assert changed.settings["cleanup.policy"] == "compact,delete"
    assert changed.settings["retention.bytes"] == "10000000", "what is not named stays"
    assert name in [t.name for t in topics.listing(client)]

    topics.delete(client, [name])
    assert name not in [t.name for t in topics.listing(client)]


def test_an_unknown_topic_is_refused_with_the_nearest_name(client: Client, topic: str) -> None:
    with pytest.raises(UsageError) as caught:
        topics.describe(client, topic + "x")
    assert f'did you mean "{topic}"?' in caught.value.hint


def test_fewer_partitions_are_refused(client: Client, topic: str) -> None:
    with pytest.raises(UsageError, match="cannot go down to 2"):
        topics.alter(client, topic, partitions=2)


def test_creating_a_topic_twice_is_misuse(client: Client, topic: str) -> None:
    with pytest.raises(UsageError, match="already exists"):
        topics.create(client, topic)


def test_deleting_an_unknown_topic_deletes_none(client: Client, topic: str) -> None:
    with pytest.raises(UsageError):
        topics.delete(client, [topic, "no-such-topic"])
    assert topics.describe(client, topic).name == topic


def test_more_copies_than_brokers_are_refused(client: Client) -> None:
    with pytest.raises(UsageError):
        topics.create(client, f"copies-{os.getpid()}", replication=3)


# --- produce and consume


def test_everything_produced_is_consumed_in_order_per_partition(client: Client, topic: str) -> None:
    done = produce(client, topic, numbered(20_000))
    assert done.records == 20_000
    assert sum(done.partitions.values()) == 20_000
    records = list(consume(client, topic, until_end=True))
    assert sorted(values(iter(records))) == list(range(20_000))
    by_key: dict[bytes, set[int]] = {}
    for record in records:
        by_key.setdefault(record.key or b"", set()).add(record.partition)
    assert all(len(places) == 1 for places in by_key.values()), "equal keys share a partition"
    for partition in range(3):
        order = [int(r.value or b"") for r in records if r.partition == partition]
        assert order == sorted(order)


def test_keys_are_placed_where_java_clients_place_them(client: Client, topic: str) -> None:
    # Spark writes with the Java client, so a flow and `headrace produce` must agree on where a key lives.
    produce(client, topic, ((key.encode(), b"x") for key in ("alice", "bob", "carol", "dave")))
    placed = {(r.key or b"").decode(): r.partition for r in consume(client, topic, until_end=True)}
    assert placed == {key: (murmur2(key.encode()) & 0x7FFFFFFF) % 3 for key in placed}
    assert len(placed) == 4


def murmur2(data: bytes) -> int:
    """Kafka's partition hash, written down from its specification."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    for i in range(0, len(data) - len(data) % 4, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ (k >> 24)) * m & mask)
    rest = data[len(data) - len(data) % 4 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)


def test_round_robin_deals_records_out_evenly(client: Client, topic: str) -> None:
    done = produce(client, topic, numbered(300), spread="round-robin")
    assert done.partitions == {0: 100, 1: 100, 2: 100}


def test_a_rate_is_kept_and_a_count_ends_it(client: Client, topic: str) -> None:
    taken: list[int] = []

    def endless() -> Iterator[Record]:
        for i in count():
            taken.append(i)
            yield None, str(i).encode()

    done = produce(client, topic, endless(), rate=200, count=100)
    assert done.records == 100
    assert len(taken) == 100, "not one record too many is taken from the source"
    assert done.seconds >= 99 / 200


def test_a_full_queue_loses_nothing(client: Client, topic: str) -> None:
    small = {**client, "queue.buffering.max.messages": "100"}
    assert produce(small, topic, numbered(5_000)).records == 5_000
    assert len(list(consume(client, topic, until_end=True))) == 5_000


def test_bytes_nulls_and_times_come_back_as_they_were(client: Client, topic: str) -> None:
    before = time.time() * 1000
    produce(client, topic, [(b"\xff\x00", b"\x00\x01\xfe"), (b"gone", None)], spread="round-robin")
    found = sorted(consume(client, topic, until_end=True), key=lambda r: r.partition)
    assert [(r.key, r.value) for r in found] == [(b"\xff\x00", b"\x00\x01\xfe"), (b"gone", None)]
    assert all(r.timestamp and before - 1000 < r.timestamp < time.time() * 1000 + 1000 for r in found)


def test_reading_begins_at_an_offset_a_time_or_the_end(client: Client, topic: str) -> None:
    produce(client, topic, numbered(30), spread="round-robin")
    last = max(r.timestamp or 0 for r in consume(client, topic, until_end=True))
    eventually(lambda: time.time() * 1000 > last + 2)
    middle = round(time.time() * 1000)
    produce(client, topic, numbered(30, start=30), spread="round-robin")
    from_offset = values(consume(client, topic, start=Position("offset", 15), until_end=True))
    assert sorted(from_offset) == list(range(45, 60))
    assert sorted(values(consume(client, topic, start=Position("time", middle), until_end=True))) == list(range(30, 60))
    assert list(consume(client, topic, start=END, until_end=True)) == []
    assert values(consume(client, topic, partition=1, until_end=True, maximum=2)) == [1, 4]


def test_an_empty_topic_ends_at_once(client: Client, topic: str) -> None:
    assert list(consume(client, topic, until_end=True)) == []
    assert list(consume(client, topic, until_end=True, group=f"{topic}-empty")) == []


def test_only_committed_transactions_are_read(client: Client, topic: str) -> None:
    from confluent_kafka import Producer

    writer = Producer({**client, "transactional.id": topic})
    writer.init_transactions(10)
    for value, commits in ((b"1", True), (b"2", False), (b"3", True)):
        writer.begin_transaction()
        writer.produce(topic, value=value, partition=0)
        writer.flush(10)
        (writer.commit_transaction if commits else writer.abort_transaction)(10)
    assert values(consume(client, topic, until_end=True)) == [1, 3]


def test_a_broker_that_is_away_is_named_with_a_hint() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(EndpointError) as caught:
            topics.listing({"bootstrap.servers": address})
    assert address in caught.value.message
    assert "refused" in caught.value.detail.lower()
    assert "headrace broker status" in caught.value.hint


# --- groups


def test_members_of_a_group_share_and_groups_each_get_everything(client: Client, topic: str) -> None:
    produce(client, topic, numbered(3_000), spread="round-robin")
    shares: list[list[int]] = [[], []]
    ready = threading.Barrier(2)

    def member(share: list[int]) -> None:
        ready.wait()
        for record in consume(client, topic, group=f"{topic}-team"):
            share.append(int(record.value or b""))
            if record.value == b"-1":
                return

    threads = [threading.Thread(target=member, args=(share,), daemon=True) for share in shares]
    for thread in threads:
        thread.start()

    def both_work() -> bool:
        found = groups.describe(client, f"{topic}-team")
        return len([m for m in found.members if m.partitions]) == 2 and found.state == "stable"

    eventually(lambda: f"{topic}-team" in [g.name for g in groups.listing(client)])
    eventually(both_work)
    produce(client, topic, numbered(3_000, start=3_000), spread="round-robin")
    eventually(lambda: len(set(shares[0]) | set(shares[1])) == 6_000)
    eventually(lambda: groups.describe(client, f"{topic}-team").lag == 0)

    with pytest.raises(UsageError, match="active members"):
        groups.reset(client, f"{topic}-team", topic, BEGINNING)

    late = [set(share) & set(range(3_000, 6_000)) for share in shares]
    assert all(late), "both members got a part"
    assert not late[0] & late[1], "and no record went to both"
    assert len(list(consume(client, topic, group=f"{topic}-other", until_end=True))) == 6_000

    produce(client, topic, [(None, b"-1")] * 3, spread="round-robin")  # one for each partition ends every member
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def test_a_group_continues_where_it_left_off_and_shows_its_lag(client: Client, topic: str) -> None:
    group = f"{topic}-reader"
    produce(client, topic, numbered(90), spread="round-robin")
    first = values(consume(client, topic, group=group, maximum=40))
    found = groups.describe(client, group)
    assert found.lag == 50
    assert sum(p.offset or 0 for p in found.progress) == 40
    assert sum(p.end for p in found.progress) == 90
    rest = values(consume(client, topic, group=group, until_end=True))
    assert sorted(first + rest) == list(range(90))
    assert groups.describe(client, group).lag == 0
    assert groups.describe(client, group).state == "empty"


def test_a_record_that_was_not_finished_is_read_again(client: Client, topic: str) -> None:
    produce(client, topic, [(None, b"0"), (None, b"1")], spread="round-robin")
    reading = consume(client, topic, group=f"{topic}-careful")
    next(reading)
    reading.close()  # whoever took the record never came back for the next one
    again = values(consume(client, topic, group=f"{topic}-careful", until_end=True))
    assert sorted(again) == [0, 1]


def test_a_group_is_moved_and_a_dry_run_moves_nothing(client: Client, topic: str) -> None:
    group = f"{topic}-moved"
    produce(client, topic, numbered(30), spread="round-robin")
    assert len(list(consume(client, topic, group=group, until_end=True))) == 30
    planned = groups.reset(client, group, topic, Position("offset", 4), dry_run=True)
    assert [(m.partition, m.before, m.after) for m in planned] == [(0, 10, 4), (1, 10, 4), (2, 10, 4)]
    assert groups.describe(client, group).lag == 0
    groups.reset(client, group, topic, Position("offset", 4))
    assert groups.describe(client, group).lag == 18
    groups.reset(client, group, topic, BEGINNING)
    assert len(list(consume(client, topic, group=group, until_end=True))) == 30
    groups.reset(client, group, topic, END)
    assert list(consume(client, topic, group=group, until_end=True)) == []


def test_an_unknown_group_is_refused(client: Client) -> None:
    with pytest.raises(UsageError, match='there is no group "nobody"'):
        groups.describe(client, "nobody")


# --- the broker itself


def test_a_broker_survives_kill_and_restart_with_its_data(tmp_path: Path) -> None:
    project = Project(root=tmp_path)
    with running_cluster(tmp_path) as info:
        client = kafka_client(project)
        assert client["bootstrap.servers"] == info.bootstrap
        assert local.start(project).already
        topics.create(client, "kept", partitions=1)
        produce(client, "kept", numbered(100))
        process = info.nodes[0].process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        eventually(lambda: not process.alive())
        with pytest.raises(EndpointError, match="does not run"):
            kafka_client(project)
        again = local.start(project)
        assert not again.already
        assert again.bootstrap == info.bootstrap, "the address stays, so clients find it again"
        assert values(consume(client, "kept", until_end=True)) == list(range(100))
        with pytest.raises(UsageError, match="cannot become 3"):
            local.start(project, 3)
        local.stop(project)
        with socket.socket() as taken:  # another program takes the port while the broker is down
            taken.bind(("127.0.0.1", info.nodes[0].port))
            taken.listen()
            moved = local.start(project)
            assert moved.bootstrap != info.bootstrap
            assert values(consume(kafka_client(project), "kept", until_end=True)) == list(range(100))
    final = moved.nodes[0].process
    assert final is not None
    assert not final.alive()
    assert state.read(project.home) is None, "deleted with its data"


def test_json_of_a_topic_and_a_group_is_plain_data(client: Client, topic: str) -> None:
    produce(client, topic, numbered(3))
    list(consume(client, topic, group=f"{topic}-g", until_end=True))
    assert json.loads(json.dumps(topics.describe(client, topic).as_dict()))["records"] == 3
    assert json.loads(json.dumps(groups.describe(client, f"{topic}-g").as_dict()))["lag"] == 0
