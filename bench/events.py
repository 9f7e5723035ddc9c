"""The events of the benchmarks: JSON of about 110 bytes, 10,000 users, 100 pages, one millisecond for every hundred."""

from __future__ import annotations

import random
import sys
import time

SCHEMA = "user STRING, page STRING, type STRING, amount DOUBLE, ts TIMESTAMP"
USERS = 10_000


def load_events(client: dict[str, str], topic: str, events: int) -> None:
    """Fills a topic of two partitions with them, keyed by user; the same events in every run."""
    from confluent_kafka import Producer

    from headrace.log import topics

    topics.create(client, topic, partitions=2)
    producer = Producer({**client, "linger.ms": 50, "batch.size": 1_000_000, "compression.type": "lz4"})
    draw = random.Random(7)
    begin = 1_700_000_000_000
    for number in range(events):
        user = f"u{draw.randrange(USERS)}"
        at = begin + number // 100
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // 1000))
        value = (
            f'{{"id":{number},"user":"{user}","page":"p{draw.randrange(100)}",'
            f'"type":"{("view", "click", "buy")[draw.randrange(3)]}","amount":{draw.random() * 100:.2f},'
            f'"ts":"{moment}.{at % 1000:03d}Z"}}'
        )
        while True:
            try:
                producer.produce(topic, key=user, value=value)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
        if number % 500_000 == 0:
            print(f"{number:,} of {events:,} events sent", file=sys.stderr)
    producer.flush()
    print(f"{events:,} events sent", file=sys.stderr)
