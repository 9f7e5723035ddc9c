"""Sends events at a steady rate from a process of its own: `python -m bench.feed BOOTSTRAP TOPIC RATE TIMES`.

Event number `x` has key `k<x % 100>`; every fourth is a view, the others are buys. When asked to end, it writes
the moment at which each was sent to the file TIMES, as 64-bit floats, and so says how many there were.
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


def is_kept(number: int) -> bool:
    """Whether the stateless work passes an event on."""
    return number % 4 != 0


def main(bootstrap: str, topic: str, rate: float, times: Path) -> None:
    """Sends until it is asked to end."""
    from confluent_kafka import Producer

    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "queue.buffering.max.messages": 1_000_000})
    sent = array("d")
    begun = time.time()
    while not ending.is_set():
        for _ in range(int((time.time() - begun) * rate) - len(sent)):
            number, now = len(sent), time.time()
            key = f"k{number % KEYS}"
            kind = "buy" if is_kept(number) else "view"
            producer.produce(topic, key=key, value=f'{{"k":"{key}","type":"{kind}","x":{number},"t":{now:.6f}}}')
            sent.append(now)
        producer.poll(0)
        ending.wait(_PAUSE)
    producer.flush(30)
    draft = times.with_suffix(".draft")
    draft.write_bytes(sent.tobytes())
    draft.replace(times)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]))
