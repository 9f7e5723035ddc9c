"""Latency against load: a growing rate until it breaks.

    python -m bench load [--works keyed] [--rates 1000 5000 …] [--seconds 20] [--only …]

Broken is: the 99th percentile is over a second, or the results do not keep up. If the events themselves could not be
sent at the rate that was asked for, the harness is what broke, and that is said.
"""

from __future__ import annotations

import sys
from typing import Any

from bench import report, results
from bench.latency import LIVE, once
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


def main(arguments: list[str]) -> None:
    """Measures, prints a table, keeps the result."""
    parser = results.parser("load", __doc__)
    parser.add_argument("--works", nargs="+", default=["keyed", "stateless"], choices=["stateless", "keyed"])
    parser.add_argument("--rates", type=int, nargs="+", default=list(RATES))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm", type=float, default=10.0)
    parser.add_argument("--only", nargs="+", default=["headrace", "pyspark-tuned", "flink", "kafka-streams"])
    flow_arguments(parser)
    asked = parser.parse_args(arguments)
    ours = {"goal": asked.goal, "also": asked.also}
    told = {"seconds": asked.seconds, "rates": asked.rates, **ours}
    runs = results.Runs(asked, told)
    with place() as at:
        for work in asked.works:
            for system in (s for s in LIVE if s.name in asked.only):
                done = runs.found.setdefault(work, {}).setdefault(system.name, {"label": system.label, "steps": []})
                for rate in asked.rates[len(done["steps"]) :]:
                    if done["steps"] and verdict(done["steps"][-1]):
                        break
                    found = once(at, system, work, rate=rate, seconds=asked.seconds, warm=asked.warm, **ours)
                    done["steps"].append({"asked": rate, **found, "verdict": verdict({"asked": rate, **found})})
                    print(
                        f"{work} {system.name:14} {rate:,}/s {found.get('latency', '')} {done['steps'][-1]['verdict']}",
                        flush=True,
                    )
                    runs.keep()
    print(f"\n{report.load_text(runs.keep(whole=True))}")
    report.write()


if __name__ == "__main__":
    main(sys.argv[1:])
