"""W3: from the moment an event is sent to the moment its result can be read, at a steady rate.

    python -m bench w3 [--rates 1000 10000] [--works stateless keyed] [--seconds 60] [--only …] [--goal latency]

Producer, Kafka, the job, Kafka, consumer, all on this machine. *stateless*: buys kept, three fields written. *keyed*: a
running count per key, 100 keys. Events are sent from the start, so there is a backlog when the first result comes;
what is measured begins `--warm` seconds after it is worked off, or a minute later for a system that never does.

Every event is measured, not every result: a keyed result with count 7 answers all events of that key up to the
seventh, so a system that writes only now and then does not look quicker than it is. When the sending ends, each key's
last count, or the number of records kept, must be right, else there is no number. A run is made to cross several
checkpoints by `--seconds`; the maximum shows what they cost.
"""

from __future__ import annotations

import json
import math
import shutil
import signal
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import feed, report, results
from bench.feed import KEYS, is_kept
from bench.measure import histogram, tail
from bench.place import Place, place
from bench.processes import reported, started
from bench.systems import ROOT, SYSTEMS, System, flow_arguments, job_for

LIVE = tuple(system for system in SYSTEMS if system.live)
TOPIC = "live"
FIRST = 180.0
"""Seconds until the first result must be there."""
CAUGHT_UP = 1.0
"""Seconds behind at which the backlog of the start counts as worked off."""
BACKLOG = 60.0
"""Seconds it may take to work it off."""
LOOK_EVERY = 5.0
"""Seconds between two looks at memory: each holds up for ten milliseconds the reader, which is in the same process."""
SETTLE = 60.0
"""Seconds after the last event until every result must be there."""


class Reader(threading.Thread):
    """Takes the results as they come and notes when."""

    def __init__(self, client: Mapping[str, str], topic: str, work: str) -> None:
        super().__init__(daemon=True, name="results")
        self._client, self._topic, self._work = client, topic, work
        self._end = threading.Event()
        self.first: float | None = None
        self.newest = 0.0
        """When the newest event that has a result was sent."""
        self.found: list[tuple[float, str, int]] = []
        """Each result: when it came, of which key, and its count or its event's number."""

    def run(self) -> None:
        from confluent_kafka import Consumer, TopicPartition

        settings = {"group.id": "bench-latency", "enable.auto.commit": False, "fetch.wait.max.ms": 5}
        consumer = Consumer({**self._client, **settings})
        there = consumer.list_topics(self._topic, timeout=30).topics[self._topic].partitions
        consumer.assign([TopicPartition(self._topic, number, 0) for number in there])
        number = "n" if self._work == "keyed" else "x"
        while not self._end.is_set():
            message = consumer.poll(0.1)
            now = time.time()
            text = None if message is None or message.error() else message.value()
            if not text:
                continue
            record = json.loads(text)
            if record.get("diff", 1) > 0:  # Pathway also writes that an older result is void
                self.first = self.first or now
                self.newest = max(self.newest, record.get("t", 0.0))
                self.found.append((now, record.get("k", ""), record.get(number, 0)))
        consumer.close()

    def end(self) -> None:
        self._end.set()
        self.join()


def answered(found: list[tuple[float, str, int]], work: str) -> dict[int, float]:
    """When each event had its result.

    >>> answered([(5.0, "k1", 2), (6.0, "k1", 3)], "keyed") == {1: 5.0, 101: 5.0, 201: 6.0}
    True
    """
    if work != "keyed":
        first: dict[int, float] = {}
        for at, _, number in found:
            first.setdefault(number, at)
        return first
    reached: dict[str, int] = {}
    times = {}
    for at, key, count in found:
        for ordinal in range(reached.get(key, 0), count):
            times[ordinal * KEYS + int(key[1:])] = at
        reached[key] = max(count, reached.get(key, 0))
    return times


def is_whole(found: list[tuple[float, str, int]], sent: int, work: str) -> bool:
    """Whether there is a result for every event, and no count beyond."""
    if work != "keyed":
        return len(found) == sum(is_kept(n) for n in range(sent))
    last: dict[str, int] = {}
    for _, key, count in found:
        last[key] = max(count, last.get(key, 0))
    return last == {f"k{k}": len(range(k, sent, KEYS)) for k in range(min(KEYS, sent))}


@reported
def once(
    at: Place, system: System, work: str, *, rate: int, seconds: float, warm: float, **given: Any
) -> dict[str, Any]:
    """One run of one system at one rate."""
    at.topic(TOPIC)
    job = job_for(at, system.name, work, topic=TOPIC, **given)
    folder = Path(job.folder)
    reader = Reader(at.client, f"{job.out}-0", work)
    times = folder / "sent.bin"
    try:
        with started(system.commands(job), folder, look_every=LOOK_EVERY) as running:
            reader.start()
            with fed(at.bootstrap, TOPIC, rate, times):
                if not until(lambda: reader.first is not None or running.failed, FIRST) or reader.first is None:
                    return {"failed": running.last_words() if running.failed else f"no result after {FIRST:.0f} s"}
                first = reader.first
                until(lambda: running.failed or time.time() - reader.newest < CAUGHT_UP, BACKLOG)
                begin = time.time() + warm
                until(lambda: running.failed, warm + seconds)
            sent = feed.sent(times)
            if running.failed:
                return {"failed": running.last_words()}
            whole = until(lambda: is_whole(reader.found, len(sent), work), SETTLE, every=0.5)
            memory = running.memory.end()
        reader.end()
        return summary(reader.found, sent, work, begin, rate) | {
            "first_result": round(first - running.at, 2),
            "memory": memory,
            **({} if whole else {"failed": f"{SETTLE:.0f} s after the last event its results were not all there"}),
        }
    finally:
        if reader.is_alive():
            reader.end()
        at.clear(keep=[])
        shutil.rmtree(folder, ignore_errors=True)


def summary(
    found: list[tuple[float, str, int]],
    sent: array[float],
    work: str,
    begin: float,
    rate: int,
    end: float = math.inf,
) -> dict[str, Any]:
    """The latency of the events that were sent from `begin` to `end`."""
    times = answered(found, work)
    taken = [1000 * (times[n] - s) for n, s in enumerate(sent) if begin <= s < end and n in times]
    measured = sum(begin <= s < end for s in sent)
    lasted = min(sent[-1], end) - begin
    made: dict[str, Any] = {"events": measured, "rate": round(measured / lasted) if lasted > 0 else 0, "asked": rate}
    return made | ({"latency": tail(taken), "histogram": histogram(taken)} if taken else {})


@contextmanager
def fed(bootstrap: str, topic: str, rate: int, times: Path) -> Iterator[None]:
    """Sends events for as long as it is used; `times` holds when each was sent."""
    command = [sys.executable, "-m", "bench.feed", bootstrap, topic, str(rate), str(times)]
    sender = subprocess.Popen(command, cwd=ROOT)
    try:
        yield
    finally:
        sender.send_signal(signal.SIGTERM)
        try:
            sender.wait(45)
        except subprocess.TimeoutExpired:
            sender.kill()
            raise


def until(so: Callable[[], bool], seconds: float, every: float = 0.05) -> bool:
    """Whether something became so in time."""
    deadline = time.monotonic() + seconds
    while not so():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


def main(arguments: list[str]) -> None:
    """Measures, prints tables and histograms, keeps the result."""
    parser = results.parser("w3", __doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--works", nargs="+", default=["stateless", "keyed"], choices=["stateless", "keyed"])
    parser.add_argument("--seconds", type=float, default=60.0, help="of which latency is measured")
    parser.add_argument(
        "--warm", type=float, default=10.0, help="seconds that are not measured once the backlog is gone"
    )
    parser.add_argument("--only", nargs="+", default=[s.name for s in LIVE], metavar="SYSTEM")
    flow_arguments(parser)
    asked = parser.parse_args(arguments)
    ours = {"goal": asked.goal, "also": asked.also}
    told = {"seconds": asked.seconds, "warm": asked.warm, **ours}
    runs = results.Runs(asked, told)
    with place() as at:
        for work in asked.works:
            for rate in asked.rates:
                done = runs.found.setdefault(f"{work} {rate}", {})
                for system in LIVE:
                    if system.name not in asked.only or system.name in done:
                        continue
                    done[system.name] = once(
                        at, system, work, rate=rate, seconds=asked.seconds, warm=asked.warm, **ours
                    ) | {"label": system.label}
                    print(f"{work} {rate:,}/s {system.name:14} {_line(done[system.name])}", flush=True)
                    runs.keep()
    print(f"\n{report.latency_text(runs.keep(whole=True))}")
    report.write()


def _line(found: dict[str, Any]) -> str:
    shown = ", ".join(f"{k} {v:g}" for k, v in found.get("latency", {}).items())
    return f"{shown} ms {found.get('failed', '')}"


if __name__ == "__main__":
    main(sys.argv[1:])
