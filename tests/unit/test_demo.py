"""The demo's table: what it shows, and that it fits the terminal."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest

from headrace.check import load
from headrace.demo import run
from headrace.demo.screen import read_counts, rows, table
from headrace.errors import UsageError
from headrace.project import Project

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)


def counts(tag: str, *newest_last: int) -> list[tuple[datetime, str, int]]:
    """Counts of the last seconds; the newest is the one that is still open."""
    ages = range(len(newest_last) - 1, -1, -1)
    return [(NOW - timedelta(seconds=age), tag, n) for age, n in zip(ages, newest_last, strict=True) if n]


def test_a_rate_is_that_of_the_last_five_whole_seconds_and_the_trend_is_against_the_five_before() -> None:
    found = rows(
        [*counts("up", 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 99), *counts("even", *[2] * 11), *counts("gone", 9, *[0] * 35)]
    )

    assert [(v.tag, v.rate, v.trend) for v in found] == [("up", 3.0, "▲ +2.0"), ("even", 2.0, "→")]
    assert found[0].line.endswith("▃▃▃▃▃█████")
    assert rows([]) == []


@pytest.mark.parametrize(("width", "height"), [(100, 40), (80, 24), (60, 12)])
def test_the_table_fits_the_terminal_and_does_not_change_its_shape(width: int, height: int) -> None:
    from rich.console import Console

    def shown(given: list[tuple[datetime, str, int]]) -> list[str]:
        console = Console(file=StringIO(), width=width, height=height)
        with console.capture() as capture:
            console.print(
                table(given, "Spark is starting", "1,234 tweets sent · Ctrl-C stops everything", width, height)
            )
        return capture.get().splitlines()

    many = [count for n in range(30) for count in counts(f"tag{n}", *[n] * 20)]
    full = shown(many)
    assert len(full) <= height - 1
    assert max(map(len, full)) <= width
    assert "#tag29" in "\n".join(full)
    assert full[-1].startswith("1,234 tweets sent")
    assert full[1] == shown(counts("a-tag-with-a-rather-long-name", *[1] * 20))[1], "columns keep their widths"
    assert shown([])[0] == "Spark is starting"


def test_counts_that_are_not_there_yet_are_none(tmp_path: Path) -> None:
    database = tmp_path / "velocity.db"
    assert read_counts(database) == []
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE other (x)")
        assert read_counts(database) == []
        connection.execute("CREATE TABLE velocity (window_start TEXT, tag TEXT, n INTEGER)")
        connection.execute("INSERT INTO velocity VALUES ('2026-01-01 12:00:30', 'ai', 3)")
        connection.commit()
    assert read_counts(database) == [(NOW, "ai", 3)]


def test_without_a_terminal_the_rates_are_shown_at_the_end_also_when_that_is_a_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with closing(sqlite3.connect(tmp_path / "velocity.db")) as connection:
        connection.execute("CREATE TABLE velocity (window_start TEXT, tag TEXT, n INTEGER)")
        for second in range(20, 31):
            connection.execute("INSERT INTO velocity VALUES (?, 'ai', 3)", (f"2026-01-01 12:00:{second}",))
        connection.commit()
    monkeypatch.setattr(run.time, "sleep", interrupted)

    flow = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with pytest.raises(KeyboardInterrupt):
            run._show(tmp_path, Project.find(tmp_path), flow, None, lambda: 0)
    finally:
        flow.kill()
        flow.communicate()

    assert capsys.readouterr().out.startswith("#ai                 3.0/s →")


def test_the_flow_of_the_demo_has_no_problems() -> None:
    assert load(Path(run.__file__).with_name("hashtag-velocity.yaml")).name == run.FLOW


def test_a_folder_that_is_not_a_demos_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()

    with pytest.raises(UsageError, match="not empty"):
        run.run_demo(tmp_path, None, print)

    assert (tmp_path / "mine.txt").exists()
