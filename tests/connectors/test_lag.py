"""A query's offsets are seen by ordinary lag tools."""

from __future__ import annotations

from uuid import uuid4

from headrace.log import groups, topics
from headrace.log.produce import produce
from headrace.run.lag import Group
from tests.waiting import eventually


def test_what_was_read_is_committed_to_a_consumer_group(broker: str) -> None:
    client, topic = {"bootstrap.servers": broker}, f"lag-{uuid4().hex[:8]}"
    topics.create(client, topic, partitions=1)
    produce(client, topic, [(None, b"x")] * 10)
    name = f"headrace-{topic}"
    group = Group(client, name)

    group.note({(topic, 0): 3})
    eventually(lambda: name in [g.name for g in groups.listing(client)], 30)
    group.note({(topic, 0): 5})
    group.note({(topic, 0): 6})
    group.close(30)

    found = groups.describe(client, name)
    assert [(p.topic, p.partition, p.offset, p.lag) for p in found.progress] == [(topic, 0, 6, 4)]
