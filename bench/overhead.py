"""What Headrace costs over the same job written by hand: W1, JSON from Kafka, filter, 10-second counts per key.

Both jobs run in one process, on one Spark session with the same settings, in turns, several times; the answers
are compared, and the medians. `make bench-overhead` prints the ratio and writes it to bench/results/overhead.json.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from events import load_events

EVENTS = int(os.environ.get("EVENTS", "2000000"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
TOPIC = "events"
SCHEMA = "page STRING, type STRING, amount DOUBLE, ts TIMESTAMP"

FLOW = f"""
flow: w1
sources:
  events:
    kafka: {{topic: {TOPIC}, per_batch: 1000000}}
    format: json
    schema: {SCHEMA}
    time: {{column: ts, watermark: 5 seconds}}
steps:
  shown:
    from: events
    filter: type <> 'view'
  per_page:
    from: shown
    aggregate:
      by: page
      window: {{tumbling: 10 seconds}}
      compute: {{n: count(*), total: sum(amount)}}
sinks:
  out:
    from: per_page
    files: {{path: OUT}}
    format: parquet
"""


def by_hand(session: Any, bootstrap: str, folder: Path) -> float:
    """The job as an expert would write it."""
    from pyspark.sql import functions as F

    raw = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 1_000_000)
        .option("kafka.max.poll.records", 5000)
        .load()
    )
    events = raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("r")).select("r.*")
    counted = (
        events.withWatermark("ts", "5 seconds")
        .filter("type <> 'view'")
        .groupBy(F.window("ts", "10 seconds"), "page")
        .agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
        .select(
            F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), "page", "n", "total"
        )
    )
    writer = (
        counted.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
    )
    begun = time.monotonic()
    writer.start().awaitTermination()
    return time.monotonic() - begun


def by_headrace(session: Any, client: dict[str, str], folder: Path) -> float:
    """The same as a flow."""
    from headrace.check import load
    from headrace.compile.lower import Where
    from headrace.compile.planner import plan
    from headrace.run.inline import run_to_end

    file = folder / "w1.yaml"
    file.write_text(FLOW.replace("OUT", str(folder / "out")), encoding="utf-8")
    made = plan(load(file), cores=2)
    where = Where(session=session, streaming=True, home=folder, base=folder, kafka=client)
    begun = time.monotonic()
    run_to_end(made, made.queries[0], where, folder / "checkpoint", flush=False)
    return time.monotonic() - begun


def answer(session: Any, folder: Path) -> list[Any]:
    found = session.read.parquet(str(folder / "out")).selectExpr("window_start", "page", "n", "round(total, 4)")
    return sorted(tuple(row) for row in found.collect())


def main() -> None:
    from headrace.log import broker
    from headrace.project import Project
    from headrace.run.inline import local_session

    work = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    (work / "headrace.toml").touch()
    project = Project.find(work)
    try:
        running = broker.start(project)
        client = {"bootstrap.servers": running.bootstrap}
        load_events(client, TOPIC, EVENTS)
        session = local_session(cores=2)
        seconds: dict[str, list[float]] = {"by hand": [], "headrace": []}
        answers = set()
        for round_ in range(ROUNDS + 1):
            for name in ("by hand", "headrace") if round_ % 2 else ("headrace", "by hand"):
                folder = work / f"{name.replace(' ', '-')}-{round_}"
                folder.mkdir()
                taken = (
                    by_hand(session, running.bootstrap, folder)
                    if name == "by hand"
                    else by_headrace(session, client, folder)
                )
                answers.add(json.dumps(answer(session, folder), default=str))
                label = "warm-up" if round_ == 0 else f"round {round_}"
                print(f"{label:8} {name:9} {EVENTS / taken:10,.0f} events/s", flush=True)
                if round_:
                    seconds[name].append(taken)
                shutil.rmtree(folder)
        session.stop()
    finally:
        broker.stop(project, delete=True)
        shutil.rmtree(work, ignore_errors=True)
    if len(answers) != 1:
        sys.exit("the two jobs gave different answers")
    report(seconds)


def report(seconds: dict[str, list[float]]) -> None:
    rates = {name: [EVENTS / s for s in taken] for name, taken in seconds.items()}
    medians = {name: statistics.median(r) for name, r in rates.items()}
    ratio = medians["headrace"] / medians["by hand"]
    print()
    for name, found in rates.items():
        print(f"{name:9} median {medians[name]:10,.0f} events/s, from {min(found):,.0f} to {max(found):,.0f}")
    print(f"ratio     {ratio:.3f} (1.0: Headrace costs nothing; at least 0.95 is the aim); same answers")
    result = {
        "events": EVENTS,
        "rounds": ROUNDS,
        "events_per_second": {name: [round(r) for r in found] for name, found in rates.items()},
        "ratio_of_medians": round(ratio, 3),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "when": time.strftime("%Y-%m-%d"),
    }
    target = Path(__file__).parent / "results" / "overhead.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
