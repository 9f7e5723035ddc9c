"""What the ledger costs: the W1 flow of bench/overhead.py with and without it, in turns, on one Spark session.

Time on the clock depends on what else the machine does, so the processor time of the driver is measured too: it is
what the counting takes. What is done once when a query starts, before its first batch, is no matter of throughput and
is measured apart. `make bench-ledger` prints the ratios and writes all to bench/results/ledger.json.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from bench import machine, overhead, results
from bench.events import load_events
from bench.measure import spread
from bench.place import place

ROUNDS = int(os.environ.get("ROUNDS", "31"))
BOUND = 0.97


class Taken(NamedTuple):
    """What one run took, in seconds."""

    clock: float
    processor: float
    start: float
    """To make the query, before its first batch."""


def once(session: Any, client: dict[str, str], folder: Path, *, kept: bool) -> Taken:
    """Runs W1."""
    import psutil

    from headrace.check import load
    from headrace.compile.lower import lower
    from headrace.compile.planner import plan
    from headrace.compile.where import Where
    from headrace.run.inline import drive
    from headrace.run.ledger import Ledger

    file = folder / "w1.yaml"
    file.write_text(overhead.FLOW.replace("OUT", str(folder / "out")), encoding="utf-8")
    made = plan(load(file), cores=2)
    checkpoint, asked = folder / "checkpoint", time.monotonic()
    where = Where(session=session, streaming=True, home=folder, base=folder, kafka=client, counted=kept)
    lowered = lower(made, made.queries[0], replace(where, checkpoint=checkpoint))
    java = psutil.Process(session.sparkContext._gateway.proc.pid)
    used, begun = java.cpu_times(), time.monotonic()
    ledger = Ledger(folder / "ledger.db") if kept else None
    drive(lowered, checkpoint, flush=False, ledger=ledger)
    after, ended = java.cpu_times(), time.monotonic()
    if ledger is not None:
        check(ledger)
    return Taken(ended - begun, after.user + after.system - used.user - used.system, begun - asked)


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
    taken: dict[bool, list[Taken]] = {True: [], False: []}
    with place() as at:
        load_events(at.client, overhead.TOPIC, overhead.EVENTS)
        session = local_session(cores=2)
        for round_ in range(ROUNDS + 2):  # two to warm up
            for kept in (True, False) if round_ % 2 else (False, True):
                folder = at.fresh(f"{kept}-{round_}")
                found = once(session, at.client, folder, kept=kept)
                label = "warm-up" if round_ < 2 else f"round {round_ - 1}"
                name = "with ledger" if kept else "without"
                rate = overhead.EVENTS / found.clock
                told = f"{rate:10,.0f} events/s, {found.processor:6.2f} s of the processors"
                print(f"{label:8} {name:12} {told}", flush=True)
                if round_ >= 2:
                    taken[kept].append(found)
                shutil.rmtree(folder)
        session.stop()
    report(taken, before)


def report(taken: dict[bool, list[Taken]], before: dict[str, Any]) -> None:
    """Prints and keeps the ratios, without over with: the median of those of single rounds, not the one of medians."""

    def ratio(index: int) -> float:
        return statistics.median(a[index] / b[index] for a, b in zip(taken[False], taken[True], strict=True))

    clock, processor = ratio(0), ratio(1)
    print(f"\nthroughput with the ledger, of that without: {clock:.3f} by the clock, {processor:.3f} by processor time")
    print(f"at least {BOUND} is the aim")
    forms = (("with", True), ("without", False))
    found: dict[str, Any] = {
        "events": overhead.EVENTS,
        "rounds": ROUNDS,
        "ratio_by_clock": round(clock, 3),
        "ratio_by_processor_time": round(processor, 3),
        "seconds": {name: spread([one.clock for one in taken[kept]], 2) for name, kept in forms},
        "processor_seconds": {name: spread([one.processor for one in taken[kept]], 2) for name, kept in forms},
        "start_seconds": {name: spread([one.start for one in taken[kept]], 3) for name, kept in forms},
    }
    medians = (found["start_seconds"][name]["median"] for name, _ in forms)
    print("to make the query, once: {:.3f} s with it, {:.3f} s without".format(*medians))
    results.keep("ledger", found, of=before)


if __name__ == "__main__":
    main()
