"""Sees to it that PostgreSQL's programs are on the machine; the tests start a server of their own from them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

DEBIAN = "/usr/lib/postgresql"
"""Debian keeps the server's programs here, by version, and not on the path."""


def initdb() -> Path | None:
    """PostgreSQL's `initdb`, the newest there is, or None."""
    on_path = shutil.which("initdb")
    by_version = sorted(Path(DEBIAN).glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return Path(on_path) if on_path else by_version[-1] if by_version else None


def main() -> None:
    """Installs Debian's package where that is possible, and else says what to do."""
    if initdb():
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.exit(
            "make test: PostgreSQL's initdb is not on this machine, and the tests need a real server\n"
            "  hint: install PostgreSQL (on Debian: apt-get install postgresql) and run it again"
        )
    print("setup: PostgreSQL, from Debian", file=sys.stderr, flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in ("update", "install --yes --no-install-recommends postgresql"):
        arguments = ["apt-get", "--quiet=2", *command.split()]
        done = subprocess.run(arguments, env=quiet, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
        if done.returncode != 0:
            sys.exit(f"make test: {' '.join(arguments)} failed\n  hint: what it says is above")
    if not initdb():
        sys.exit("make test: Debian's postgresql was installed, but has no initdb")


if __name__ == "__main__":
    main()
