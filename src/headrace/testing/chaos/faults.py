"""What is done to a flow: each fault on its own, on real processes, found by their identity and nothing else."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from headrace.log import broker, state
from headrace.log.state import Node
from headrace.project import Project
from headrace.run.home import Home
from headrace.testing.chaos.scratch import DATABASE, Moved

KINDS: Mapping[str, str] = {
    "driver": "kill -9 of the driver and its Java",
    "executor": "kill -9 of an executor of the cluster",
    "broker": "kill -9 of the broker, started again",
    "pause": "the broker stopped for seconds (SIGSTOP)",
    "full-disk": "the driver's Java can write no byte to any file (RLIMIT_FSIZE), as on a full disk",
    "slow-sink": "the sink's table locked for seconds",
    "clock": "the clock of the run's processes set forward or back, by up to half an hour",
}

KILLS = frozenset({"driver", "executor", "broker"})
"""Those that are counted as kills; the others come in between."""


def possible(flows: tuple[Moved, ...], *, cluster: bool, clock: bool) -> list[str]:
    """The faults that can be done to these flows; those of the broker only if all of them use it."""
    kafka = all(any(p.connector == "kafka" for p in m.ends) for m in flows)
    found = ["driver", "full-disk"]
    if clock:
        found.append("clock")
    if cluster:
        found.append("executor")
    if kafka:
        found += ["broker", "pause"]
    if any(fits("slow-sink", m) for m in flows):
        found.append("slow-sink")
    return found


def fits(kind: str, moved: Moved) -> bool:
    """Whether a fault that can be done to some of the flows can be done to this one."""
    return kind != "slow-sink" or any(sink.connector in _LOCKS for sink in moved.flow.sinks)


def kill_driver(moved: Moved) -> bool:
    """Kills the driver and everything it has started; False if there is none."""
    driver = moved.home.read().driver
    if driver is None or not driver.alive:
        return False
    driver.end_group()
    return True


def fill_disk(moved: Moved) -> bool:
    """Takes from the driver's Java the right to make any file longer, until it is restarted."""
    driver = moved.home.read().driver
    done = False
    for pid in _java_of(driver.pid) if driver is not None and driver.alive else ():
        try:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, 0))
            done = True
        except ProcessLookupError:
            continue
    return done


def kill_executor(home: Home) -> bool:
    """Kills one executor that works for the driver of a run."""
    driver = home.read().driver
    if driver is None or not driver.alive:
        return False
    port = _driver_ports(driver.pid)
    for pid, command in _commands():
        if "CoarseGrainedExecutorBackend" in command and any(f":{p}" in command for p in port):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def _driver_ports(leader: int) -> list[str]:
    """The ports that a driver's Java told its executors, by what the executors were told."""
    own = set(_java_of(leader))
    inodes: set[str] = set()
    for pid in own:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = str(link.readlink())
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    ports = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:  # it listens
                ports.append(str(int(fields[1].rsplit(":", 1)[1], 16)))
    return ports


def _commands() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            yield int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue


def _java_of(leader: int) -> list[int]:
    """The Java processes in a driver's process group."""
    found = []
    for pid, command in _commands():
        try:
            if os.getpgid(pid) == leader and "java" in command.split(" ", 1)[0]:
                found.append(pid)
        except ProcessLookupError:
            continue
    return found


def kill_broker(project: Project) -> None:
    """Kills the scratch project's broker and starts it again."""
    for node in _nodes(project):
        assert node.process is not None
        os.kill(node.process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while _nodes(project) and time.monotonic() < deadline:
        time.sleep(0.05)
    broker.start(project)


def pause_broker(project: Project, seconds: float) -> None:
    """Stops the broker where it is, and lets it go on."""
    nodes = _nodes(project)
    for node in nodes:
        assert node.process is not None
        os.kill(node.process.pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)  # the fault itself lasts that long
    finally:
        for node in nodes:
            assert node.process is not None
            os.kill(node.process.pid, signal.SIGCONT)


def _nodes(project: Project) -> list[Node]:
    info = state.read(project.home)
    return [node for node in info.nodes if node.process is not None and node.alive()] if info else []


def slow_sink(moved: Moved, seconds: float) -> bool:
    """Holds the tables of a flow's sinks locked; they are let go by a thread of its own."""
    done = False
    for sink in moved.flow.sinks:
        lock = _LOCKS.get(sink.connector)
        if lock is not None:
            threading.Thread(target=lock, args=(moved, sink.options, seconds), daemon=True).start()
            done = True
    return done


def _lock_sqlite(moved: Moved, options: Any, seconds: float) -> None:
    path = moved.project.root / options.path
    if not path.exists():
        return
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        time.sleep(seconds)
        database.execute("ROLLBACK")


def _lock_postgresql(moved: Moved, options: Any, seconds: float) -> None:
    import psycopg

    table = f'"{options.namespace}"."{options.table}"'
    with psycopg.connect(os.environ[DATABASE]) as database:
        if database.execute("SELECT to_regclass(%s)", (table,)).fetchone() != (None,):
            database.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            time.sleep(seconds)
        database.rollback()


_LOCKS: Mapping[str, Callable[[Moved, Any, float], None]] = {
    "sqlite": _lock_sqlite,
    "postgresql": _lock_postgresql,
}
