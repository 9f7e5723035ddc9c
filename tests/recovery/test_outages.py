"""A broker and a database that go away under a running flow: nobody is asked to do anything, nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from headrace.log import broker, topics
from headrace.log.produce import produce
from headrace.observe import events
from headrace.project import Project
from headrace.run.home import home_of
from tests.waiting import eventually, tail

FLOW = """
flow: outages
sources:
  numbers:
    kafka: numbers
    format: json
    schema: n BIGINT
sinks:
  store:
    from: numbers
    postgresql: {url: "${env:OUTAGE_URL}", table: numbers}
"""


@contextmanager
def closed(admin: str) -> Iterator[None]:
    """The database refuses everybody, as one that is being restarted does."""
    with psycopg.connect(admin, autocommit=True) as database:
        database.execute("ALTER DATABASE outage ALLOW_CONNECTIONS false")
        database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'outage'")
        try:
            yield
        finally:
            database.execute("ALTER DATABASE outage ALLOW_CONNECTIONS true")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_broker_and_a_database_that_go_away_are_ridden_out(tmp_path: Path, postgresql: str) -> None:
    with psycopg.connect(postgresql, autocommit=True) as database:
        database.execute("CREATE DATABASE outage")
    address = postgresql.removesuffix("/postgres") + "/outage"
    (tmp_path / "outages.yaml").write_text(FLOW)
    (tmp_path / "headrace.toml").write_text('[spark]\nmaster = "local[2]"\n')
    project = Project.find(tmp_path)
    home = home_of(project.home, "outages")

    def feed(first: int) -> None:
        client = {"bootstrap.servers": broker.start(project).bootstrap}
        produce(client, "numbers", [(None, b'{"n": %d}' % n) for n in range(first, first + 10)], spread="round-robin")

    def held(count: int) -> None:
        def there() -> bool:
            try:
                with psycopg.connect(address) as database:
                    found = database.execute("SELECT n FROM numbers ORDER BY n").fetchall()
            except psycopg.Error:
                return False  # no table yet, or nobody is let in
            return [n for (n,) in found] == list(range(count))

        eventually(there, 240, diagnose=lambda: tail(home.log))

    child = None
    try:
        topics.create({"bootstrap.servers": broker.start(project).bootstrap}, "numbers", 2)
        feed(0)
        child = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.main", "run", "outages.yaml", "--quiet"],
            cwd=tmp_path,
            env={**os.environ, "OUTAGE_URL": address},
            start_new_session=True,
        )
        held(10)
        broker.stop(project)
        feed(10)
        held(20)
        with closed(postgresql):
            feed(20)
            eventually(
                lambda: any(e["event"] == "retrying" and "away" in e for e in events.read(home.events)),
                240,
                diagnose=lambda: tail(home.log),
            )
        held(30)
        # The batch is told a moment after its rows are there.
        eventually(lambda: events.last(home.events, "recovered"), 60, diagnose=lambda: tail(home.log))
        assert "gave-up" not in [e["event"] for e in events.read(home.events)]
    finally:
        if child is not None:
            child.terminate()
            child.wait(120)
        broker.stop(project, delete=True)
