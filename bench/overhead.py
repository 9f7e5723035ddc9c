"""What Headrace costs over the same job written by hand: W1, JSON from Kafka, filter, 10-second counts per key.

Both jobs run in one process, on one Spark session with the same settings, in turns, several times; the answers
are compared, and the medians. `make bench-overhead` prints the ratio and writes it to bench/results/overhead.json.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import by_hand as hand
from bench import machine, results
from bench.events import load_events
from bench.measure import spread
from bench.place import Place, place

EVENTS = int(os.environ.get("EVENTS", "2000000"))
ROUNDS = int(os.environ.get("ROUNDS", "9"))
TOPIC = "events"
Seconds = dict[str, list[float]]
"""What each round took, by who ran it."""

FLOW = f"""
flow: w1
sources:
  events:
    kafka: {{topic: {TOPIC}, per_batch: 1000000}}
    format: json
    schema: {hand.SCHEMAS["w1"]}
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
    """The job as an expert would write it; how many seconds it took."""
    given = hand.events(session, bootstrap, TOPIC, hand.SCHEMAS["w1"], hand.READING)
    writer = (
        hand.windows(given)
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
    )
    begun = time.monotonic()
    writer.start().awaitTermination()
    return time.monotonic() - begun


def by_headrace(session: Any, client: dict[str, str], folder: Path) -> float:
    """The same as a flow, its ledger kept as in every run."""
    from headrace.check import load
    from headrace.compile.lower import lower
    from headrace.compile.planner import plan
    from headrace.compile.where import Where
    from headrace.run.inline import drive
    from headrace.run.ledger import Ledger

    file = folder / "w1.yaml"
    file.write_text(FLOW.replace("OUT", str(folder / "out")), encoding="utf-8")
    made = plan(load(file), cores=2)
    checkpoint = folder / "checkpoint"
    where = Where(session=session, streaming=True, home=folder, base=folder, kafka=client, counted=True)
    lowered = lower(made, made.queries[0], replace(where, checkpoint=checkpoint))
    begun = time.monotonic()
    drive(lowered, checkpoint, flush=False, ledger=Ledger(folder / "ledger.db"))
    return time.monotonic() - begun


def answer(session: Any, folder: Path) -> list[Any]:
    found = session.read.parquet(str(folder / "out")).selectExpr("window_start", "page", "n", "round(total, 4)")
    return sorted(tuple(row) for row in found.collect())


def main(_: Sequence[str] = ()) -> None:
    before = machine.describe()
    with place() as at:
        load_events(at.client, TOPIC, EVENTS)
        seconds = measure(at)
    report(seconds, before)


def measure(
    at: Place, events: int = EVENTS, rounds: int = ROUNDS, enough: Callable[[Seconds], bool] = lambda _: True
) -> Seconds:
    """The seconds of both jobs, in turns, the first round to warm up; the same answers, or none.

    There are twice as many rounds as asked for, at most, until it is enough.
    """
    from headrace.run.inline import local_session

    session = local_session(cores=2)
    seconds: Seconds = {"by hand": [], "headrace": []}
    answers = set()
    for round_ in range(2 * rounds + 1):
        if round_ > rounds and enough(seconds):
            break
        for name in ("by hand", "headrace") if round_ % 2 else ("headrace", "by hand"):
            folder = at.fresh(f"{name.replace(' ', '-')}-{round_}")
            taken = (
                by_hand(session, at.bootstrap, folder) if name == "by hand" else by_headrace(session, at.client, folder)
            )
            answers.add(json.dumps(answer(session, folder), default=str))
            label = "warm-up" if round_ == 0 else f"round {round_}"
            print(f"{label:8} {name:9} {events / taken:10,.0f} events/s", flush=True)
            if round_:
                seconds[name].append(taken)
            shutil.rmtree(folder)
    session.stop()
    if len(answers) != 1:
        sys.exit("the two jobs gave different answers")
    return seconds


def report(seconds: Seconds, before: dict[str, Any]) -> None:
    rates = {name: spread([EVENTS / s for s in taken]) for name, taken in seconds.items()}
    ratio = rates["headrace"]["median"] / rates["by hand"]["median"]
    print()
    for name, found in rates.items():
        print(f"{name:9} median {found['median']:10,} events/s, from {found['least']:,} to {found['most']:,}")
    print(f"ratio     {ratio:.3f} (1.0: Headrace costs nothing; at least 0.95 is the aim); same answers")
    found = {"events": EVENTS, "rounds": ROUNDS, "events_per_second": rates, "ratio_of_medians": round(ratio, 3)}
    results.keep("overhead", found, of=before)


if __name__ == "__main__":
    main()
