"""The demo's table in the terminal, from the flow's SQLite table and its run's progress."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.demo.velocity import OPEN, SECONDS, Velocity, velocities

if TYPE_CHECKING:
    from rich.console import RenderableType

TOP = 15


def read_counts(database: Path) -> list[tuple[datetime, str, int]]:
    """The counts of the last seconds; empty while the flow has not written any."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=2)) as connection:
        try:
            newest = connection.execute("SELECT max(window_start) FROM velocity").fetchone()[0]
            if newest is None:
                return []
            rows = connection.execute(
                "SELECT window_start, tag, n FROM velocity ORDER BY window_start DESC LIMIT 20000"
            ).fetchall()
        except sqlite3.OperationalError:  # the table is not there yet
            return []
    return [(_time(second), tag, n) for second, tag, n in rows]


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def table(
    counts: list[tuple[datetime, str, int]], waiting: str, status: str, width: int = 80, height: int = 30
) -> RenderableType:
    """The fastest tags with rate, trend and history, made to fit the terminal; `waiting` is said while there are none.

    Columns keep their widths, so that nothing jumps when other tags come up.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    seconds = max(5, min(SECONDS, width - 45))
    shown = Table(title="Hashtags used together with the ones followed", title_justify="left")
    shown.add_column("tag", width=14, no_wrap=True)
    shown.add_column("per second", justify="right", width=10)
    shown.add_column("trend", width=8, no_wrap=True)
    shown.add_column(f"last {seconds} seconds", width=seconds, no_wrap=True)
    fastest = rows(counts, max(3, min(TOP, height - 8)))
    for velocity in fastest:
        colour = {"▲": "green", "▼": "red"}.get(velocity.trend[0], "dim")
        trend = f"[{colour}]{velocity.trend}[/]"
        shown.add_row(f"#{velocity.tag}", f"{velocity.rate:.1f}", trend, velocity.line[-seconds:])
    return Group(shown if fastest else Text(waiting), Text(status, style="dim", no_wrap=True, overflow="ellipsis"))


def rows(counts: list[tuple[datetime, str, int]], top: int = TOP) -> list[Velocity]:
    """The rows of the table."""
    newest = max((second for second, _, _ in counts), default=None)
    return velocities(counts, newest - OPEN, top) if newest else []
