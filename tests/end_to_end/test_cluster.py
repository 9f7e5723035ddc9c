"""The same flow on a real cluster: a Spark master and two workers, of which one loses its executor."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headrace.observe import events
from headrace.run.home import home_of
from headrace.testing.chaos.faults import kill_executor
from headrace.testing.cluster import running_spark_cluster
from tests.commands import Place
from tests.waiting import eventually

FLOW = """\
flow: readings
sources:
  readings:
    kafka: {topic: cluster-readings, per_batch: 40}
    format: json
    schema: at TIMESTAMP, sensor STRING, celsius DOUBLE
    time: {column: at, watermark: 30 seconds}
steps:
  kelvin:
    from: readings
    with:
      kelvin: {python: "units:kelvin", returns: DOUBLE}
  per_minute:
    from: kelvin
    aggregate:
      by: sensor
      window: {tumbling: 1 minute}
      compute: {n: count(*), warmest: max(kelvin)}
sinks:
  store:
    from: per_minute
    sqlite: {path: out/readings.db, table: readings, key: [window_start, sensor]}
  kept:
    from: per_minute
    files: {path: out/kept}
    format: json
"""
UNITS = """\
def kelvin(celsius):
    from constants import ZERO  # found on the executor only if it was sent there

    return round(float(str(celsius)) - ZERO, 2)
"""
MINUTES, SENSORS = 4, 3


def readings() -> list[dict[str, object]]:
    return [
        {"at": f"2026-01-01T00:{n // 60:02d}:{n % 60:02d}Z", "sensor": f"s{n % SENSORS}", "celsius": n / 10}
        for n in range(MINUTES * 60)
    ]


def expected() -> list[tuple[int, str, int, float]]:
    found: dict[tuple[int, str], list[float]] = {}
    for reading in readings():
        key = (int(str(reading["at"])[14:16]), str(reading["sensor"]))
        found.setdefault(key, []).append(round(float(str(reading["celsius"])) + 273.15, 2))
    return sorted((*key, len(values), max(values)) for key, values in found.items())


@pytest.mark.slow
def test_a_flow_gives_the_right_rows_on_a_cluster_of_two_workers_though_an_executor_is_killed(
    place: Place, broker: str, tmp_path: Path
) -> None:
    (place.root / "headrace.toml").write_text(
        '[spark.settings]\n"spark.executor.memory" = "512m"\n"spark.executor.cores" = "1"\n'
    )
    (place.root / "flow.yaml").write_text(FLOW)
    (place.root / "units.py").write_text(UNITS)
    (place.root / "constants.py").write_text("ZERO = -273.15\n")
    (place.root / "readings.jsonl").write_text("".join(json.dumps(r) + "\n" for r in readings()))
    place.environment = {"HEADRACE_KAFKA_BOOTSTRAP": broker}
    place.run("topic", "create", "cluster-readings", "--partitions", "2")
    place.run("produce", "cluster-readings", "readings.jsonl", "--key-column", "sensor")

    (tmp_path / "cluster").mkdir()
    with running_spark_cluster(tmp_path / "cluster") as cluster:
        home = home_of(place.root / ".headrace", "readings")
        child = place.start("run", "flow.yaml", "--until-done", "--master", cluster.master)
        begun = lambda: any(e["event"] == "progress" for e in events.read(home.events))  # noqa: E731
        eventually(begun, 180, every=0.05, diagnose=place.logs)
        assert kill_executor(home)
        said = place.ended(child)
        applications = cluster.state()["completedapps"]

    with closing(sqlite3.connect(place.root / "out" / "readings.db")) as database:
        rows = database.execute("SELECT window_start, sensor, n, warmest FROM readings").fetchall()
    assert sorted((int(row[0][14:16]), *row[1:]) for row in rows) == expected()
    parts = (place.root / "out" / "kept").glob("part-*")
    kept = [json.loads(line) for file in parts for line in file.read_text().splitlines()]
    assert sorted((int(k["window_start"][14:16]), k["sensor"], k["n"], k["warmest"]) for k in kept) == expected()
    assert f"finished · in {MINUTES * 60} · out {MINUTES * SENSORS}" in said.err
    assert [a["name"] for a in applications] == ["headrace readings"]
    assert home.read().restarts == 0, "Spark goes on without the driver being started again"
    executors = list((tmp_path / "cluster").glob("worker-*/app-*/*/stderr"))
    assert len(executors) == 3, "the one that was killed is replaced"
    assert len({path.parents[2] for path in executors}) == 2, "both workers took part"
