"""From kill -9 of the driver to the first new result: how long, and what of it is whose.

    python -m bench recovery [--times 5]

A windowed flow over a Kafka of its own is fed all the time; its driver is killed in the middle of a batch. The split
comes from the run's own events: until the supervisor notices and starts another driver, until Spark is up, until the
queries run again, and until the first batch is committed. Once as a flow is run by default, and once with `--spare`,
where a second driver waits with Spark up; there the first is killed once the second is ready. Writes
bench/results/recovery.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import machine, results
from bench import report as page
from bench.measure import spread
from headrace.log import broker, topics
from headrace.observe import events
from headrace.testing.chaos import faults
from headrace.testing.chaos.feed import Feeder
from headrace.testing.chaos.run import Asked, running
from headrace.testing.chaos.scratch import move

TARGET = 12.0
FLOW = """\
flow: recovery
sources:
  orders:
    kafka: recovery-orders
    format: json
    schema: id BIGINT, user STRING, amount DOUBLE, at TIMESTAMP
    time: {column: at, watermark: 1 second}
steps:
  per_user:
    from: orders
    aggregate:
      window: {tumbling: 1 second}
      by: user
      compute: {n: count(*), total: sum(amount)}
sinks:
  store:
    from: per_user
    sqlite: {path: out.db, table: totals}
"""
STAGES = (("notice", "starting"), ("spark", "session"), ("resume", "started"), ("first batch", "progress"))
PATIENCE = 300.0


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args(arguments).times
    before = machine.describe()
    report({name: measured(times, spare=name == "with a spare") for name in ("by default", "with a spare")}, before)


def measured(times: int, *, spare: bool) -> list[dict[str, float]]:
    """The driver killed so many times."""
    runs = []
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="headrace-recovery-")))
        (folder / "user").mkdir()
        (folder / "user" / "headrace.toml").touch()
        (folder / "user" / "recovery.yaml").write_text(FLOW)
        moved = move(folder / "user" / "recovery.yaml", folder / "project", namespace="")
        cleanup.callback(broker.stop, moved.project, delete=True)
        client = {"bootstrap.servers": broker.start(moved.project).bootstrap}
        topics.create(client, "recovery-orders", 2)
        feeder = Feeder(moved, moved.streams[0], None, rate=200, seed=1)
        feeder.bootstrap = client["bootstrap.servers"]
        feeder.start()
        cleanup.callback(feeder.join, 60)
        cleanup.callback(feeder.stop)
        cleanup.enter_context(running(moved, Asked(kills=times, seconds=0, spare=spare), None))
        up = first(moved.home.events, "progress", 0.0)
        for number in range(times):
            if spare:
                first(moved.home.events, "spare", up)
            time.sleep(3)  # a few batches between two kills, so that each begins from a running state
            killed = time.time()
            faults.kill_driver(moved)
            runs.append(split(moved.home.events, killed))
            up = killed + runs[-1]["total"]
            print(f"{'spare' if spare else 'kill'} {number + 1}: {runs[-1]['total']:.2f} s  {runs[-1]}", flush=True)
    return runs


def first(path: Path, kind: str, after: float) -> float:
    """When the first event of a kind after a moment was written."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if path.exists():
            for event in events.read(path):
                at = datetime.fromisoformat(event["at"]).timestamp()
                if event["event"] == kind and at > after:
                    return at
        time.sleep(0.05)
    raise SystemExit(f'no "{kind}" within {PATIENCE:.0f} s')


def split(path: Path, killed: float) -> dict[str, float]:
    """How long each stage took, in seconds."""
    before, found = killed, {}
    for stage, kind in STAGES:
        at = first(path, kind, before)
        found[stage], before = round(at - before, 3), at
    return found | {"total": round(before - killed, 3)}


def report(found: Mapping[str, Sequence[Mapping[str, float]]], before: dict[str, Any]) -> None:
    kinds = {kind: {name: spread([run[name] for run in runs], 3) for name in runs[0]} for kind, runs in found.items()}
    results.keep("recovery", {"target_seconds": TARGET, "kinds": kinds}, of=before)
    for kind, stages in kinds.items():
        print(kind, json.dumps({name: one["median"] for name, one in stages.items()}), "target", TARGET, "s")
    print("load", before["load"])
    page.write()


if __name__ == "__main__":
    main(sys.argv[1:])
