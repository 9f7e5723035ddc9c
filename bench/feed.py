"""Sends events at a steady rate from a process of its own: `python -m bench.feed BOOTSTRAP TOPIC RATE TIMES`.

Event number `x` has key `k<x % 100>`; every fourth is a view, the others are buys. The moment at which each was sent
goes to the file TIMES, as 64-bit floats, a few times a second; all of them are there once the process has ended.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from array import array
from pathlib import Path

KEYS = 100
_PAUSE = 0.0005
_NOTED = 0.25


def is_kept(number: int) -> bool:
    """Whether the stateless work passes an event on."""
    return number % 4 != 0


def main(bootstrap: str, topic: str, rate: float, times: Path) -> None:
    """Sends until it is asked to end."""
    from confluent_kafka import Producer

    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "queue.buffering.max.messages": 1_000_000})
    begun = time.time()
    number, noted, fresh = 0, begun, array("d")
    with times.open("wb", buffering=0) as file:
        while not ending.is_set():
            for _ in range(int((time.time() - begun) * rate) - number):
                now = time.time()
                key = f"k{number % KEYS}"
                kind = "buy" if is_kept(number) else "view"
                producer.produce(topic, key=key, value=f'{{"k":"{key}","type":"{kind}","x":{number},"t":{now:.6f}}}')
                fresh.append(now)
                number += 1
            producer.poll(0)
            if time.time() - noted > _NOTED:
                file.write(fresh.tobytes())
                noted, fresh = time.time(), array("d")
            ending.wait(_PAUSE)
        producer.flush(30)
        file.write(fresh.tobytes())


def sent(times: Path) -> array[float]:
    """When each event was sent, as far as it is noted."""
    noted = times.read_bytes()
    return array("d", noted[: len(noted) // 8 * 8])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]))
