"""Real servers for tests, as ordinary processes on free loopback ports, each in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp


def free_port() -> int:
    """A port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def postgresql_binaries() -> Path:
    """The folder with `initdb` and `pg_ctl`; Debian keeps them out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    if not found and on_path is None:
        raise RuntimeError(
            "PostgreSQL is not installed; the tests start one of their own.\n"
            "  hint: apt-get install --no-install-recommends postgresql (or your system's package of that name)"
        )
    return found[-1].parent if found else Path(str(on_path)).resolve().parent


@contextmanager
def running_postgresql(folder: Path) -> Iterator[str]:
    """A PostgreSQL on a free port, stopped and gone afterwards; gives its address."""
    binaries = postgresql_binaries()
    # It refuses to run as root; the user it runs as must be able to reach its folder, which pytest's own are not for.
    user = "postgres" if os.geteuid() == 0 else None
    home = Path(mkdtemp(prefix="headrace-postgresql-"))
    log, port = folder / "postgresql.log", free_port()
    if user is not None:
        os.chown(home, pwd.getpwnam(user).pw_uid, -1)
    options = (
        f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home} -c fsync=off "
        "-c max_connections=50 -c shared_buffers=32MB -c wal_level=logical"
    )

    def run(*command: str) -> None:
        done = subprocess.run(
            command,
            user=user,
            group=user,
            extra_groups=[] if user else None,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=said,  # a file: the daemon it starts would hold a pipe open
            stderr=subprocess.STDOUT,
            timeout=60,
        )
        if done.returncode:
            raise RuntimeError(f"{Path(command[0]).name} failed:\n{log.read_text()}")

    try:
        with log.open("wb") as said:
            run(
                str(binaries / "initdb"),
                "-D",
                f"{home}/data",
                "-A",
                "trust",
                "-U",
                "postgres",
                "--no-sync",
                "-E",
                "UTF8",
            )
            control = (str(binaries / "pg_ctl"), "-D", f"{home}/data", "-w")
            run(*control, "-l", f"{home}/server.log", "-o", options, "start")
            try:
                yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
            finally:
                run(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)
