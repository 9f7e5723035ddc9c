"""The machine a result was measured on, since a number without it says nothing."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


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
    }


def show(machine: dict[str, Any]) -> str:
    """One line for people."""
    return (
        f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gb']:g} GB, {machine['system']}, "
        f"Python {machine['python']}, Java {machine['java']}, load before {machine['load']:g}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")
