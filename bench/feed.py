"""Sends events at a steady rate from a process of its own: `python -m bench.feed BOOTSTRAP TOPIC TIMES RATE…`.

With several rates it goes over to the next one at each SIGUSR1. Event number `x` has key `k<x % 100>`; every fourth is
a view, the others are buys. For each, the moment at which it was due and the moment at which it was sent go to the file
TIMES, as pairs of 64-bit floats, a few times a second; all of them are there once the process has ended. A latency
counts from the moment that was due: one that counts from the sending leaves out the wait of events that a busy machine
made this process send late.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

KEYS = 100
_PAUSE = 0.0005
_NOTED = 0.25


def is_kept(number: int) -> bool:
    """Whether the stateless work passes an event on."""
    return number % 4 != 0


def main(bootstrap: str, topic: str, times: Path, rates: Sequence[float]) -> None:
    """Sends until it is asked to end."""
    from confluent_kafka import Producer

    ending, faster = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    signal.signal(signal.SIGUSR1, lambda *_: faster.set())
    coming = iter(rates)
    rate = next(coming)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "queue.buffering.max.messages": 1_000_000})
    begun = time.time()
    before, number, noted, fresh = 0, 0, begun, array("d")
    with times.open("wb", buffering=0) as file:
        while not ending.is_set():
            if faster.is_set():
                faster.clear()
                begun, before, rate = time.time(), number, next(coming)
            for _ in range(before + int((time.time() - begun) * rate) - number):
                due = begun + (number - before + 1) / rate
                key = f"k{number % KEYS}"
                kind = "buy" if is_kept(number) else "view"
                producer.produce(topic, key=key, value=f'{{"k":"{key}","type":"{kind}","x":{number},"t":{due:.6f}}}')
                fresh.extend((due, time.time()))
                number += 1
            producer.poll(0)
            if time.time() - noted > _NOTED:
                file.write(fresh.tobytes())
                noted, fresh = time.time(), array("d")
            ending.wait(_PAUSE)
        producer.flush(30)
        file.write(fresh.tobytes())


class Noted(NamedTuple):
    """When each event was due, and when it was sent."""

    due: array[float]
    sent: array[float]


def noted(times: Path) -> Noted:
    """The events as far as they are noted."""
    written = times.read_bytes()
    both = array("d", written[: len(written) // 16 * 16])
    return Noted(both[::2], both[1::2])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), [float(rate) for rate in sys.argv[4:]])
