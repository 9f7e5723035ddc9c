"""The folder that all projects on a machine share: jars and what is made of them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_home() -> Path:
    """Where downloads are kept: `$XDG_CACHE_HOME/headrace`, else `~/.cache/headrace`."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "")
    return (base if base.is_absolute() else Path.home() / ".cache") / "headrace"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock that other processes see; it goes away with the process, however that ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
