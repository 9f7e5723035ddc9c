"""Events per second and memory held for every kind of window, over the same 4 million events of 10,000 users.

Each kind is a flow of its own (JSON from Kafka, one window per user, count and sum, Parquet files) and runs to its end,
last windows included, in turns, each time in a process of its own behind a run of the same that does not count: what
another kind has left in Java's memory is no part of it. Time spent on the processors is measured beside the time that
passed, because only the latter depends on who else is busy. `make
bench-windows` prints a table with bars and writes bench/results/windows.json; `EVENTS=1500000` makes it quick (with far
fewer no window by count is ever full), `ONLY="tumbling count"` takes some of them, and neither writes the file. Fails
if a window by count or a sliding one is slower than a quarter of tumbling.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench import machine, results, show
from bench.events import SCHEMA, USERS, load_events
from bench.memory import Memory
from bench.place import place

FULL = 4_000_000
EVENTS = int(os.environ.get("EVENTS", FULL))
ROUNDS = int(os.environ.get("ROUNDS", "2"))
ONLY = os.environ.get("ONLY", "").split()
TOPIC = "events"
LEAST = 0.25

KINDS = {
    "tumbling": "{tumbling: 10 seconds}",
    "hopping": "{hopping: 10 seconds, every: 5 seconds}",
    "session": "{session: 300 milliseconds}",
    "session at most": "{session: 300 milliseconds, at_most: 10 seconds}",
    "count": "{count: 100}",
    "count sliding": "{count: 10, each: 5}",
    "sliding": "{sliding: 1 second}",
}
NATIVE = ("tumbling", "hopping", "session")

FLOW = f"""
flow: NAME
sources:
  events:
    kafka: {{topic: {TOPIC}, per_batch: 1000000}}
    format: json
    schema: {SCHEMA}
    time: {{column: ts, watermark: 5 seconds}}
steps:
  windows:
    from: events
    aggregate:
      by: user
      window: WINDOW
      compute: {{n: count(*), total: sum(amount)}}
sinks:
  out:
    from: windows
    files: {{path: OUT}}
    format: parquet
"""


def run(session: Any, client: dict[str, str], folder: Path, kind: str) -> dict[str, Any]:
    """One flow from start to end: how long, how many windows, what state was held, how much memory."""
    from headrace.check import load
    from headrace.compile.planner import plan
    from headrace.compile.where import Where
    from headrace.run.inline import run_to_end

    file = folder / "flow.yaml"
    name = kind.replace(" ", "-")
    text = FLOW.replace("NAME", name).replace("WINDOW", KINDS[kind]).replace("OUT", str(folder / "out"))
    file.write_text(text, encoding="utf-8")
    made = plan(load(file), cores=2)
    for key, value in made.spark.items():
        session.conf.set(key, value)
    where = Where(session=session, streaming=True, home=folder, base=folder, kafka=client)
    with Memory(lambda: [os.getpid()]) as memory:
        begun = time.monotonic()
        run_to_end(made, made.queries[0], where, folder / "checkpoint")
        taken, work = time.monotonic() - begun, memory.seconds
        held = memory.end()
    rows = session.read.parquet(str(folder / "out")).selectExpr("count(*)", "sum(n)", "round(sum(total), 2)").first()
    state = sum(f.stat().st_size for f in (folder / "checkpoint" / "state").rglob("*") if f.is_file())
    return {"seconds": taken, "work": work, "memory": held, "windows": rows[0], "records": rows[1], "state": state}


def alone(client: dict[str, str], folder: Path, kind: str) -> dict[str, Any]:
    """The second of two runs, since Java is slow at first; for a process of its own."""
    from headrace.run.inline import local_session

    session: Any = local_session(cores=2)
    for name in ("warm", "measured"):
        (folder / name).mkdir()
        found = run(session, client, folder / name, kind)
        session._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
        shutil.rmtree(folder / name)
    session.stop()
    return found


def check(kind: str, found: dict[str, Any]) -> None:
    """The windows hold what they must: each record once, or as often as the kind says."""
    times = {"tumbling": 1, "hopping": 2, "session": 1, "session at most": 1}.get(kind)
    if times is not None and found["records"] != EVENTS * times:
        sys.exit(f"{kind}: {found['records']:,} records in windows, not {EVENTS * times:,}")
    most = {"count": EVENTS, "count sliding": EVENTS * 2}.get(kind)
    if most is not None and not most - USERS * 100 <= found["records"] <= most:
        sys.exit(f"{kind}: {found['records']:,} records in windows, not nearly {most:,}")


def main(_: Sequence[str] = ()) -> None:
    before = machine.describe()
    kinds = [kind for kind in KINDS if not ONLY or kind.replace(" ", "-") in ONLY]
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    with place() as at, ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        load_events(at.client, TOPIC, EVENTS)
        for round_, kind in product(range(ROUNDS), kinds):
            folder = at.fresh(f"{kind.replace(' ', '-')}-{round_}")
            one = processes.submit(alone, at.client, folder, kind).result()
            check(kind, one)
            found[kind].append(one)
            rate, effort = EVENTS / one["seconds"], EVENTS / one["work"]
            print(f"round {round_ + 1}  {kind:15} {rate:10,.0f} events/s {effort:10,.0f} per CPU-second", flush=True)
    report(found, before)


def report(found: dict[str, list[dict[str, Any]]], before: dict[str, Any]) -> None:
    """The table, and the file if the run was whole."""
    rates = {kind: statistics.median(EVENTS / one["seconds"] for one in runs) for kind, runs in found.items()}
    base = rates.get("tumbling", max(rates.values()))
    work = {kind: statistics.median(EVENTS / one["work"] for one in runs) for kind, runs in found.items()}
    memory = {kind: max(sum(one["memory"].values()) for one in runs) for kind, runs in found.items()}
    heads = ["window", "events/s", "of tumbling", "per CPU-s", "windows", "memory, GB"]
    rows = [
        [
            kind,
            f"{rate:,.0f}",
            f"{rate / base:.2f}",
            f"{work[kind]:,.0f}",
            f"{found[kind][-1]['windows']:,}",
            f"{memory[kind] / 1e9:.2f}",
        ]
        for kind, rate in rates.items()
    ]
    print(f"\n{show.table(heads, rows)}\n\n{show.bars(rates)}")
    result = {
        "events": EVENTS,
        "users": USERS,
        "rounds": ROUNDS,
        "kinds": {
            kind: {
                "window": KINDS[kind],
                "native": kind in NATIVE,
                "events_per_second": round(rate),
                "of_tumbling": round(rate / base, 3),
                "events_per_cpu_second": round(work[kind]),
                "windows": found[kind][-1]["windows"],
                "largest_resident_bytes": memory[kind],
                "checkpoint_bytes_at_end": found[kind][-1]["state"],
            }
            for kind, rate in rates.items()
        },
    }
    if EVENTS >= FULL and not ONLY:
        results.keep("windows", result, of=before)
    slow = [kind for kind, rate in rates.items() if kind not in NATIVE and rate < LEAST * base]
    if slow:
        sys.exit(f"slower than {LEAST:g} of tumbling: {', '.join(slow)}")


if __name__ == "__main__":
    main()
