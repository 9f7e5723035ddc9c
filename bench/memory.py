"""Memory and processor time of a process and all below it, read from /proc."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

EVERY = 0.25
"""Seconds between two looks: a heap grows over seconds, and a look at a hundred processes takes milliseconds."""


def below(pid: int) -> dict[int, int]:
    """A process and all below it, each with its parent."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = {pid: 0}
    todo = [pid]
    while todo:
        current = todo.pop()
        found |= dict.fromkeys(children.get(current, []), current)
        todo += children.get(current, [])
    return found


def resident(pid: int) -> dict[str, int]:
    """Bytes of resident memory of a process and all below it, by kind."""
    held: dict[str, int] = {"java": 0, "python": 0}
    programs: dict[int, str] = {}
    for current, parent in below(pid).items():
        try:
            pages = int(Path(f"/proc/{current}/statm").read_text().split()[1])
            programs[current] = Path(f"/proc/{current}/exe").readlink().name
        except (OSError, IndexError):
            continue
        # Java that is about to start a command has a child which, for a moment, is itself: the same memory again.
        if not programs[current] == programs.get(parent) == "java":
            held["java" if programs[current] == "java" else "python"] += pages * os.sysconf("SC_PAGE_SIZE")
    return held


def worked(pid: int) -> dict[int, float]:
    """Seconds of processor time of a process and of each below it."""
    found = {}
    for one in below(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[one] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


class Memory(threading.Thread):
    """The most that some processes and all below them hold while it runs, and how long they were at work."""

    def __init__(self, pids: Callable[[], Sequence[int]], every: float = EVERY) -> None:
        super().__init__(daemon=True, name="memory")
        self._pids, self._every = pids, every
        self.most = {"java": 0, "python": 0}
        self._end = threading.Event()
        self._before = self._worked()
        self._after = dict(self._before)

    def _worked(self) -> dict[int, float]:
        return {one: seconds for pid in self._pids() for one, seconds in worked(pid).items()}

    @property
    def seconds(self) -> float:
        """Of processor time; a process that has ended counts with what it had when it was last seen."""
        self._after |= self._worked()
        return sum(seconds - self._before.get(pid, 0.0) for pid, seconds in self._after.items())

    def run(self) -> None:
        while not self._end.wait(self._every):
            self._after |= self._worked()
            held = {"java": 0, "python": 0}
            for pid in self._pids():
                for kind, size in resident(pid).items():
                    held[kind] += size
            if sum(held.values()) > sum(self.most.values()):
                self.most = held

    def end(self) -> dict[str, int]:
        """The most by kind; the watching is over."""
        self._end.set()
        self.join()
        return self.most

    def __enter__(self) -> Memory:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
