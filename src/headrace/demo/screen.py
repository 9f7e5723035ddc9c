"""The demo's table in the terminal, from the flow's SQLite table and its run's progress."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.demo.velocity import SECONDS, Velocity, velocities

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


def table(counts: list[tuple[datetime, str, int]], status: str) -> RenderableType:
    """The fastest tags with rate, trend and history."""
    from rich.table import Table

    newest = max((second for second, _, _ in counts), default=None)
    shown = Table(
        title=f"hashtag velocity{f' at {newest:%H:%M:%S} UTC' if newest else ''}",
        caption=status,
        title_justify="left",
        caption_justify="left",
        min_width=70,
    )
    shown.add_column("tag")
    shown.add_column("per second", justify="right")
    shown.add_column("trend", min_width=8)
    shown.add_column(f"last {SECONDS} seconds", min_width=SECONDS)
    for velocity in rows(counts):
        colour = {"▲": "green", "▼": "red"}.get(velocity.trend[0], "dim")
        trend = f"[{colour}]{velocity.trend}[/]"
        shown.add_row(f"#{velocity.tag}", f"{velocity.rate:.1f}", trend, velocity.line)
    if newest is None:
        shown.add_row("…", "", "", "waiting for the first window")
    return shown


def rows(counts: list[tuple[datetime, str, int]]) -> list[Velocity]:
    """The rows of the table."""
    newest = max((second for second, _, _ in counts), default=None)
    return velocities(counts, newest, TOP) if newest else []
