"""Flows run side by side in a scratch project while faults befall them; then every row is accounted for."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from headrace.errors import EndpointError, HeadraceError, UsageError
from headrace.log import broker, topics
from headrace.model import Mode, Source
from headrace.observe import events
from headrace.project import Project, kafka_client
from headrace.run.audits import of_run
from headrace.run.inline import local_session
from headrace.run.journal import Journal
from headrace.run.verify import Verdict, verify
from headrace.testing.chaos import faults
from headrace.testing.chaos.clock import Clock
from headrace.testing.chaos.clock import build as build_clock
from headrace.testing.chaos.feed import Feeder, records_for
from headrace.testing.chaos.scratch import Moved, database_namespace, move
from headrace.testing.cluster import running_spark_cluster

PATIENCE = 300.0
"""Seconds a flow may take to be up again before that is the answer."""
KILLS_BETWEEN = 2
"""Behind so many kills comes one of the other faults."""
FED = ("kafka", "files")
"""The connectors whose sources are given records here."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be done."""

    kills: int
    """So many kill -9 for each flow."""
    seconds: float
    """So long at least."""
    seed: int = 0
    rate: float = 50.0
    faults: tuple[str, ...] = ()
    """Only these; else all that are possible."""
    database: str | None = None
    master: str | None = None
    workers: int = 0
    """So many workers of a cluster of its own; 0: the driver does all itself, or `master` says where."""
    spare: bool = False
    """Whether a second driver stands by."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one flow."""

    flow: str
    faults: Mapping[str, int]
    fed: int
    read: int
    lost: int
    duplicated: int
    recovery: Mapping[str, tuple[float, ...]]
    """By the kind of fault, seconds from each until every query that is fed has committed another batch."""
    restarts: int
    sinks: tuple[Mapping[str, Any], ...] = ()
    audit: tuple[str, ...] = ()
    """What in the ledger does not add up."""
    failure: str = ""

    @property
    def good(self) -> bool:
        return self.compared and not (self.failure or self.differs or self.audit)

    @property
    def differs(self) -> bool:
        """Whether a record was not read, or a sink differs by more than it is promised."""
        return self.read < self.fed or any(sink["verdict"] == "differs" for sink in self.sinks)

    @property
    def compared(self) -> bool:
        """Whether every sink that can be compared was, and there is one."""
        wanted = [s for s in self.sinks if s["comparable"]]
        return bool(wanted) and all(s["verdict"] != "not compared" for s in wanted)

    @property
    def kills(self) -> int:
        return sum(n for kind, n in self.faults.items() if kind in faults.KILLS)

    @property
    def others(self) -> int:
        """How many faults were no kills."""
        return sum(self.faults.values()) - self.kills

    def took(self, *kinds: str) -> tuple[float, float] | None:
        """How long recovery took, typically and at most, after faults of some kinds or of all."""
        seconds = [s for kind in kinds or self.recovery for s in self.recovery.get(kind, ())]
        return (round(statistics.median(seconds), 2), round(max(seconds), 2)) if seconds else None

    def as_dict(self) -> dict[str, Any]:
        typical, longest = self.took() or (None, None)
        return {
            **asdict(self),
            "good": self.good,
            "kills": self.kills,
            "recovery_p50": typical,
            "recovery_max": longest,
        }


def chaos(files: Sequence[Path], asked: Asked, tell: Callable[[str], None] = lambda _: None) -> list[Outcome]:
    """Runs flows under faults and says what became of each; leaves nothing behind."""
    user = Project.find()
    with ExitStack() as cleanup:
        root = Path(
            cleanup.enter_context(tempfile.TemporaryDirectory(prefix="headrace-chaos-", ignore_cleanup_errors=True))
        )
        if asked.workers:
            tell(f"starting a Spark cluster of {asked.workers} workers")
            (root / "cluster").mkdir()
            cluster = cleanup.enter_context(running_spark_cluster(root / "cluster", asked.workers))
            asked = replace(asked, master=cluster.master)
        namespace = cleanup.enter_context(database_namespace(asked.database))
        moved = tuple(move(file, root / "project", namespace=namespace) for file in files)
        project = moved[0].project
        client: dict[str, str] = {}
        if any(p.connector == "kafka" for m in moved for p in m.ends):
            tell("starting a Kafka of its own")
            cleanup.callback(broker.stop, project, delete=True)
            client = {"bootstrap.servers": broker.start(project).bootstrap}
            _create_topics(moved, client)
        feeders = {m.flow.name: _feeders(m, f, user, client, asked) for m, f in zip(moved, files, strict=True)}
        if (clock := build_clock(root)) is None:
            tell("there is no C compiler here: no clock is moved")
        children = {m.flow.name: cleanup.enter_context(running(m, asked, clock)) for m in moved}
        for thread in (t for found in feeders.values() for t in found):
            thread.start()
        trial = _Trial(moved, children, asked, project, tell, clock)
        try:
            trial.go()
        finally:
            for thread in (t for found in feeders.values() for t in found):
                thread.stop()
        for thread in (t for found in feeders.values() for t in found):
            thread.join(600)
            if thread.failure is not None:
                raise EndpointError("the sources could not be fed", detail=str(thread.failure))
        tell("reading the rest, closing windows")
        with ThreadPoolExecutor(len(moved)) as together:
            for done in [together.submit(trial.finish, m, children[m.flow.name], feeders[m.flow.name]) for m in moved]:
                done.result()
        session = local_session(project)
        return [trial.outcome(m, feeders[m.flow.name], session, client) for m in moved]


def _create_topics(moved: Sequence[Moved], client: Mapping[str, str]) -> None:
    wanted: dict[str, int] = {}
    for m in moved:
        for part in m.ends:
            if part.connector != "kafka":
                continue
            names = part.options.topic if isinstance(part, Source) else (part.options.topic,)
            wanted |= {name: 2 for name in names if name not in wanted}
    for name, partitions in wanted.items():
        topics.create(client, name, partitions)


def _feeders(moved: Moved, file: Path, user: Project, client: Mapping[str, str], asked: Asked) -> list[Feeder]:
    try:
        theirs: Mapping[str, str] | None = kafka_client(user)
    except HeadraceError:
        theirs = None
    made = []
    for number, source in enumerate(s for s in moved.streams if s.connector in FED):
        records = records_for(moved, source, file, theirs)
        feeder = Feeder(moved, source, records, rate=asked.rate, seed=asked.seed + number)
        feeder.bootstrap = client.get("bootstrap.servers", "")
        made.append(feeder)
    return made


def _command(moved: Moved, *arguments: str, master: str | None) -> list[str]:
    where = ("--master", master) if master else ()
    return [sys.executable, "-m", "headrace.cli.main", "run", str(moved.file), "--quiet", *where, *arguments]


@contextmanager
def running(moved: Moved, asked: Asked, clock: Clock | None) -> Iterator[subprocess.Popen[bytes]]:
    """The flow, run and restarted until the block ends; nothing of it is left then."""
    log = moved.project.root / f"{moved.flow.name}.log"
    with log.open("wb") as out:
        child = subprocess.Popen(
            _command(moved, "--restarts", "100000", *(["--spare"] if asked.spare else []), master=asked.master),
            cwd=moved.project.root,
            env={**os.environ, **(clock.environment() if clock is not None else {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(60)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        driver = moved.home.read().driver if moved.home.exists else None
        if driver is not None:
            driver.end_group()


def fed_queries(moved: Moved) -> frozenset[str]:
    """The queries of a flow that are given records all the time, so that each has batches as long as it is well."""
    fed = {source.name for source in moved.streams if source.connector in FED}
    return frozenset(query.name for query in moved.plan.queries if fed.intersection(query.sources))


def counted(kinds: Sequence[str]) -> list[str]:
    """The faults that are counted: the kills among those to be done, or all where none of them is a kill.

    >>> counted(["driver", "clock"]), counted(["clock"])
    (['driver'], ['clock'])
    """
    return [kind for kind in kinds if kind in faults.KILLS] or list(kinds)


def _in_turn(kinds: Sequence[str], draw: random.Random) -> Iterator[str]:
    """Each of some kinds once, then again in another order, without end; nothing if there are none."""
    while kinds:
        yield from draw.sample(kinds, len(kinds))


class _Trial:
    """The faults, one after another, each once the flows are up again."""

    def __init__(
        self,
        moved: Sequence[Moved],
        running: Mapping[str, subprocess.Popen[bytes]],
        asked: Asked,
        project: Project,
        tell: Callable[[str], None],
        clock: Clock | None,
    ) -> None:
        self.moved, self.running, self.asked, self.project, self.tell = moved, running, asked, project, tell
        self.clock = clock
        self.draw = random.Random(asked.seed)
        self.done: dict[str, Counter[str]] = {m.flow.name: Counter() for m in moved}
        self.recovery: dict[str, dict[str, list[float]]] = {m.flow.name: {} for m in moved}
        self.stuck: dict[str, str] = {}
        self.heard: dict[str, tuple[events.Follower, dict[str, Mapping[str, Any]]]] = {}

    def go(self) -> None:
        for m in self.moved:
            self._batches_after(m, {})
        kinds = faults.possible(tuple(self.moved), cluster=self.asked.master is not None, clock=self.clock is not None)
        if self.asked.faults:
            unfit = [k for k in self.asked.faults if k not in kinds]
            if unfit:
                raise UsageError(f'fault "{unfit[0]}" cannot be done here', hint=f"these can: {', '.join(kinds)}")
            kinds = list(self.asked.faults)
        began, kills = time.monotonic(), 0
        for number, kind in enumerate(self._order(kinds)):
            due = began + self.asked.seconds * min(1.0, kills / self.asked.kills)
            moment = self.draw.uniform(0.2, 2.0)
            time.sleep(max(0.0, due - time.monotonic()) + moment)  # somewhere within a batch, not at its beginning
            self._do(kind, number)
            kills += kind in counted(kinds)
            if self.stuck:
                return
        time.sleep(max(0.0, began + self.asked.seconds - time.monotonic()))

    def _order(self, kinds: list[str]) -> Iterator[str]:
        """Kills, each kind in turn in an order drawn anew each round, until every flow has had as many as were asked
        for; of the other faults, which take turns too, one behind every few kills.

        Twice as many kills at most: one may find nobody to strike.
        """
        kills = counted(kinds)
        others = _in_turn([k for k in kinds if k not in kills], self.draw)
        given = 0
        for kind in _in_turn(kills, self.draw):
            short = [m for m in self.moved if self._counted(m, kills) < self.asked.kills]
            if given == 2 * self.asked.kills or not any(faults.fits(k, m) for k in kills for m in short):
                return
            if not any(faults.fits(kind, m) for m in short):
                continue
            yield kind
            given += 1
            if given % KILLS_BETWEEN == 0:
                yield from islice(others, 1)

    def _counted(self, moved: Moved, kills: Sequence[str]) -> int:
        return sum(self.done[moved.flow.name][kind] for kind in kills)

    def _do(self, kind: str, number: int) -> None:
        before = {m.flow.name: self._last_batches(m) for m in self.moved}
        began = time.monotonic()
        seconds = self.draw.uniform(2.0, 6.0)
        self.tell(f"fault {number + 1} ({self.asked.kills} kills for each flow): {faults.KINDS[kind]}")
        struck = [m for m in self.moved if faults.fits(kind, m)]
        if kind == "broker":
            faults.kill_broker(self.project)
        elif kind == "pause":
            faults.pause_broker(self.project, seconds)
        elif kind == "clock":
            assert self.clock is not None
            self.clock.move(self.draw.uniform(-1800.0, 1800.0))
        else:
            one: Mapping[str, Callable[[Moved], bool]] = {
                "driver": faults.kill_driver,
                "executor": lambda m: faults.kill_executor(m.home),
                "full-disk": faults.fill_disk,
                "slow-sink": lambda m: faults.slow_sink(m, seconds),
            }
            struck = [m for m in struck if self._struck(one[kind], m)]
        for m in struck:
            self.done[m.flow.name][kind] += 1
        for m in struck:
            if (at := self._batches_after(m, before[m.flow.name])) is not None:
                self.recovery[m.flow.name].setdefault(kind, []).append(round(at - began, 2))

    def _struck(self, strike: Callable[[Moved], bool], moved: Moved) -> bool:
        deadline = time.monotonic() + 60
        while not strike(moved):  # between two drivers there is nobody to strike
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def _last_batches(self, moved: Moved) -> dict[str, Mapping[str, Any]]:
        """By query, what the run has told of the last batch that was committed."""
        follower, last = self.heard.setdefault(moved.flow.name, (events.Follower(moved.home.events), {}))
        last |= {event["query"]: event for event in follower.poll() if event["event"] == "progress"}
        return dict(last)

    def _batches_after(self, moved: Moved, before: Mapping[str, Mapping[str, Any]]) -> float | None:
        """When every query that is fed has committed another batch; None, and noted, if one does not. By what was
        written down, and not when: the run's clock may be any.
        """
        deadline = time.monotonic() + PATIENCE
        name = moved.flow.name
        fed, waiting = fed_queries(moved), frozenset[str]()
        while time.monotonic() < deadline:
            new = {query for query, told in self._last_batches(moved).items() if told != before.get(query)}
            waiting = fed - new
            if new and not waiting:
                return time.monotonic()
            if self.running[name].poll() is not None:
                break
            time.sleep(0.05)
        log = self.project.root / f"{name}.log"
        whose = f" of {', '.join(sorted(waiting))}" if waiting else ""
        self.stuck[name] = f"no batch{whose} was committed any more: {log.read_text(errors='replace')[-1500:].strip()}"
        return None

    def finish(self, moved: Moved, child: subprocess.Popen[bytes], feeders: Sequence[Feeder]) -> None:
        """Stops the run between two batches, and then lets it read all that is left and end.

        In real-time mode it first reads all, since what can end is a run in micro-batches.
        """
        if moved.flow.name in self.stuck:
            return
        real_time = moved.plan.mode is Mode.REAL_TIME
        deadline, fed = time.monotonic() + PATIENCE, sum(feeder.fed for feeder in feeders)
        while real_time and self._read(moved, feeders) < fed and time.monotonic() < deadline:
            time.sleep(0.2)
        child.send_signal(signal.SIGTERM)
        child.wait(120)
        if real_time:
            return
        command = _command(moved, "--until-done", "--restarts", "20", master=self.asked.master)
        ended = subprocess.run(
            command, cwd=self.project.root, capture_output=True, text=True, timeout=1200, check=False
        )
        if ended.returncode:
            self.stuck[moved.flow.name] = f"the run did not end: {ended.stderr[-1500:].strip()}"

    def outcome(self, moved: Moved, feeders: Sequence[Feeder], session: Any, client: Mapping[str, str]) -> Outcome:
        name = moved.flow.name
        verdicts: list[Verdict] = []
        unbalanced: tuple[str, ...] = ()
        if name not in self.stuck:
            self.tell(f"{name}: verifying")
            verdicts = verify(self.project, moved.home, session)
            unbalanced = tuple(str(finding) for finding in of_run(self.project, moved.home).findings)
        found = [v.found for v in verdicts if v.found is not None]
        fed, read = sum(f.fed for f in feeders), self._read(moved, feeders)
        unread = max(0, fed - read) if read >= 0 else 0
        return Outcome(
            flow=name,
            faults=dict(self.done[name]),
            fed=fed,
            read=read if read >= 0 else fed,
            lost=unread + sum(f.missing + f.different for f in found),
            duplicated=sum(f.repeated + f.unexpected for f in found),
            recovery={kind: tuple(seconds) for kind, seconds in self.recovery[name].items()},
            restarts=sum(1 for e in events.read(moved.home.events) if e["event"] == "restarted"),
            sinks=tuple(v.as_dict() for v in verdicts),
            audit=unbalanced,
            failure=self.stuck.get(name, ""),
        )

    def _read(self, moved: Moved, feeders: Sequence[Feeder]) -> int:
        """Records of the topics that were fed, as far as every query has read them; -1: not only topics were fed."""
        if not feeders or any(f._source.connector != "kafka" for f in feeders):
            return -1
        least: dict[str, int] = {}
        for journal in sorted((moved.home.path / "journal").glob("*.jsonl")):
            entries = Journal(journal).entries()
            if not entries:
                continue
            for source, _, offset in entries[max(entries)].sources:
                total = sum(n for parts in json.loads(offset or "{}").values() for n in parts.values())
                least[source] = min(total, least.get(source, total))
        return sum(least.values())
