"""Processes by identity, not by number alone: a number is given out again."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process by its number and the moment it began, as the system counts it."""

    pid: int
    born: str

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return _born(self.pid) == self.born

    def signal(self, number: signal.Signals) -> bool:
        """Sends a signal, to nobody else; False if the process is gone."""
        if not self.alive:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait(self, seconds: float) -> bool:
        """Waits until it is gone; False if it is still there after that time."""
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def end_group(self) -> None:
        """Ends whatever is left of the process group that this process led, itself included.

        A number is not given out again while a group bears it, so a group without its leader can only be ours.
        """
        born = _born(self.pid)
        if born is not None and born != self.born:
            return
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return


def identify(pid: int) -> Process:
    """The process that has this number now."""
    return Process(pid, _born(pid) or "")


def _born(pid: int) -> str | None:
    """When a process began; None if there is none, or only its remains wait to be collected."""
    if Path("/proc/self/stat").exists():
        try:
            # The name stands in brackets and may hold blanks; what follows is regular: state, …, start time.
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in "ZX" else fields[19]
    found = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, born = found.stdout.strip().partition(" ")
    return None if not born or state.startswith("Z") else born.strip()


def watch_input(ended: Callable[[], None], came: Callable[[], None] = lambda: None) -> None:
    """Tells when standard input ends, which whoever started this process holds open; and when something comes on it.

    Does nothing where standard input is no pipe.
    """
    if stat.S_ISFIFO(os.fstat(0).st_mode):

        def wait() -> None:
            while os.read(0, 4096):
                came()
            ended()

        threading.Thread(target=wait, name="starter", daemon=True).start()
