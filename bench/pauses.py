"""What checkpoints cost in real-time mode: the tail of the latency for several intervals between them.

    python -m bench pauses [--intervals 5 10 30 60] [--crossed 6] [--rate 1000] [--works keyed]

Each run is long enough to cross `--crossed` checkpoints after its warm-up, so that the pause at each is in the tail.
"""

from __future__ import annotations

import sys

from bench import report, results
from bench.latency import once
from bench.place import place
from bench.systems import SYSTEMS


def main(arguments: list[str]) -> None:
    """Measures, prints a table, keeps the result."""
    parser = results.parser("pauses", __doc__)
    parser.add_argument("--intervals", type=int, nargs="+", default=[5, 10, 30, 60], help="seconds")
    parser.add_argument("--crossed", type=int, default=6, help="checkpoints in what is measured")
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
                seconds = float(interval * asked.crossed)
                found = once(at, ours, work, rate=asked.rate, seconds=seconds, warm=asked.warm, goal=goal)
                done[str(interval)] = {"label": f"{interval} s", **found}
                print(f"{work} {interval} s: {found.get('latency', '')} {found.get('failed', '')}", flush=True)
                runs.keep()
    print(f"\n{report.pauses_text(runs.keep(whole=True))}")
    report.write()


if __name__ == "__main__":
    main(sys.argv[1:])
