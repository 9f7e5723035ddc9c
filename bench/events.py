"""The events of the benchmarks: JSON of about 110 bytes, 10,000 users, 100 pages, one millisecond for every hundred.

The answers that any job must give for them are counted here, in plain Python, while they are sent.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

SCHEMA = "user STRING, page STRING, type STRING, amount DOUBLE, ts TIMESTAMP"
WIDE = [f"{kind.lower()}_{number}" for number in range(10) for kind in ("DOUBLE", "STRING")]
"""Columns that wide events have besides, and no work asks for: half numbers, half text; then a list and a struct."""
WIDE_SCHEMA = ", ".join([SCHEMA, *(f"{name} {name.split('_')[0].upper()}" for name in WIDE)])
NESTED_SCHEMA = f"{SCHEMA}, tags ARRAY<STRING>, device STRUCT<system: STRING, version: INT>"
VARIANT_SCHEMA = f"{SCHEMA}, tags VARIANT"
_VALUES: dict[str, object] = {name: 1234.5678 if name.startswith("double") else "a short text" for name in WIDE}
_VALUES |= {"tags": ["a", "b"], "device": {"system": "linux", "version": 6}}
_MORE = f",{json.dumps(_VALUES)[1:-1]}"
USERS = 10_000
PAGES = 100
WINDOW = 10_000
"""Milliseconds of the windows of W1."""
_BEGIN = 1_700_000_000_000
_TYPES = ("view", "click", "buy")


class Event(NamedTuple):
    """One event, and its milliseconds since 1970."""

    user: str
    page: str
    type: str
    amount: float
    at: int
    text: str


def mark(user: str, page: str, amount: float) -> int:
    """A number for a record of W2 that no other is likely to have.

    Not Python's `hash` of a tuple: its last item only adds to it, so that sums do not tell two that were exchanged.
    """
    return int.from_bytes(blake2b(f"{user} {page} {float(amount)}".encode(), digest_size=8).digest())


@dataclass(kw_only=True)
class Expected:
    """The right answers: W1's count and sum of each window and page, W2's records by number and marks."""

    events: int = 0
    windows: dict[tuple[int, str], tuple[int, float]] = field(default_factory=dict)
    buys: int = 0
    marks: int = 0
    """Sum of the marks of W2's records, in whatever order they come."""

    def add(self, event: Event) -> None:
        self.events += 1
        if event.type != "view":
            key = event.at // WINDOW * WINDOW, event.page
            n, total = self.windows.get(key, (0, 0.0))
            self.windows[key] = n + 1, total + event.amount
        if event.type == "buy":
            self.buys += 1
            self.marks += mark(event.user, event.page, event.amount)


def events(count: int, users: int = USERS, pace: int = 100, wide: bool = False) -> Iterator[Event]:
    """The same events every time, `pace` of them in a millisecond; with as many users as events, each has one."""
    draw = random.Random(7)
    second, shown, more = 0, "", _MORE if wide else ""
    for number in range(count):
        # Drawing from many users would miss a third of them, so there each comes in turn, spread by a factor.
        user = f"u{draw.randrange(users) if users <= USERS else number * 2654435761 % users}"
        at = _BEGIN + number // pace
        if at // 1000 != second:
            second = at // 1000
            shown = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        page, kind = f"p{draw.randrange(PAGES)}", _TYPES[draw.randrange(3)]
        amount = f"{draw.random() * 100:.2f}"
        text = (
            f'{{"id":{number},"user":"{user}","page":"{page}",'
            f'"type":"{kind}","amount":{amount},"ts":"{shown}.{at % 1000:03d}Z"{more}}}'
        )
        yield Event(user, page, kind, float(amount), at, text)


def load_events(
    client: Mapping[str, str], topic: str, count: int, *, users: int = USERS, pace: int = 100, wide: bool = False
) -> Expected:
    """Fills a topic of two partitions with them, keyed by user; what is to come of them."""
    from confluent_kafka import Producer

    from headrace.log import topics

    topics.create(client, topic, partitions=2)
    producer = Producer({**client, "linger.ms": 50, "batch.size": 1_000_000, "compression.type": "lz4"})
    expected = Expected()
    for number, event in enumerate(events(count, users, pace, wide)):
        expected.add(event)
        while True:
            try:
                producer.produce(topic, key=event.user, value=event.text)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
        if number % 1_000_000 == 0:
            print(f"{number:,} of {count:,} events sent", file=sys.stderr)
    producer.flush()
    print(f"{count:,} events sent", file=sys.stderr)
    return expected
