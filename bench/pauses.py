"""What checkpoints cost in real-time mode: the tail of the latency for several intervals between them.

    python -m bench pauses [--intervals 5 10 30 60] [--crossed 5] [--rate 1000] [--works keyed]

Each run is long enough to cross `--crossed` checkpoints after its warm-up, so that the pause at each is in the tail.
They are counted from the events of the run; one that crossed fewer has no number.
"""

from __future__ import annotations

import sys
from typing import Any

from bench import report, results
from bench.latency import once
from bench.place import place
from bench.systems import SYSTEMS


def enough(found: dict[str, Any], crossed: int) -> dict[str, Any]:
    """What was found, if it crossed so many checkpoints; without a latency if not."""
    if "failed" in found or found["checkpoints"] >= crossed:
        return found
    few = f"it crossed {found['checkpoints']} checkpoints, not {crossed}"
    return {k: v for k, v in found.items() if k not in ("latency", "histogram")} | {"failed": few}


def main(arguments: list[str]) -> None:
    """Measures, prints a table, keeps the result."""
    parser = results.parser("pauses", __doc__)
    parser.add_argument("--intervals", type=int, nargs="+", default=[5, 10, 30, 60], help="seconds")
    parser.add_argument("--crossed", type=int, default=5, help="checkpoints in what is measured, at least")
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--warm", type=float, default=10.0)
    parser.add_argument("--works", nargs="+", default=["keyed", "stateless"], choices=["stateless", "keyed"])
    asked = parser.parse_args(arguments)
    told = {"crossed": asked.crossed, "rate": asked.rate}
    runs = results.Runs(asked, told)
    ours = SYSTEMS[0]
    with place() as at:
        for work in asked.works:
            for interval in asked.intervals:
                done = runs.found.setdefault(work, {})
                if str(interval) in done:
                    continue
                goal = f"{{latency: best, checkpoint: {interval} seconds}}"
                # One interval more than asked for, and a second for each pause, since it begins anywhere in one.
                seconds = float((interval + 1) * (asked.crossed + 1))
                found = once(at, ours, work, rate=asked.rate, seconds=seconds, warm=asked.warm, goal=goal)
                found = enough(found, asked.crossed)
                done[str(interval)] = {"label": f"{interval} s", **found}
                print(f"{work} {interval} s: {found.get('latency', '')} {found.get('failed', '')}", flush=True)
                runs.keep()
    print(f"\n{report.pauses_text(runs.keep(whole=True))}")
    report.write()


if __name__ == "__main__":
    main(sys.argv[1:])
