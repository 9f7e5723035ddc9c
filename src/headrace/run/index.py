"""The index of a project's runs: one row each, in an embedded SQLite database.

It answers `list` and `status` without opening a run's home. The homes are the truth; the index is what the
supervisors last said.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
  name TEXT PRIMARY KEY, status TEXT NOT NULL, since TEXT NOT NULL, file TEXT NOT NULL, mode TEXT NOT NULL,
  pid INTEGER, born TEXT, progress TEXT NOT NULL DEFAULT '{}')
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What the index knows about one run."""

    name: str
    status: str
    since: str
    file: str
    mode: str
    pid: int | None = None
    born: str | None = None
    progress: dict[str, Any] = field(default_factory=dict)


class Index:
    """A project's index; every call opens and closes the database, so that nobody waits for anybody long."""

    def __init__(self, project_home: Path) -> None:
        self._path = project_home / "index.db"

    def put(self, row: Row) -> None:
        """Adds a run or replaces what is known about it."""
        values = (row.name, row.status, row.since, row.file, row.mode, row.pid, row.born, json.dumps(row.progress))
        with self._open() as database:
            database.execute(_SCHEMA)
            database.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def progress(self, name: str, progress: dict[str, Any]) -> None:
        """Notes how far a run is."""
        with self._open() as database:
            database.execute("UPDATE runs SET progress = ? WHERE name = ?", (json.dumps(progress), name))

    def rows(self) -> list[Row]:
        """Every run, by name."""
        if not self._path.exists():
            return []
        with self._open() as database:
            database.execute(_SCHEMA)
            found = database.execute("SELECT * FROM runs ORDER BY name").fetchall()
        return [
            Row(name=n, status=s, since=t, file=f, mode=m, pid=p, born=b, progress=json.loads(g))
            for n, s, t, f, m, p, b, g in found
        ]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self._path, timeout=10)
        try:
            with database:
                yield database
        finally:
            database.close()
