"""Half an hour of real-time mode: whether the latency stays, and whether a backlog ever builds up.

    python -m bench soak [--minutes 30] [--rate 1000] [--goal latency]

A running count per key, with what the planner chooses for `goal: latency`. The latency of each minute is kept, and each
second in which an event waited for more than a second although no checkpoint came meanwhile: at a checkpoint the flow
stands still, anything else is a backlog.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

from bench import report, results
from bench.latency import Taken, once
from bench.measure import tail
from bench.place import place
from bench.systems import SYSTEMS, flow_arguments

LONG = 1.0
"""Seconds of waiting that are a backlog."""
MINUTE = 60.0
WORK = "keyed"


def per_minute(waits: Iterable[tuple[float, float]], begin: float) -> list[dict[str, float]]:
    """The tail of each minute, by when the events were due."""
    minutes: dict[int, list[float]] = {}
    for due, wait in waits:
        if wait < math.inf:
            minutes.setdefault(int((due - begin) // MINUTE), []).append(1000 * wait)
    return [{"minute": number + 1, **tail(found)} for number, found in sorted(minutes.items())]


def backlog(waits: Iterable[tuple[float, float]], begin: float, checkpoints: Sequence[float]) -> list[int]:
    """The seconds since `begin` whose events waited long, without a checkpoint between them and their results."""
    ordered = sorted(checkpoints)
    late = set()
    for due, wait in waits:
        if wait > LONG:
            following = bisect_left(ordered, due)
            if following == len(ordered) or ordered[following] > due + wait:
                late.add(int(due - begin))
    return sorted(late)


def over_time(taken: Taken) -> dict[str, Any]:
    """What a long run is looked at for."""
    waits = list(taken.waits())
    return {
        "minutes": per_minute(waits, taken.begin),
        "backlog": backlog(waits, taken.begin, taken.checkpoints or ()),
    }


def main(arguments: list[str]) -> None:
    """Measures, prints a table, keeps the result."""
    parser = results.parser("soak", __doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--warm", type=float, default=10.0)
    flow_arguments(parser)
    asked = parser.parse_args(arguments)
    ours = {"goal": asked.goal, "also": asked.also}
    runs = results.Runs(asked, {"minutes": asked.minutes, "rate": asked.rate, **ours})
    with place() as at:
        seconds = asked.minutes * MINUTE
        runs.found[WORK] = once(
            at, SYSTEMS[0], WORK, rate=asked.rate, seconds=seconds, warm=asked.warm, more=over_time, **ours
        )
    print(f"\n{report.soak_text(runs.keep(whole=True))}")
    report.write()


if __name__ == "__main__":
    main(sys.argv[1:])
