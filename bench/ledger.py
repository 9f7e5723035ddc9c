"""What the ledger costs: the W1 flow of bench/overhead.py with and without it, in turns, on one Spark session.

Time on the clock depends on what else the machine does, so the processor time of the driver is measured too: it is
what the counting takes. `make bench-ledger` prints both ratios and writes them to bench/results/ledger.json.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import machine, overhead, results
from bench.events import load_events
from bench.measure import spread
from bench.place import place

ROUNDS = int(os.environ.get("ROUNDS", "31"))
BOUND = 0.97


def once(session: Any, client: dict[str, str], folder: Path, *, kept: bool) -> tuple[float, float]:
    """Runs W1; seconds on the clock and of the processors."""
    import psutil

    from headrace.check import load
    from headrace.compile.planner import plan
    from headrace.compile.where import Where
    from headrace.run.inline import run_to_end
    from headrace.run.ledger import Ledger

    file = folder / "w1.yaml"
    file.write_text(overhead.FLOW.replace("OUT", str(folder / "out")), encoding="utf-8")
    made = plan(load(file), cores=2)
    where = Where(session=session, streaming=True, home=folder, base=folder, kafka=client, counted=kept)
    java = psutil.Process(session.sparkContext._gateway.proc.pid)
    used, begun = java.cpu_times(), time.monotonic()
    ledger = Ledger(folder / "ledger.db") if kept else None
    run_to_end(made, made.queries[0], where, folder / "checkpoint", flush=False, ledger=ledger)
    after = java.cpu_times()
    seconds = time.monotonic() - begun
    if ledger is not None:
        check(ledger)
    return seconds, after.user + after.system - used.user - used.system


def check(ledger: Any) -> None:
    """The numbers must be right, or their cost means nothing."""
    from headrace.run.audit import audit

    entries = list(ledger.entries())
    made = audit(entries, {"per_page": entries[-1].batch})
    read = next(total.numbers["read"] for total in made.totals if total.part == "events")
    if not made.balanced or read != overhead.EVENTS:
        sys.exit(f"the ledger does not add up: {made.findings}, {read} read")


def main(_: Sequence[str] = ()) -> None:
    from headrace.run.inline import local_session

    before = machine.describe()
    taken: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    with place() as at:
        load_events(at.client, overhead.TOPIC, overhead.EVENTS)
        session = local_session(cores=2)
        for round_ in range(ROUNDS + 2):  # two to warm up
            for kept in (True, False) if round_ % 2 else (False, True):
                folder = at.fresh(f"{kept}-{round_}")
                seconds, processor = once(session, at.client, folder, kept=kept)
                label = "warm-up" if round_ < 2 else f"round {round_ - 1}"
                name = "with ledger" if kept else "without"
                rate = overhead.EVENTS / seconds
                print(f"{label:8} {name:12} {rate:10,.0f} events/s, {processor:6.2f} s of the processors", flush=True)
                if round_ >= 2:
                    taken[kept].append((seconds, processor))
                shutil.rmtree(folder)
        session.stop()
    report(taken, before)


def report(taken: dict[bool, list[tuple[float, float]]], before: dict[str, Any]) -> None:
    """Prints and keeps the ratios, without over with: the median of those of single rounds, not the one of medians."""

    def ratio(index: int) -> float:
        return statistics.median(a[index] / b[index] for a, b in zip(taken[False], taken[True], strict=True))

    clock, processor = ratio(0), ratio(1)
    print(f"\nthroughput with the ledger, of that without: {clock:.3f} by the clock, {processor:.3f} by processor time")
    print(f"at least {BOUND} is the aim")
    forms = (("with", True), ("without", False))
    found = {
        "events": overhead.EVENTS,
        "rounds": ROUNDS,
        "ratio_by_clock": round(clock, 3),
        "ratio_by_processor_time": round(processor, 3),
        "seconds": {name: spread([s for s, _ in taken[kept]], 2) for name, kept in forms},
        "processor_seconds": {name: spread([p for _, p in taken[kept]], 2) for name, kept in forms},
    }
    results.keep("ledger", found, of=before)


if __name__ == "__main__":
    main()
