"""Events per second and memory held for every kind of window, over the same 4 million events of 10,000 users.

Each kind is a flow of its own (JSON from Kafka, one window per user, count and sum, Parquet files) and runs to its end,
last windows included, in one process on one warm Spark session, in turns. Time spent on the processors is measured
beside the time that passed, because only the latter depends on who else is busy. `make bench-windows` prints a table
with bars and writes bench/results/windows.json; `EVENTS=400000` makes it quick, `ONLY="tumbling count"` takes some of
them, and neither writes the file. Fails if a window by count or a sliding one is slower than a quarter of tumbling.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from events import SCHEMA, USERS, load_events
from state import below, resident

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


class Memory(threading.Thread):
    """The most that this process, Spark's Java and its Python workers hold while it runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = {"java": 0, "python": 0}
        self._end = threading.Event()

    def run(self) -> None:
        while not self._end.wait(0.5):
            held = resident(os.getpid())
            if sum(held.values()) > sum(self.most.values()):
                self.most = held

    def end(self) -> dict[str, int]:
        self._end.set()
        self.join()
        return self.most


def worked(pid: int) -> float:
    """Seconds of processor time of a process and all below it, those that have ended too."""
    ticks = 0
    for one in below(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(int(f) for f in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def run(session: Any, client: dict[str, str], folder: Path, kind: str) -> dict[str, Any]:
    """One flow from start to end: how long, how many windows, what state was held, how much memory."""
    from headrace.check import load
    from headrace.compile.lower import Where
    from headrace.compile.planner import plan
    from headrace.run.inline import run_to_end

    file = folder / "flow.yaml"
    name = kind.replace(" ", "-")
    text = FLOW.replace("NAME", name).replace("WINDOW", KINDS[kind]).replace("OUT", str(folder / "out"))
    file.write_text(text, encoding="utf-8")
    made = plan(load(file), cores=2)
    for key, value in made.spark.items():
        session.conf.set(key, value)
    where = Where(session=session, streaming=True, home=folder, base=folder, kafka=client)
    memory = Memory()
    memory.start()
    begun, before = time.monotonic(), worked(os.getpid())
    run_to_end(made, made.queries[0], where, folder / "checkpoint")
    taken, work = time.monotonic() - begun, worked(os.getpid()) - before
    held = memory.end()
    rows = session.read.parquet(str(folder / "out")).selectExpr("count(*)", "sum(n)", "round(sum(total), 2)").first()
    state = sum(f.stat().st_size for f in (folder / "checkpoint" / "state").rglob("*") if f.is_file())
    return {"seconds": taken, "work": work, "memory": held, "windows": rows[0], "records": rows[1], "state": state}


def check(kind: str, found: dict[str, Any]) -> None:
    """The windows hold what they must: each record once, or as often as the kind says."""
    times = {"tumbling": 1, "hopping": 2, "session": 1, "session at most": 1}.get(kind)
    if times is not None and found["records"] != EVENTS * times:
        sys.exit(f"{kind}: {found['records']:,} records in windows, not {EVENTS * times:,}")
    most = {"count": EVENTS, "count sliding": EVENTS * 2}.get(kind)
    if most is not None and not most - USERS * 100 <= found["records"] <= most:
        sys.exit(f"{kind}: {found['records']:,} records in windows, not nearly {most:,}")


def main() -> None:
    from headrace.log import broker
    from headrace.project import Project
    from headrace.run.inline import local_session

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))
    work = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    (work / "headrace.toml").touch()
    project = Project.find(work)
    kinds = [kind for kind in KINDS if not ONLY or kind.replace(" ", "-") in ONLY]
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    try:
        running = broker.start(project)
        client = {"bootstrap.servers": running.bootstrap}
        load_events(client, TOPIC, EVENTS)
        session = local_session(cores=2)
        for round_ in range(ROUNDS):
            for kind in kinds:
                folder = work / f"{kind.replace(' ', '-')}-{round_}"
                folder.mkdir()
                one = run(session, client, folder, kind)
                check(kind, one)
                found[kind].append(one)
                rate, effort = EVENTS / one["seconds"], EVENTS / one["work"]
                print(
                    f"round {round_ + 1}  {kind:15} {rate:10,.0f} events/s {effort:10,.0f} per CPU-second", flush=True
                )
                shutil.rmtree(folder)
        session.stop()
    finally:
        broker.stop(project, delete=True)
        shutil.rmtree(work, ignore_errors=True)
    report(found)


def report(found: dict[str, list[dict[str, Any]]]) -> None:
    """The table, and the file if the run was whole."""
    rates = {kind: statistics.median(EVENTS / one["seconds"] for one in runs) for kind, runs in found.items()}
    base = rates.get("tumbling", max(rates.values()))
    work = {kind: statistics.median(EVENTS / one["work"] for one in runs) for kind, runs in found.items()}
    memory = {kind: max(sum(one["memory"].values()) for one in runs) for kind, runs in found.items()}
    print(f"\n{'window':15} {'events/s':>10} {'of tumbling':>11} {'per CPU-s':>10} {'windows':>10} {'memory':>8}")
    for kind, rate in rates.items():
        bar = "█" * max(1, round(30 * rate / max(rates.values())))
        windows, held = found[kind][-1]["windows"], memory[kind] / 1e9
        print(f"{kind:15} {rate:10,.0f} {rate / base:11.2f} {work[kind]:10,.0f} {windows:10,} {held:5.2f} GB  {bar}")
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
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "when": time.strftime("%Y-%m-%d"),
    }
    if EVENTS >= FULL and not ONLY:
        target = Path(__file__).parent / "results" / "windows.json"
        target.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    slow = [kind for kind, rate in rates.items() if kind not in NATIVE and rate < LEAST * base]
    if slow:
        sys.exit(f"slower than {LEAST:g} of tumbling: {', '.join(slow)}")


if __name__ == "__main__":
    main()
