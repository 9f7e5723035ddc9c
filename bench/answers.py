"""Is the answer right? Reads what a job wrote and sets it beside what had to come; a wrong answer voids its number."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from bench.events import WINDOW, Expected, mark

GRACE = 5_000
"""Milliseconds that W1's windows wait for what is late; the last ones stay open where nothing says that all is read."""


def written(client: Mapping[str, str], topic: str) -> Iterator[dict[str, Any]]:
    """Every record of a topic, committed ones only, with its key as `_key`."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {**client, "group.id": "bench-answers", "enable.auto.commit": False, "isolation.level": "read_committed"}
        | {"enable.partition.eof": True}
    )
    try:
        found = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in found])
        ends: set[int] = set()
        while len(ends) < len(found):
            for message in consumer.consume(10_000, timeout=1.0):
                if message.error():
                    ends.add(message.partition() or 0)  # the only error here is the end of a partition
                elif text := message.value():
                    record = json.loads(text)
                    if record.get("diff", 1) > 0:  # Pathway also writes that an older result is void
                        yield {**record, "_key": (message.key() or b"").decode()}
    finally:
        consumer.close()


def moment(value: int | str) -> int:
    """Milliseconds since 1970 of a time, however a job writes it; without a zone it is UTC.

    >>> moment("2023-11-14T22:13:20") == moment("2023-11-14T22:13:20.000Z") == moment(1700000000000)
    True
    """
    if isinstance(value, int):
        return value
    found = datetime.fromisoformat(value.replace(" ", "T"))
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def wrong_windows(expected: Expected, records: Iterator[dict[str, Any]]) -> str:
    """What is wrong with an answer of W1; nothing if it is right."""
    found: dict[tuple[int, str], tuple[int, float]] = {}
    for record in records:
        key = moment(record["window_start"]), record["page"]
        if key in found:
            return f"window {key} came twice"
        found[key] = record["n"], record["total"]
    end = max(start for start, _ in expected.windows) + WINDOW
    closed = {key for key in expected.windows if key[0] + WINDOW + GRACE < end}
    missing = closed - found.keys()
    if missing:
        return f"{len(missing)} of {len(closed)} closed windows are missing"
    for key, (n, total) in found.items():
        wanted = expected.windows.get(key)
        if wanted is None or wanted[0] != n or abs(wanted[1] - total) > 0.01:
            return f"window {key} has {n} and {total}, not {wanted}"
    return ""


def wrong_records(expected: Expected, records: Iterator[dict[str, Any]]) -> str:
    """What is wrong with an answer of W2; nothing if it is right: the same records, each under its user."""
    count, marks = 0, 0
    for record in records:
        if record["_key"] != record["user"]:
            return f"a record of {record['user']} has the key {record['_key']!r}"
        count += 1
        marks += mark(record["user"], record["page"], record["amount"])
    if count != expected.buys:
        return f"{count:,} records, not {expected.buys:,}"
    return "" if marks == expected.marks else f"{count:,} records, as many as there should be, but others"
