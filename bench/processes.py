"""The processes of a job: started together, watched, ended with all below them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

from bench.environments import UnavailableError
from bench.machine import Stolen
from bench.memory import EVERY, Memory
from bench.systems import Command

ENDING = 15.0
"""Seconds a process has to end by itself once it is asked to."""


Measured = dict[str, Any]
"""What was measured, or under `failed` why there is nothing."""
P = ParamSpec("P")


def reported(measure: Callable[P, Measured]) -> Callable[P, Measured]:
    """The same, with whatever goes wrong as an answer: one system that fails must not stop the others."""

    @wraps(measure)
    def attempt(*given: P.args, **named: P.kwargs) -> Measured:
        try:
            return measure(*given, **named)
        except UnavailableError as error:
            return {"failed": f"could not be installed: {error}"}
        except Exception as error:  # noqa: BLE001 - a rival may fail in any way
            traceback.print_exc()
            return {"failed": f"{type(error).__name__}: {error}"}

    return attempt


@dataclass(frozen=True, kw_only=True)
class Started:
    """The processes of a job while they run."""

    processes: Sequence[subprocess.Popen[bytes]]
    logs: Sequence[Path]
    memory: Memory
    stolen: Stolen
    at: float

    @property
    def running(self) -> bool:
        return any(p.poll() is None for p in self.processes)

    @property
    def failed(self) -> bool:
        return any(p.poll() not in (None, 0) for p in self.processes)

    def wait(self, seconds: float) -> bool:
        """Whether all ended by themselves in time."""
        deadline = time.monotonic() + seconds
        while self.running and not self.failed:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def lines(self, begin: str) -> list[str]:
        """What came after `begin` in the lines that begin so."""
        texts = (log.read_text(encoding="utf-8", errors="replace") for log in self.logs)
        return [line.removeprefix(begin) for text in texts for line in text.splitlines() if line.startswith(begin)]

    def results(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines("RESULT ")]

    def last_words(self) -> str:
        """What the first process that failed said last."""
        for process, log in zip(self.processes, self.logs):
            if process.poll() != 0:
                text = log.read_text(encoding="utf-8", errors="replace").strip()
                return f"ended with {process.poll()}: {text[-600:]}"
        return ""


@contextmanager
def started(
    commands: Sequence[Command], folder: Path, look_every: float = EVERY, cores: int | None = None
) -> Iterator[Started]:
    """Starts them; at the end nothing of them is left. Their memory is looked at every so many seconds.

    With `cores`, they and all that they start have so many together: Java's compiler and collector too, which no number
    of tasks or threads holds back.
    """
    with ExitStack() as open_files:
        at = time.time()
        processes: list[subprocess.Popen[bytes]] = []
        logs: list[Path] = []
        try:
            with _on(cores):
                for number, command in enumerate(commands):
                    logs.append(folder / f"log-{number}.txt")
                    processes.append(
                        subprocess.Popen(
                            command.arguments,
                            env={**os.environ, **command.environment},
                            cwd=folder,
                            stdin=subprocess.DEVNULL,
                            stdout=open_files.enter_context(logs[-1].open("wb")),
                            stderr=subprocess.STDOUT,
                            start_new_session=True,
                        )
                    )
            with Memory(lambda: [p.pid for p in processes if p.poll() is None], look_every) as memory:
                yield Started(processes=processes, logs=logs, memory=memory, stolen=Stolen(), at=at)
        finally:
            _end(processes)


@contextmanager
def _on(cores: int | None) -> Iterator[None]:
    """What this thread starts meanwhile runs on so many of its cores; only Linux can tell a process so."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Asks them to end, then makes them; those below too: our driver is in a session of its own and would go on."""
    import psutil

    all_ = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            all_ += psutil.Process(process.pid).children(recursive=True)
    for number, patience in ((signal.SIGTERM, ENDING), (signal.SIGKILL, ENDING)):
        for process in processes:
            if process.poll() is None or number == signal.SIGKILL:
                _signal(process.pid, number)
        deadline = time.monotonic() + patience
        while any(p.poll() is None for p in processes) and time.monotonic() < deadline:
            time.sleep(0.05)
    for one in all_:
        with suppress(psutil.NoSuchProcess):
            one.kill()


def _signal(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
