"""The wall clock of a run, set forward and back: a small library in each of its processes answers for the system's.

It is built with the machine's C compiler; where there is none, clocks stay as they are.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


class Clock:
    """The clock of all processes that have its environment."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library, self._file = library, file
        self.move(0.0)

    def move(self, seconds: float) -> None:
        """Sets it so far from the system's."""
        with self._file.open(
            "r+b" if self._file.exists() else "wb"
        ) as file:  # it is mapped: the same file, in one write
            file.write(struct.pack("q", round(seconds * 1_000_000_000)))

    def environment(self) -> dict[str, str]:
        """What a process must be started with."""
        others = os.environ.get("LD_PRELOAD", "")
        return {"LD_PRELOAD": f"{self._library} {others}".strip(), "HEADRACE_CHAOS_CLOCK": str(self._file)}


def build(folder: Path) -> Clock | None:
    """A clock that can be moved; None: there is no compiler that could make one."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    library = folder / "clock.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    return Clock(library, folder / "clock")
