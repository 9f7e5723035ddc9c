"""W1 and W2: how many events a second, cold and warm, ours against PySpark by hand and the rivals, in one run.

    python -m bench w1 [--events 4000000] [--rounds 5] [--only headrace flink] [--goal throughput] [--again]

W1: JSON events from Kafka, views dropped, ten-second counts and sums per page by event time, as JSON to Kafka.
W2: JSON events from Kafka, buys kept, three fields of them as JSON to Kafka.

Cold is a fresh process each time; its start is not in the rate, but in `from launch`. Warm is the same work again in
one process, for those that Java runs: the first round warms up. Systems take turns, round by round, each time in
another order, and each begins when the machine is at rest. A run that was cut short goes on where it was. Every answer
is checked; a wrong one has no rate. Systems that are far behind have three rounds at most.
"""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import answers, machine, report, results
from bench.events import Expected, load_events
from bench.measure import spread
from bench.place import Place, place
from bench.processes import Started, reported, started
from bench.systems import SYSTEMS, Job, System, flow_arguments, job_for, order
from headrace.observe import events as run_events

TOPIC = "events"
LIMIT = 600.0
"""Seconds after which a run is given up."""
FULL = 4_000_000


@reported
def once(at: Place, system: System, work: str, expected: Expected, *, rounds: int = 1, **given: Any) -> dict[str, Any]:
    """One run of one system: what it took, or why it has no number."""
    job = job_for(at, system.name, work, topic=TOPIC, total=expected.events, rounds=rounds, **given)
    try:
        commands = system.commands(job)
        busy = machine.settle()
        with started(commands, Path(job.folder), cores=job.cores) as running:
            ended = running.wait(LIMIT * rounds)
            memory, stolen = running.memory.end(), running.stolen.percent()
            if not ended:
                return {"failed": f"not done after {LIMIT * rounds:.0f} s"}
            if running.failed:
                return {"failed": running.last_words()}
            taken = timed(job, running)
            for number in range(rounds):
                found = _wrong(at, work, expected, f"{job.out}-{number}")
                if found:
                    return {"failed": f"wrong answer: {found}"}
            read = [one["read"] for one in taken]
            if any(n != expected.events for n in read):
                return {"failed": f"read {read}, not {expected.events} events"}
            ends = [one["last"] for one in taken]
            return {
                "rates": [round(expected.events / (one["last"] - one["first"])) for one in taken],
                "from_launch": round(ends[0] - running.at, 2),
                "memory": memory,
                "busy_before": busy,
                "stolen": stolen,
            }
    finally:
        at.clear(keep=[TOPIC])
        shutil.rmtree(job.folder, ignore_errors=True)


def _wrong(at: Place, work: str, expected: Expected, topic: str) -> str:
    check = answers.wrong_windows if work == "w1" else answers.wrong_records
    return check(expected, answers.written(at.client, topic))


def timed(job: Job, running: Started) -> list[dict[str, Any]]:
    """For each round, when its first record was read, when its last was finished, and how many there were."""
    path = home_events(job)
    return _by_events(path) if path.exists() else _by_lines(running, job.rounds)


def _by_lines(running: Started, rounds: int) -> list[dict[str, Any]]:
    """What the processes of a job say of themselves: the first of the firsts, the last of the lasts."""
    said = running.results()
    taken = []
    for number in range(rounds):
        parts = [one for one in said if one["round"] == number]
        if not parts:
            raise RuntimeError(f"it ended without a word on round {number}")
        taken.append(
            {
                "first": min(one["first"] for one in parts),
                "last": max(one["last"] for one in parts),
                "read": sum(one["read"] for one in parts),
            }
        )
    return taken


def home_events(job: Job) -> Path:
    """The events of a run of ours; there are none for the others."""
    return Path(job.folder) / ".headrace" / "runs" / job.work / "events.jsonl"


def _by_events(path: Path) -> list[dict[str, Any]]:
    """What the run's own events say: from the start of its first batch to its end, last windows and all."""
    found = list(run_events.read(path))
    batches = [e for e in found if e["event"] == "progress" and e["in"]]
    first = min(_seconds(e) - e["seconds"] for e in batches)
    last = max(_seconds(e) for e in found if e["event"] in ("progress", "finished"))
    return [{"first": first, "last": last, "read": sum(e["in"] for e in batches)}]


def moments(path: Path, kind: str) -> list[float]:
    """When the events of a kind were written."""
    return [_seconds(event) for event in run_events.read(path) if event["event"] == kind]


def _seconds(event: Any) -> float:
    return datetime.fromisoformat(event["at"].replace("Z", "+00:00")).timestamp()


def summary(cold: list[dict[str, Any]], warm: dict[str, Any] | None) -> dict[str, Any]:
    """The numbers of a system; without a good run, why."""
    good = [one for one in cold if "rates" in one]
    failed = [one["failed"] for one in [*cold, *([warm] if warm else [])] if "failed" in one]
    made: dict[str, Any] = {"failed": failed} if failed else {}
    if good:
        largest = max(good, key=lambda one: sum(one["memory"].values()))["memory"]
        made |= {
            "cold": spread([one["rates"][0] for one in good]),
            "from_launch": spread([one["from_launch"] for one in good], 1),
            "memory": largest,
        }
    if warm and len(warm.get("rates", ())) > 1:
        made["warm"] = spread(warm["rates"][1:])
    return made


def main(work: str, arguments: list[str]) -> None:
    """Measures, prints a table and a plot, keeps the result."""
    parser = results.parser(work, __doc__)
    parser.add_argument("--events", type=int, default=FULL)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[s.name for s in SYSTEMS], metavar="SYSTEM")
    flow_arguments(parser)
    asked = parser.parse_args(arguments)
    chosen = [s for s in SYSTEMS if s.name in asked.only]
    ours = {"goal": asked.goal, "also": asked.also}
    told = {"work": work, "events": asked.events, "rounds": asked.rounds, **ours}
    runs = results.Runs(asked, told)
    with place() as at:
        expected = load_events(at.client, TOPIC, asked.events)

        def note(system: System, kind: str, found: dict[str, Any]) -> None:
            runs.found.setdefault(system.name, {}).setdefault(kind, []).append(found)
            rates = ", ".join(f"{rate:,}" for rate in found.get("rates", ()))
            print(f"{system.name:14} {kind:5} {rates or found['failed']}", flush=True)
            runs.keep(systems=systems(runs.found))

        for number in range(asked.rounds):
            for system in order(chosen, number):
                if len(runs.found.get(system.name, {}).get("cold", ())) <= number < system.rounds(asked.rounds):
                    note(system, "cold", once(at, system, work, expected, **ours))
        for system in chosen:
            if system.warms and "warm" not in runs.found.get(system.name, {}):
                note(system, "warm", once(at, system, work, expected, rounds=system.rounds(asked.rounds) + 1, **ours))
    print(f"\n{report.throughput_text(runs.keep(whole=True, systems=systems(runs.found)))}")
    report.write()


def systems(runs: dict[str, Any]) -> dict[str, Any]:
    """The numbers of each system that was run."""
    return {
        system.name: {
            "label": system.label,
            "guarantee": system.guarantee,
            **summary(runs[system.name].get("cold", []), next(iter(runs[system.name].get("warm", [])), None)),
        }
        for system in SYSTEMS
        if system.name in runs
    }
