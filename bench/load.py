"""Latency against load: a growing rate until it breaks.

    python -m bench load [--works keyed] [--rates 1000 5000 …] [--seconds 20] [--only …]

One process of each system meets one rate after the other, as a service does that is there when its load grows; the
first `--warm` seconds of each are not measured. Ours makes a checkpoint every ten minutes here, so that no step has a
pause that another has not; `bench pauses` is about those. Broken is: the 99th percentile is over a second, or the
results do not keep up. If the events themselves could not be sent at the rate that was asked for, the harness is what
broke, and that is said.
"""

from __future__ import annotations

import sys
from typing import Any

from bench import report, results
from bench.latency import LIVE, climbed
from bench.place import place
from bench.systems import flow_arguments

RATES = (1_000, 5_000, 10_000, 20_000, 40_000, 80_000)
BROKEN = 1_000.0
SENT = 0.95


def verdict(found: dict[str, Any]) -> str:
    """Why there is no higher rate to try; nothing if there is."""
    if "failed" in found:
        return str(found["failed"])
    if found["rate"] < SENT * found["asked"]:
        return f"only {found['rate']:,} events/s could be sent"
    return f"p99 is over {BROKEN:g} ms" if found["latency"]["p99"] > BROKEN else ""


def judged(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps up to the first that breaks, each with its verdict; what failed at the end failed in the last."""
    steps = [dict(step) for step in found.get("steps", [{}])]
    if "failed" in found:
        steps[-1]["failed"] = found["failed"]
    made = []
    for step in steps:
        made.append({**step, "verdict": verdict(step)})
        if made[-1]["verdict"]:
            break
    return made


def main(arguments: list[str]) -> None:
    """Measures, prints a table, keeps the result."""
    parser = results.parser("load", __doc__)
    parser.add_argument("--works", nargs="+", default=["keyed", "stateless"], choices=["stateless", "keyed"])
    parser.add_argument("--rates", type=int, nargs="+", default=list(RATES))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm", type=float, default=15.0)
    parser.add_argument("--only", nargs="+", default=["headrace", "pyspark-tuned", "flink", "kafka-streams"])
    flow_arguments(parser)
    parser.set_defaults(goal="{latency: best, checkpoint: 10 minutes}")
    asked = parser.parse_args(arguments)
    ours = {"goal": asked.goal, "also": asked.also}
    told = {"seconds": asked.seconds, "warm": asked.warm, "rates": asked.rates, **ours}
    runs = results.Runs(asked, told)
    with place() as at:
        for work in asked.works:
            done = runs.found.setdefault(work, {})
            for system in (s for s in LIVE if s.name in asked.only and s.name not in done):
                found = climbed(at, system, work, rates=asked.rates, seconds=asked.seconds, warm=asked.warm, **ours)
                found["steps"] = judged(found)
                done[system.name] = {"label": system.label, **found}
                for step in found["steps"]:
                    shown = f"{step.get('asked', 0):,}/s {step.get('latency', '')} {step['verdict']}"
                    print(f"{work} {system.name:14} {shown}", flush=True)
                runs.keep()
    print(f"\n{report.load_text(runs.keep(whole=True))}")
    report.write()


if __name__ == "__main__":
    main(sys.argv[1:])
