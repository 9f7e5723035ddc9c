"""The machine a result was measured on, since a number without it says nothing; and whether it is at rest."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

QUIET = 15.0
"""Percent of all cores in use below which the machine is at rest."""
REST, PATIENCE, LOOK = 2.0, 20.0, 0.5
"""Seconds it must be at rest, seconds that is waited for, seconds of one look."""


def describe() -> dict[str, Any]:
    """What a reader needs to set a result beside one of their own; `load` says how quiet it was."""
    from headrace.log.java import find_java

    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release().split('-')[0]}, {platform.machine()}",
        "python": platform.python_version(),
        "java": str(find_java().version),
        "load": round(os.getloadavg()[0], 1),
        "commit": commit(),
    }


def show(machine: dict[str, Any]) -> str:
    """One line for people."""
    of = f", commit {machine['commit']}" if "commit" in machine else ""
    return (
        f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gb']:g} GB, {machine['system']}, "
        f"Python {machine['python']}, Java {machine['java']}, load before {machine['load']:g}{of}"
    )


def commit() -> str:
    """The commit of the checkout that is measured, with a plus if there is more in it than that."""
    root = Path(__file__).resolve().parent.parent

    def git(*arguments: str) -> str:
        asked = ["git", "-C", str(root), *arguments]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # What benchmarks write is no change of what they measure.
        changed = git("status", "--porcelain", "-uno", "--", ".", ":!bench/results", ":!docs")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def settle() -> float:
    """Waits until the machine is at rest, not for long; percent in use then.

    By what is in use now and not by the load average, which still counts the last run a minute after it.
    """
    import psutil

    looks: list[float] = []
    deadline = time.monotonic() + PATIENCE
    while not at_rest(looks) and time.monotonic() < deadline:
        looks.append(psutil.cpu_percent(interval=LOOK))
    recent = looks[-round(REST / LOOK) :]
    busy = sum(recent) / len(recent)
    if not at_rest(looks):
        print(f"the machine is not at rest after {PATIENCE:.0f} s: {busy:.0f} % in use", file=sys.stderr, flush=True)
    return round(busy, 1)


def at_rest(looks: list[float]) -> bool:
    """Whether the last looks, each a percentage in use, are low for long enough.

    >>> at_rest([90.0, 1.0, 2.0, 1.0, 3.0]), at_rest([1.0, 2.0, 1.0, 40.0]), at_rest([1.0])
    (True, False, False)
    """
    needed = round(REST / LOOK)
    return len(looks) >= needed and max(looks[-needed:]) < QUIET


class Stolen:
    """What other machines on the same hardware take of this one's processors, from now on.

    >>> 0 <= Stolen().percent() <= 100
    True
    """

    def __init__(self) -> None:
        self._before = _spent()

    def percent(self) -> float:
        """Of all processor time there was; nothing where the system does not tell."""
        (stolen, all_), (stolen_before, all_before) = _spent(), self._before
        return round(100 * (stolen - stolen_before) / max(all_ - all_before, 0.01), 1)


def _spent() -> tuple[float, float]:
    """Seconds of processor time that were stolen since the machine started, and all there were."""
    import psutil

    times = psutil.cpu_times()
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # they are in `user` too
    return getattr(times, "steal", 0.0), sum(times) - guests


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")
