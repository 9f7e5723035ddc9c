"""W3: from the moment an event is due to be sent to the moment its result can be read, at a steady rate.

    python -m bench w3 [--rates 1000 10000] [--works stateless keyed] [--seconds 55] [--crossed 5] [--only …]

Producer, Kafka, the job, Kafka, consumer, all on this machine. *stateless*: buys kept, three fields written. *keyed*: a
running count per key, 100 keys. Events are sent from the start, so there is a backlog when the first result comes;
what is measured begins `--warm` seconds after it is worked off (Java still compiles then), or a minute later for a
system that never does.

Every event is measured, not every result: a keyed result with count 7 answers all events of that key up to the
seventh, so a system that writes only now and then does not look quicker than it is. When the sending ends, each key's
last count, or the number of records kept, must be right, else there is no number. Spark's real-time mode stands still
at each checkpoint, by default once a minute: what runs in it is measured for so long that it crosses `--crossed` of
them. How many it really crossed is counted from the events of the run.
"""

from __future__ import annotations

import json
import math
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import feed, machine, report, results
from bench.feed import KEYS, is_kept
from bench.measure import histogram, percentile, tail
from bench.place import Place, place
from bench.processes import reported, started
from bench.systems import ROOT, SYSTEMS, System, flow_arguments, job_for, order
from bench.throughput import home_events, moments
from headrace.compile.goal import CHECKPOINT

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
        """When the newest event that has a result was due."""
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
                self.found.append((now, sys.intern(record.get("k", "")), record.get(number, 0)))
        consumer.close()

    @property
    def behind(self) -> float:
        """Seconds since the newest event that has a result was due."""
        return time.time() - self.newest

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


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a run left behind: the results, the events, and from when on they count."""

    answers: Mapping[int, float]
    """When each event had its result."""
    events: feed.Noted
    work: str
    begin: float
    end: float = math.inf
    checkpoints: Sequence[float] | None = None
    """When each was made, as far as the run tells."""

    @property
    def counted(self) -> range:
        """The numbers of the events that were due meanwhile."""
        return range(bisect_left(self.events.due, self.begin), bisect_left(self.events.due, self.end))

    def waits(self) -> Iterator[tuple[float, float]]:
        """When each event that counts was due, and how many seconds later its result came, if ever."""
        for number in self.counted:
            if self.work == "keyed" or is_kept(number):
                due = self.events.due[number]
                yield due, self.answers.get(number, math.inf) - due

    @property
    def crossed(self) -> list[float]:
        """The checkpoints within what counts."""
        return [at for at in self.checkpoints or () if self.begin <= at <= min(self.end, self.events.due[-1])]


def _nothing_more(_: Taken) -> dict[str, Any]:
    return {}


def once(at: Place, system: System, work: str, *, rate: int, **how: Any) -> dict[str, Any]:
    """One run of one system at one rate."""
    found = climbed(at, system, work, rates=[rate], **how)
    [step] = found.pop("steps", [{}])
    return {**step, **found}


@reported
def climbed(
    at: Place,
    system: System,
    work: str,
    *,
    rates: Sequence[int],
    seconds: float,
    warm: float,
    more: Callable[[Taken], dict[str, Any]] = _nothing_more,
    **given: Any,
) -> dict[str, Any]:
    """One run of one system at one rate after the other, until it does not keep up; `more` is made of each besides."""
    at.topic(TOPIC)
    job = job_for(at, system.name, work, topic=TOPIC, **given)
    folder = Path(job.folder)
    reader = Reader(at.client, f"{job.out}-0", work)
    times = folder / "sent.bin"
    spans: list[tuple[int, float, float]] = []
    try:
        commands = system.commands(job)
        busy = machine.settle()
        with started(commands, folder, look_every=LOOK_EVERY) as running:
            reader.start()
            with fed(at.bootstrap, TOPIC, times, *rates) as faster:
                if not until(lambda: reader.first is not None or running.failed, FIRST) or reader.first is None:
                    return {"failed": running.last_words() if running.failed else f"no result after {FIRST:.0f} s"}
                first = reader.first
                until(lambda: running.failed or reader.behind < CAUGHT_UP, BACKLOG)
                for rate in rates:
                    if spans:
                        faster()
                    begin = time.time() + warm
                    until(lambda: running.failed, warm + seconds)
                    spans.append((rate, begin, time.time()))
                    if reader.behind > CAUGHT_UP:
                        break
            noted = feed.noted(times)
            if running.failed:
                return {"failed": running.last_words()}
            whole = until(lambda: is_whole(reader.found, len(noted.due), work), SETTLE, every=0.5)
            memory, stolen = running.memory.end(), running.stolen.percent()
        reader.end()
        path = home_events(job)
        made = moments(path, "progress") if path.exists() else None
        answers = answered(reader.found, work)
        steps = []
        for rate, begin, end in spans:
            taken = Taken(answers=answers, events=noted, work=work, begin=begin, end=end, checkpoints=made)
            steps.append({"asked": rate, **summary(taken), **more(taken)})
        return {
            "steps": steps,
            "first_result": round(first - running.at, 2),
            "memory": memory,
            "busy_before": busy,
            "stolen": stolen,
            **({} if whole else {"failed": f"{SETTLE:.0f} s after the last event its results were not all there"}),
        }
    finally:
        if reader.is_alive():
            reader.end()
        at.clear(keep=[])
        shutil.rmtree(folder, ignore_errors=True)


def summary(taken: Taken) -> dict[str, Any]:
    """The latency of the events that count, how many could be sent a second, and how late the sender itself was."""
    waits = [1000 * wait for _, wait in taken.waits() if wait < math.inf]
    counted, (due, sent) = taken.counted, taken.events
    lasted = sent[counted[-1]] - taken.begin if counted else 0.0
    made: dict[str, Any] = {"events": len(counted), "rate": round(len(counted) / lasted) if lasted > 0 else 0}
    if counted:
        late = sorted(1000 * (sent[number] - due[number]) for number in counted)
        made["sender_late"] = {"p99": round(percentile(late, 99), 2), "max": round(late[-1], 2)}
    if taken.checkpoints is not None:
        made["checkpoints"] = len(taken.crossed)
    return made | ({"latency": tail(waits), "histogram": histogram(waits)} if waits else {})


def together(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several runs as one: medians, and the least and the most of each where there are several."""
    good = [one for one in rounds if "latency" in one]
    failed = [one["failed"] for one in rounds if "failed" in one]
    made: dict[str, Any] = {"failed": failed[0]} if failed else {}
    if not good:
        return made
    names = good[0]["latency"]
    made["latency"] = {p: statistics.median(one["latency"][p] for one in good) for p in names}
    if len(good) > 1:
        made["spread"] = {p: [f(one["latency"][p] for one in good) for f in (min, max)] for p in names}
    if "checkpoints" in good[0]:
        made["checkpoints"] = min(one["checkpoints"] for one in good)
    return made | {
        "histogram": [sum(counts) for counts in zip(*(one["histogram"] for one in good), strict=True)],
        "first_result": statistics.median(one["first_result"] for one in good),
        "memory": max((one["memory"] for one in good), key=lambda held: sum(held.values())),
    }


@contextmanager
def fed(bootstrap: str, topic: str, times: Path, *rates: int) -> Iterator[Callable[[], None]]:
    """Sends events for as long as it is used; `times` holds when each was sent. Called, it goes on to the next rate."""
    command = [sys.executable, "-m", "bench.feed", bootstrap, topic, str(times), *map(str, rates)]
    sender = subprocess.Popen(command, cwd=ROOT)
    try:
        yield lambda: sender.send_signal(signal.SIGUSR1)
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
    parser.add_argument("--seconds", type=float, default=55.0, help="of which latency is measured")
    parser.add_argument(
        "--warm", type=float, default=30.0, help="seconds that are not measured once the backlog is gone"
    )
    parser.add_argument("--crossed", type=int, default=5, help="checkpoints in what is measured of real-time mode")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[s.name for s in LIVE], metavar="SYSTEM")
    flow_arguments(parser)
    asked = parser.parse_args(arguments)
    ours = {"goal": asked.goal, "also": asked.also}
    crossing = (asked.crossed + 0.5) * CHECKPOINT.total_seconds() if asked.crossed else 0.0
    told = {k: getattr(asked, k) for k in ("seconds", "crossed", "warm", "rounds")} | ours
    runs = results.Runs(asked, told)
    chosen = [system for system in LIVE if system.name in asked.only]
    cells = [(work, rate) for work in asked.works for rate in asked.rates]
    with place() as at:
        for number in range(asked.rounds):
            for turn, (work, rate) in enumerate(cells):
                done = runs.found.setdefault(f"{work} {rate}", {})
                for system in order(chosen, number + turn):
                    before = done.get(system.name, {}).get("rounds", [])
                    if len(before) > number:
                        continue
                    seconds = max(asked.seconds, crossing) if system.pauses else asked.seconds
                    found = once(at, system, work, rate=rate, seconds=seconds, warm=asked.warm, **ours)
                    print(f"{work} {rate:,}/s {system.name:14} {_line(found)}", flush=True)
                    guarantee = system.live_guarantee or system.guarantee
                    rounds = [*before, found]
                    done[system.name] = {"label": system.label, "guarantee": guarantee, "rounds": rounds}
                    done[system.name] |= together(rounds)
                    runs.keep()
    print(f"\n{report.latency_text(runs.keep(whole=True))}")
    report.write()


def _line(found: dict[str, Any]) -> str:
    shown = ", ".join(f"{k} {v:g}" for k, v in found.get("latency", {}).items())
    return f"{shown} ms {found.get('failed', '')}"


if __name__ == "__main__":
    main(sys.argv[1:])
