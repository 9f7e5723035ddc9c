"""Processes that outlive the command that started them, told apart from later ones with the same number."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_children: dict[int, subprocess.Popen[bytes]] = {}
"""Those this very process started: only their parent can take note that they ended."""


@dataclass(frozen=True)
class Process:
    """A process by number and start time; the number alone is given to another one sooner or later."""

    pid: int
    started: str

    def alive(self) -> bool:
        """Whether exactly this process still runs."""
        child = _children.get(self.pid)
        if child is not None and child.poll() is not None:
            del _children[self.pid]
        return start_time(self.pid) == self.started


def spawn(command: Sequence[str], *, output: Path, environment: Mapping[str, str] | None = None) -> Process:
    """Starts a process of its own session, so that Ctrl-C and the end of the terminal pass it by."""
    with output.open("ab") as log:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
    _children[child.pid] = child
    return Process(child.pid, start_time(child.pid) or "")


def start_time(pid: int) -> str | None:
    """When a process started, as text to compare; None if it is not there or has ended."""
    try:
        # The name may hold blanks and brackets, so fields count from the last bracket: state is 3rd, threads 20th,
        # start 22nd.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _start_time_by_ps(pid)
    except ProcessLookupError:
        return None
    # Of a process that was killed the first thread ends before the others, and its ports are free after the last.
    ended = fields[0] in "ZX" and int(fields[17]) <= 1
    return None if ended else fields[19]


def _start_time_by_ps(pid: int) -> str | None:
    """For systems without /proc."""
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False, timeout=10
    ).stdout.split(None, 1)
    return None if len(answer) < 2 or answer[0].startswith("Z") else answer[1].strip()


def stop_all(processes: Iterable[Process], patience: float) -> list[Process]:
    """Asks processes to end, all at once, and kills those that still run when patience is over; gives the killed."""
    waiting = [p for p in processes if p.alive()]
    for process in waiting:
        _signal(process, signal.SIGTERM)
    waiting = _wait(waiting, patience)
    killed = list(waiting)
    for process in waiting:
        _signal(process, signal.SIGKILL)
    _wait(waiting, 10)
    return killed


def _signal(process: Process, number: signal.Signals) -> None:
    if process.alive():
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return  # it ended by itself in between, which is what was wanted


def _wait(processes: list[Process], seconds: float) -> list[Process]:
    deadline = time.monotonic() + seconds
    while (processes := [p for p in processes if p.alive()]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return processes
