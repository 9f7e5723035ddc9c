"""The supervisor: starts a driver, shows what it does, starts it again when it dies, and knows when not to.

What is retried: an outside system that did not answer, a driver that was killed, an error nobody expected. What
is not: a mistake in the flow, its data or the command, because it would only happen again. Failures add up, and
after so many the run is given up; but an outside system that has been there and is away is asked again every few
seconds for minutes. One that never answered is more likely a wrong address.

Where a spare is asked for, a second driver starts once the first has committed a batch, or runs for a while without,
and waits: then a death costs neither the start of Spark nor the time in which Java is slow.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from headrace.errors import HeadraceError
from headrace.observe import events
from headrace.observe.events import Event, Follower
from headrace.observe.progress import Totals
from headrace.run.failure import Failure
from headrace.run.home import SPARE, Home, Record
from headrace.run.index import Index, Row
from headrace.run.process import Process, identify, watch_input
from headrace.run.room import no_room
from headrace.run.view import View

WITHIN = 600.0
"""Failures further apart than this many seconds do not add up."""
LONGEST_WAIT = 30.0
BETWEEN_ASKING = 5.0
"""Seconds at most between two tries while an outside system is away: it should not be noticed late that it is back."""
KILL_AFTER = 45.0
"""Seconds a driver has to stop; longer than it gives its last batch."""
SPARE_AFTER = 15.0
"""Seconds after which a spare is started though no batch was committed: there is no input, or batches are long."""
SET_BACK = 10.0
"""Seconds by which the clock may be set back under a driver without a word. Who waits for a time of day, as Spark does
between two batches that are to be so far apart, and Kafka's clients before they connect again, waits so much longer:
at once, or only when a broker goes away. So the driver begins anew."""
WITHOUT_ROOM = 0.5
"""Seconds between two tries to write while the disk is full."""
LARGEST_LOG = 20 * 2**20
_WARNINGS = {
    "lost": 'warning: source "{source}" can no longer read {records:,} records, deleted before they were read: {what}',
    "expiring": 'warning: source "{source}" has not read {topic}, partition {partition} from offset {offset} on; '
    "Kafka begins to delete it in {seconds} s",
}


def backoff(failures: int) -> float:
    """Seconds to wait before another try, after so many failures in a row.

    >>> [backoff(n) for n in (1, 2, 3, 9)]
    [0.5, 1.0, 2.0, 30.0]
    """
    return min(LONGEST_WAIT, 0.5 * 2.0 ** (failures - 1))


@dataclass(frozen=True)
class Driver:
    """A driver's process, and the thread that shows what its sinks print."""

    process: subprocess.Popen[bytes]
    identity: Process
    relaying: threading.Thread

    def end(self) -> None:
        """Leaves nothing of it: its Java would outlive it by a second or two and could still write."""
        if self.process.stdin:
            self.process.stdin.close()
        self.identity.end_group()
        self.process.wait()
        self.relaying.join(10)  # all that it printed is shown before what is said about its end


@dataclass
class Supervisor:
    """One run, from its first driver to its last."""

    home: Home
    lock: IO[str]
    view: View
    index: Index
    command: Sequence[str] = (sys.executable, "-m", "headrace.run.driver")
    """What is started as the driver, with the home's path behind it."""
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    totals: Totals = field(default_factory=Totals)
    stop_asked: int = 0
    failures: list[float] = field(default_factory=list)
    away_since: float | None = None
    """When an outside system was first found away, if none has answered since."""
    died: float | None = None
    """When the last driver failed, until a batch is committed again."""
    in_a_row: int = 0
    """Failures since a batch was last committed: only these make the wait before the next try longer."""
    restarting: float | None = None
    """The same, until the next driver runs all its queries: one of them may commit a batch before."""
    wants_spare: bool = False
    spare: Driver | None = None
    """The driver that waits for its turn."""
    running_since: float | None = None
    """When the driver had started its queries."""
    _asked_again: int = 0

    def run(self) -> int:
        """Supervises until the run ends; the exit code of the command."""
        self._set("starting", supervisor=identify(os.getpid()), failure=None, restarts=0)
        self.wants_spare = self.home.read().asked.spare
        before = {n: signal.signal(n, self._on_signal) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            return self._supervise()
        finally:
            if self.spare is not None:
                self.spare.end()
            for number, handler in before.items():
                signal.signal(number, handler)
            self.view.close()

    def _on_signal(self, number: int, frame: Any) -> None:
        self.stop_asked += 1

    def _supervise(self) -> int:
        follower = Follower(self.home.events, from_end=True)
        while True:
            events.rotate(self.home.events)
            driver = self._spawn()
            try:
                failure = self._attend(driver, follower)
            finally:
                driver.end()
            if failure is None:
                return 0
            self.in_a_row = 1 if self.died is None else self.in_a_row + 1
            self.died = self.restarting = self.died or self.clock()
            code = self._after(failure, follower)
            if code is not None:
                return code

    def _after(self, failure: Failure, follower: Follower) -> int | None:
        """What follows a failure: an exit code, or None to try again."""
        log = str(self.home.log)
        if self.stop_asked:
            self._set("stopped", failure=failure.as_dict())
            return 0
        asked = self.home.read().asked
        most = asked.restarts
        away = failure.retry and failure.kind == "endpoint" and self.home.has_run
        if away and most and self._ridden_out(failure, follower, asked.outage):
            return self._wait_on(self._asks_again())
        self.failures = [t for t in self.failures if t > self.clock() - WITHIN] + [self.clock()]
        if not failure.retry or len(self.failures) > most:
            self._set("failed", failure=failure.as_dict())
            if failure.retry and most:
                minutes = WITHIN / 60
                self._tell("gave-up", failures=len(self.failures))
                self.view.note(f"gave up: {len(self.failures)} failures within {minutes:.0f} minutes")
            self._show(follower)
            self.view.fail(failure.error(log))
            return failure.exit_code
        wait = backoff(self.in_a_row)
        self._tell("retrying", seconds=wait, attempt=len(self.failures), of=most, why=failure.message)
        self._set("retrying", failure=failure.as_dict())
        self._show(follower)
        self.view.note(f"{failure.message}\n  trying again in {wait:g} s ({len(self.failures)} of {most}); log: {log}")
        return self._wait_on(wait)

    def _wait_on(self, seconds: float) -> int | None:
        if self._stopped_within(seconds):
            self._set("stopped")
            return 0
        return None

    def _ridden_out(self, failure: Failure, follower: Follower, patience: float) -> bool:
        """Whether an outage is short enough to be waited for; if so, says so."""
        first = self.away_since is None
        self.away_since = self.clock() if self.away_since is None else self.away_since
        self._asked_again = 0 if first else self._asked_again + 1
        away = self.clock() - self.away_since
        if away >= patience:
            return False
        wait = self._asks_again()
        self._tell("retrying", seconds=wait, away=round(away, 1), of=patience, why=failure.message)
        self._set("retrying", failure=failure.as_dict())
        self._show(follower)
        if first:
            log = f"log: {self.home.log}"
            self.view.note(f"{failure.message}\n  asking again every few seconds, for {patience:g} s at most; {log}")
        return True

    def _asks_again(self) -> float:
        return min(BETWEEN_ASKING, backoff(self._asked_again + 1))

    def _stopped_within(self, seconds: float) -> bool:
        """Waits; True if a stop was asked for meanwhile."""
        deadline = self.clock() + seconds
        while self.clock() < deadline and not self.stop_asked:
            time.sleep(0.05)
        return self.stop_asked > 0

    def _spawn(self) -> Driver:
        """The next driver: the spare, if there is one, or another."""
        record = self.home.read()
        self._tell("starting", run=record.name, file=record.file)
        self.running_since = None
        driver, self.spare = self.spare, None
        if driver is not None and driver.process.poll() is not None:
            driver.end()
            driver = None
        driver = driver or self._started(record)
        assert driver.process.stdin is not None
        with suppress(BrokenPipeError):  # one that is dead already is seen like any other
            os.write(driver.process.stdin.fileno(), b"your turn\n")
        self._once_there_is_room(lambda: self.home.update(lambda r: replace(r, driver=driver.identity)))
        return driver

    def _started(self, record: Record, *more: str) -> Driver:
        self.home.log.parent.mkdir(parents=True, exist_ok=True)
        if self.home.log.exists() and self.home.log.stat().st_size > LARGEST_LOG:
            self.home.log.replace(self.home.log.with_name("driver.1.log"))
        with self.home.log.open("ab") as log:
            process = subprocess.Popen(
                [*self.command, str(self.home.path), *more],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=record.root,
                env=_environment(),
                start_new_session=True,  # its own group: a Ctrl-C reaches it through us, and no child of it is lost
                pass_fds=(self.lock.fileno(),),  # the run stays taken until the driver, too, is gone
            )
        assert process.stdout is not None
        relaying = threading.Thread(target=self._relay, args=(process.stdout,), name="output", daemon=True)
        relaying.start()
        return Driver(process, identify(process.pid), relaying)

    def _keep_spare(self) -> None:
        """Another driver beside the one that works, where that is asked for; one that cannot live is not replaced."""
        if self.spare is None and self.wants_spare and not self.stop_asked:
            self.spare = self._started(self.home.read(), SPARE)

    def _relay(self, output: IO[bytes]) -> None:
        """What sinks print goes to the user, not into the live line."""
        with output:
            for line in output:
                self.view.output(line.decode("utf-8", errors="replace").rstrip("\n"))

    def _attend(self, driver: Driver, follower: Follower) -> Failure | None:
        """Watches a driver until it is gone; None if it ended as it should."""
        process, signalled = driver.process, 0
        deadline = float("inf")
        ahead = self.wall() - self.clock()
        outcome: dict[str, Event] = {}
        while True:
            gone = process.poll() is not None
            for event in follower.poll():
                outcome[event["event"]] = event
                self._take(event)
            self.view.tick(self.totals)
            if self.running_since is not None and self.clock() > self.running_since + SPARE_AFTER:
                self._keep_spare()
            if gone:
                driver.end()
                return self._verdict(process.returncode, outcome)
            before, ahead = ahead, self.wall() - self.clock()
            if ahead < before - SET_BACK:
                driver.end()
                why = f"the clock was set back by {before - ahead:,.0f} s, for which the driver would wait"
                return Failure(kind="internal", message=why, retry=True)
            if self.stop_asked > signalled:
                signalled = self.stop_asked
                deadline = self._ask_to_stop(process, signalled)
            if self.clock() > deadline:
                process.kill()
            time.sleep(0.05)

    def _ask_to_stop(self, driver: subprocess.Popen[bytes], times: int) -> float:
        if times > 1:
            driver.kill()
            return float("inf")
        self.view.note("stopping after the current batch; Ctrl-C again to stop at once")
        driver.terminate()
        return self.clock() + KILL_AFTER

    def _take(self, event: Event) -> None:
        kind = event["event"]
        if kind == "started":
            self.running_since = self.clock()
            restarts = self.home.read().restarts
            if self.restarting is not None:
                restarts += 1
                seconds, again = round(self.clock() - self.restarting, 2), event.get("replaying") or {}
                self.restarting = None
                self._tell("restarted", seconds=seconds, times=restarts, replaying=again)
                self.view.note(f"running again after {seconds:g} s{show_replayed(again)}")
            self._set("running", restarts=restarts, failure=None)
        elif kind in ("progress", "dead-letters"):
            self.totals = self.totals.add(event) if kind == "progress" else self.totals.add_letters(event)
            if kind == "progress":
                self._recovered(event)
                self._keep_spare()
            self._once_there_is_room(lambda: self.index.progress(self.home.name, self.totals.as_dict()))
        elif kind in _WARNINGS:
            self.view.note(_WARNINGS[kind].format(**event))
        self.view.event(event)

    def _recovered(self, event: Event) -> None:
        """A batch is committed: whoever was away is back, and a run that died goes on."""
        self.away_since = None
        if self.died is not None:
            seconds, self.died = round(self.clock() - self.died, 2), None
            self._tell("recovered", seconds=seconds, query=event["query"], batch=event["batch"])

    def _verdict(self, code: int, outcome: dict[str, Event]) -> Failure | None:
        if code == 0:
            ended = "stopped" if "stopped" in outcome else "finished"
            self._set(ended, failure=None)
            self.view.ended(ended, self.totals, outcome.get("stopped"))
            return None
        if "failed" in outcome:
            return Failure.from_dict(outcome["failed"])
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return Failure(kind="internal", message=f"the driver {how}", retry=True)

    def _show(self, follower: Follower) -> None:
        for event in follower.poll():
            self.view.event(event)

    def _set(self, status: str, **changes: Any) -> None:
        def note() -> None:
            record = self.home.update(lambda r: r.at(status, **changes))
            self.index.put(row_of(record, self.totals))

        self._once_there_is_room(note)

    def _tell(self, event: str, **fields: Any) -> None:
        self._once_there_is_room(lambda: events.append(self.home.events, event, **fields))

    def _once_there_is_room(self, write: Callable[[], Any]) -> None:
        """Writes; on a full disk tries again until it can, since the run must not end for that.

        Who asks to stop does not wait: then it stays unwritten, and the run looks as if it had been killed.
        """
        told = False
        while True:
            try:
                write()
                break
            except (OSError, sqlite3.OperationalError) as error:
                if not no_room(error):
                    raise
                if self.stop_asked:
                    self.view.warn(f'what became of run "{self.home.name}" could not be noted: {error}')
                    return
                if not told:
                    self.view.warn(f'no room to write in "{self.home.path}": {error}\n  waiting until there is some')
                told = True
            time.sleep(WITHOUT_ROOM)
        if told:
            self.view.warn(f'there is room again in "{self.home.path}": run "{self.home.name}" goes on')


def show_replayed(replaying: Mapping[str, int]) -> str:
    """Which batches are done again, in words.

    >>> show_replayed({"orders": 12})
    '; batch 12 of "orders" is replayed'
    """
    return "".join(f'; batch {batch} of "{query}" is replayed' for query, batch in replaying.items())


def row_of(record: Record, totals: Totals) -> Row:
    """A run as the index has it."""
    keeper = record.supervisor
    return Row(
        name=record.name,
        status=record.status,
        since=record.since,
        file=record.file,
        mode=record.mode,
        pid=keeper.pid if keeper else None,
        born=keeper.born if keeper else None,
        progress=totals.as_dict(),
    )


def _environment() -> dict[str, str]:
    """Ours, with this very package in front: the driver must be of the same version."""
    package = str(Path(__file__).resolve().parents[2])
    path = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in (package, path) if p), "PYTHONUNBUFFERED": "1"}


def supervise(home: Home, lock: IO[str], view: View) -> int:
    """Runs a prepared run to its end; the exit code of the command."""
    return Supervisor(home, lock, view, Index(home.path.parent.parent)).run()


def log_of(home: Home) -> Path:
    """Where a supervisor that is not on a terminal prints."""
    return home.path / "logs" / "supervisor.log"


def launch(
    home: Home, lock: IO[str], *, tied: bool = False, command: Sequence[str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a supervisor as a process of its own that takes the run over.

    It outlives this process, unless it is `tied`: then it stops when its standard input is closed.
    """
    log_of(home).parent.mkdir(parents=True, exist_ok=True)
    with log_of(home).open("ab") as log:
        return subprocess.Popen(
            [*(command or (sys.executable, "-m", "headrace.run.supervisor")), str(home.path), str(lock.fileno())],
            stdin=subprocess.PIPE if tied else subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_environment(),
            start_new_session=True,
            pass_fds=(lock.fileno(),),
        )


def detach(home: Home, lock: IO[str]) -> Process:
    """Starts a supervisor that outlives this process; it takes the run over."""
    keeper = identify(launch(home, lock).pid)
    home.update(lambda r: replace(r, supervisor=keeper))
    return keeper


def main(arguments: list[str]) -> int:
    """`python -m headrace.run.supervisor HOME LOCK`, in the background."""
    home = Home(Path(arguments[0]))
    with os.fdopen(int(arguments[1]), "a+") as lock:
        try:
            watch_input(lambda: os.kill(os.getpid(), signal.SIGTERM))
            return supervise(home, lock, View(quiet=True))
        except HeadraceError as error:
            sys.stderr.write(f"{error}\n")
            return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
