"""What can be done with runs from outside: find, look, stop. The CLI and the server call these."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from headrace.errors import InternalError, UsageError, nearest
from headrace.observe import events
from headrace.project import Project
from headrace.run.checkpoint import resume_point
from headrace.run.home import LIVE, Home, home_of
from headrace.run.index import Index, Row
from headrace.run.ledger import ledger_of
from headrace.run.process import Process

STOP_WITHIN = 60.0


def runs(project: Project) -> list[Row]:
    """Every run of a project as it is now; reads the index only."""
    return [_as_it_is(row) for row in Index(project.home).rows()]


def _as_it_is(row: Row) -> Row:
    alive = row.pid is not None and Process(row.pid, row.born or "").alive
    return replace(row, status="died") if row.status in LIVE and not alive else row


def find(project: Project, run: str) -> Home:
    """The home of a run by its name or its flow's file; raises UsageError with the nearest name."""
    home = home_of(project.home, run)
    if "/" not in run and home.exists:
        return home
    rows = Index(project.home).rows()
    wanted = str(Path(run).absolute())
    for row in rows:
        if row.file == wanted:
            return home_of(project.home, row.name)
    hint = nearest(run, [r.name for r in rows]).replace("It takes", "There are") if rows else "nothing has run here yet"
    raise UsageError(f'there is no run "{run}"', hint=hint)


def find_all(project: Project, run: str) -> list[Home]:
    """The homes that a name, a flow's file or a folder of flows stands for; of a folder only those that run."""
    folder = Path(run).absolute()
    if not folder.is_dir() or home_of(project.home, run).exists:
        return [find(project, run)]
    below = [row for row in runs(project) if Path(row.file).is_relative_to(folder) and row.status in LIVE]
    return [home_of(project.home, row.name) for row in below]


def status(home: Home) -> dict[str, Any]:
    """Everything worth knowing about one run, as plain data."""
    record = home.read()
    row = next((r for r in Index(home.path.parent.parent).rows() if r.name == home.name), None)
    last = events.last(home.events, "progress")
    restart = events.last(home.events, "restarted")
    recovered = events.last(home.events, "recovered")
    shown = record.shown_status
    return {
        "name": record.name,
        "status": shown,
        "since": record.since,
        "file": record.file,
        "mode": record.mode,
        "home": str(home.path),
        "log": str(home.log),
        "pid": record.supervisor.pid if record.supervisor and shown in LIVE else None,
        "restarts": record.restarts,
        "last_restart": dict(restart) if restart else None,
        "last_recovery": dict(recovered) if recovered else None,
        "drained": record.drained,
        "failure": dict(record.failure) if record.failure else None,
        "asked": asdict(record.asked),
        "progress": row.progress if row else {},
        "last_batch": dict(last) if last else None,
        "ledger": ledger_of(home).totals(),
        "resume": _resume(home, list(record.queries)),
    }


def _resume(home: Home, queries: list[str]) -> dict[str, Any]:
    """Where each query goes on; of checkpoints that only Spark can read, as it was last said."""
    if all(isinstance(home.checkpoint(name), Path) for name in queries):
        return {name: resume_point(home.checkpoint(name)) for name in queries}
    said = events.last(home.events, "stopped") or {}
    return dict(said.get("resume") or dict.fromkeys(queries))


def stop(home: Home, *, within: float = STOP_WITHIN, waiting: Callable[[], None] = lambda: None) -> bool:
    """Asks a run to stop and waits until all of it is gone; False if it did not run."""
    record = home.read()
    keeper, driver = record.supervisor, record.driver
    if keeper is not None and keeper.signal(signal.SIGTERM):
        waiting()
        if not keeper.wait(within):
            raise InternalError(
                f'run "{home.name}" has not stopped within {within:.0f} s (process {keeper.pid})',
                hint=f"see {home.log}; kill -9 {keeper.pid} ends it at once, and it can be resumed all the same",
            )
        return True
    if driver is not None and driver.alive:  # its supervisor was killed; it stops by itself
        driver.signal(signal.SIGTERM)
        driver.wait(within)
        return True
    return False
