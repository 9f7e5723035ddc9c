"""Flows started together: each its own run with its own supervisor, shown on one screen, stopped by one Ctrl-C.

They are started in the order in which one writes what another reads, each when the one before it runs. With an end in
sight (`--until-done`, batch mode) a flow is started when those it reads from have finished. A flow that fails is told,
and the others go on; only what waits for it is not started.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.errors import FlowError, Problem, UsageError
from headrace.observe.events import Follower
from headrace.observe.progress import Totals
from headrace.project import Project, kafka_client
from headrace.run import classes
from headrace.run.board import Board
from headrace.run.chain import Chain, chain
from headrace.run.home import LIVE, Asked
from headrace.run.prepare import Ready, prepare
from headrace.run.process import Process, identify
from headrace.run.supervisor import launch, log_of


@dataclass
class Member:
    """One of the flows while they run."""

    ready: Ready
    after: frozenset[str]
    process: subprocess.Popen[bytes] | None = None
    keeper: Process | None = None
    follower: Follower | None = None
    printed: int = 0
    """How much of what its supervisor prints was shown."""
    totals: Totals = field(default_factory=Totals)
    status: str = "waiting"
    code: int | None = None

    @property
    def name(self) -> str:
        return self.ready.home.name


def prepare_all(project: Project, files: Sequence[Path], asked: Asked, *, fresh: bool = False) -> list[Ready]:
    """Every flow checked and taken, or none; raises FlowError with the problems of all of them."""
    ready: list[Ready] = []
    problems: list[Problem] = []
    try:
        for file in files:
            try:
                ready.append(prepare(project, file, asked, fresh=fresh, strict=False))
            except FlowError as error:
                problems += error.problems
        known = {p.name for one in ready for p in one.plan.flow.parameters}
        unknown = [name for name in asked.parameters if name not in known]
        if unknown and not problems:
            raise UsageError(f'none of the flows has a parameter "{unknown[0]}"')
        if problems:
            raise FlowError(*problems)
    except BaseException:
        for one in ready:
            one.lock.close()
        raise
    return ready


def make_topics(project: Project, chained: Chain, bootstrap: str | None) -> list[str]:
    """Creates the topics between the flows that are not there; what was made, in words."""
    from headrace.log import topics
    from headrace.log.client import metadata

    made = []
    for topic, partitions in sorted(chained.between.items()):
        own = topic.bootstrap  # the project's credentials are never sent to another cluster
        client = {"bootstrap.servers": own} if own else kafka_client(project, bootstrap)
        if topic.name not in metadata(client).topics:
            topics.create(client, topic.name, partitions or 1)
            made.append(f'topic "{topic.name}" was made')
    return made


@dataclass
class Together:
    """All of them, from the first start to the last end."""

    members: list[Member]
    board: Board
    ends: bool
    """Whether they come to an end by themselves."""
    command: Sequence[str] | None = None
    """What is started as a supervisor; the usual one unless told."""
    clock: Callable[[], float] = time.monotonic
    stop_asked: int = 0
    _signalled: int = 0

    def run(self) -> int:
        """Runs all to their end; the exit code is that of the first that failed."""
        before = {n: signal.signal(n, self._on_signal) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            while any(m.code is None for m in self.members):
                self._start_due()
                for member in self.members:
                    self._attend(member)
                self._stop_if_asked()
                self.board.tick({m.name: (m.status, m.totals) for m in self.members})
                time.sleep(0.05)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self.board.close()
            for member in self.members:
                member.ready.lock.close()
        return next((m.code for m in self.members if m.code), 0)

    def _on_signal(self, number: int, frame: Any) -> None:
        self.stop_asked += 1

    def _start_due(self) -> None:
        for member in self.members:
            if member.process is not None or member.code is not None:
                continue
            if self.stop_asked:
                member.status, member.code = "not started", 0
                continue
            above = [m for m in self.members if m.name in member.after and m is not member]
            if self.ends:
                failed = next((m for m in above if m.code), None)
                if failed is not None:
                    member.status, member.code = "not started", failed.code
                    self.board.note(f'{member.name} is not started: "{failed.name}", which it reads from, has failed')
                elif all(m.code == 0 for m in above):
                    self._start(member)
                continue
            earlier = self.members[: self.members.index(member)]
            if all(m.status in ("running", "retrying") or m.code is not None for m in earlier):
                self._start(member)
            return  # one at a time: each start takes all the machine has

    def _start(self, member: Member) -> None:
        home = member.ready.home
        member.follower = Follower(home.events, from_end=True)
        log = log_of(home)
        member.printed = log.stat().st_size if log.exists() else 0
        member.process = launch(home, member.ready.lock, tied=True, command=self.command)
        member.keeper = identify(member.process.pid)
        member.ready.lock.close()  # from here on the supervisor holds the run
        member.status = "starting"

    def _attend(self, member: Member) -> None:
        if member.process is None or member.code is not None:
            return
        code = member.process.poll()  # before its events: what it says last is said before it is gone
        self._show(member)
        if code is not None:
            member.code = code
            member.status = member.ready.home.read().shown_status
            if member.process.stdin:
                member.process.stdin.close()
            self.board.ended(member.name, member.status, member.totals)

    def _show(self, member: Member) -> None:
        assert member.follower is not None
        for event in member.follower.poll():
            if event["event"] == "progress":
                member.totals = member.totals.add(event)
            self.board.event(member.name, event)
        log = log_of(member.ready.home)
        with log.open("rb") as file:
            file.seek(member.printed)
            lines = file.read().rpartition(b"\n")[0]
        if lines:
            member.printed += len(lines) + 1
            for line in lines.decode("utf-8", errors="replace").splitlines():
                self.board.output(member.name, line)
        status = member.ready.home.read().status
        member.status = status if status in LIVE else member.status

    def _stop_if_asked(self) -> None:
        """Tells every supervisor once for each time it was asked: the second time they stop at once."""
        while self._signalled < self.stop_asked:
            self._signalled += 1
            if self._signalled == 1:
                self.board.note("stopping all after their current batches; Ctrl-C again to stop at once")
            for member in self.members:
                if member.keeper is not None and member.code is None:
                    member.keeper.signal(signal.SIGTERM)


def run_together(
    project: Project, files: Sequence[Path], asked: Asked, board: Board, *, fresh: bool = False, detach: bool = False
) -> int:
    """Prepares flows, makes what lies between them, and runs all of them; the exit code of the command."""
    ready = prepare_all(project, files, asked, fresh=fresh)
    try:
        chained = chain([one.plan.flow for one in ready])
        ends = asked.until_done or asked.mode == "batch"
        if ends and chained.circle:
            around = ", ".join(f'"{name}"' for name in chained.circle)
            raise UsageError(f"{around} read from each other in a circle, so none can be done before the others")
        for text in (*(f"{one.home.name}: {note}" for one in ready for note in one.notes), *_links(chained)):
            board.note(text)
        classes.ready(project.settings.java.home, board.note)
        for text in make_topics(project, chained, asked.bootstrap):
            board.note(text)
        by_name = {one.home.name: one for one in ready}
        members = [Member(by_name[name], chained.after[name]) for name in chained.order]
        if detach:
            return _in_background(members, board)
        return Together(members, board, ends).run()
    finally:
        for one in ready:
            one.lock.close()


def _links(chained: Chain) -> list[str]:
    return [
        f"{name} reads from {', '.join(sorted(chained.after[name]))}" for name in chained.order if chained.after[name]
    ]


def _in_background(members: list[Member], board: Board) -> int:
    """Starts all, each when the one before it runs; they outlive this process."""
    code = 0
    for member in members:
        home = member.ready.home
        member.process = launch(home, member.ready.lock)
        home.update(lambda r, pid=member.process.pid: replace(r, supervisor=identify(pid)))  # type: ignore[misc]
        while member.process.poll() is None and home.read().status == "starting":
            time.sleep(0.1)
        record = home.read()
        if record.shown_status in ("failed", "died", "starting"):
            code = code or member.process.poll() or 4
            said = (record.failure or {}).get("message", "the supervisor ended")
            board.note(f"{home.name} has failed: {said}")
        else:
            board.note(f'"{home.name}" is {record.status} (process {member.process.pid}); headrace logs -f {home.name}')
    return code


__all__ = ["Member", "Together", "make_topics", "prepare_all", "run_together"]
