"""A broker and a database that go away under a running flow: nobody is asked to do anything, nothing is lost.

Each is away for HEADRACE_OUTAGE seconds; `make outages` makes that a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
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
from headrace.run.lag import group_name
from tests.brokers import OUTAGE
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
GROUP = group_name("outages", "numbers")


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


def committed(root: Path) -> tuple[int, int]:
    """How far the run's consumer group is and how much is left, as `headrace group describe` tells anybody."""
    command = [sys.executable, "-m", "headrace.cli.main", "group", "describe", GROUP, "--json"]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    described = json.loads(said.stdout)
    return sum(p["offset"] or 0 for p in described["progress"]), described["lag"]


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

    def held(count: int) -> float:
        """Waits until the table has so many rows; for how long."""

        def there() -> bool:
            try:
                with psycopg.connect(address) as database:
                    found = database.execute("SELECT n FROM numbers ORDER BY n").fetchall()
            except psycopg.Error:
                return False  # no table yet, or nobody is let in
            return [n for (n,) in found] == list(range(count))

        since = time.monotonic()
        eventually(there, 240, diagnose=lambda: tail(home.log))
        return time.monotonic() - since

    child, recovery = None, dict[str, float]()
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
        eventually(lambda: committed(tmp_path) == (10, 0), 60, diagnose=lambda: tail(home.log))
        broker.stop(project)
        time.sleep(OUTAGE)  # the outage itself lasts that long
        feed(10)
        recovery["broker"] = held(20)
        with closed(postgresql):
            feed(20)
            time.sleep(OUTAGE)
            eventually(
                lambda: any(e["event"] == "retrying" and "away" in e for e in events.read(home.events)),
                240,
                diagnose=lambda: tail(home.log),
            )
        recovery["database"] = held(30)
        # The batch is told a moment after its rows are there.
        eventually(lambda: events.last(home.events, "recovered"), 60, diagnose=lambda: tail(home.log))
        assert "gave-up" not in [e["event"] for e in events.read(home.events)]
        for what, seconds in recovery.items():
            print(f"{what} away for {OUTAGE:g} s: the rows were there {seconds:.1f} s after it was back")
    finally:
        if child is not None:
            child.terminate()
            child.wait(120)
        broker.stop(project, delete=True)
