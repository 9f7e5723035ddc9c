"""How the rate grows with cores and what many keys cost.

    python -m bench scale [--cores 1 2] [--keys 1000 … 10000000] [--events 4000000] [--only …]

Cores: W1, cold, with one and with two cores for the job; the broker has the whole machine. Keys: a running count and
sum per user, ours and PySpark by hand, with so many users, each with at least one event; what is held at the end must
be one row for each. Memory is the most that all processes of a job held.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from bench import report, results
from bench.events import load_events
from bench.place import Place, place
from bench.processes import reported, started
from bench.systems import SYSTEMS, System, job_for, order
from bench.throughput import LIMIT, TOPIC, home_events, once, timed
from headrace.log import topics
from headrace.observe import events as run_events

KEYS = tuple(10**power for power in range(3, 8))
HOLDERS = ("headrace", "pyspark-tuned")


@reported
def hold(at: Place, system: System, keys: int, total: int) -> dict[str, Any]:
    """One run over so many keys: rate and memory, if as many are held."""
    job = job_for(at, system.name, "keys", topic=TOPIC, total=total)
    try:
        with started(system.commands(job), Path(job.folder), cores=job.cores) as running:
            ended = running.wait(2 * LIMIT)
            memory, stolen = running.memory.end(), running.stolen.percent()
            if not ended or running.failed:
                return {"failed": running.last_words() if running.failed else f"not done after {2 * LIMIT:.0f} s"}
            taken = timed(job, running)[0]
            if home_events(job).exists():
                batches = [e for e in run_events.read(home_events(job)) if e["event"] == "progress"]
                held = batches[-1]["state"]
            else:
                held = int(running.lines("STATE ")[-1])
            if held != keys or taken["read"] != total:
                return {"failed": f"{held:,} keys are held of {keys:,}, {taken['read']:,} events read of {total:,}"}
            return {"rate": round(total / (taken["last"] - taken["first"])), "memory": memory, "stolen": stolen}
    finally:
        at.clear(keep=[TOPIC])
        shutil.rmtree(job.folder, ignore_errors=True)


def main(arguments: list[str]) -> None:
    """Measures, prints tables, keeps the result."""
    parser = results.parser("scale", __doc__)
    parser.add_argument("--cores", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--keys", type=int, nargs="*", default=list(KEYS))
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[s.name for s in SYSTEMS if not s.far], metavar="SYSTEM")
    asked = parser.parse_args(arguments)
    told = {"events": asked.events, "rounds": asked.rounds}
    runs = results.Runs(asked, told)
    chosen = [s for s in SYSTEMS if s.name in asked.only]

    def note(kind: str, size: int, system: System, found: dict[str, Any]) -> None:
        cell = runs.found.setdefault(kind, {}).setdefault(system.name, {"label": system.label, "at": {}})["at"]
        cell.setdefault(str(size), []).append(found)
        print(f"{kind} {size:,} {system.name:14} {found}", flush=True)
        runs.keep()

    def done(kind: str, size: int, system: System) -> int:
        return len(runs.found.get(kind, {}).get(system.name, {}).get("at", {}).get(str(size), ()))

    with place() as at:
        if asked.cores:
            expected = load_events(at.client, TOPIC, asked.events)
            for number in range(asked.rounds):
                for cores in asked.cores:
                    for system in order(chosen, number):
                        if done("cores", cores, system) <= number:
                            found = once(at, system, "w1", expected, cores=cores)
                            note("cores", cores, system, found)
            topics.delete(at.client, [TOPIC])
        for keys in asked.keys:
            holders = [s for s in chosen if s.name in HOLDERS and done("keys", keys, s) < asked.rounds]
            if not holders:
                continue
            total = max(asked.events, keys)
            load_events(at.client, TOPIC, total, users=keys)
            for _ in range(asked.rounds):
                for system in holders:
                    if done("keys", keys, system) < asked.rounds:
                        note("keys", keys, system, hold(at, system, keys, total))
            topics.delete(at.client, [TOPIC])
    print(f"\n{report.scale_text(runs.keep(whole=True))}")
    report.write()


if __name__ == "__main__":
    main(sys.argv[1:])
