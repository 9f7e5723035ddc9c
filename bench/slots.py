"""Slots in real-time mode: the latency of a keyed count with as many as the planner chooses, twice and four times that.

    python -m bench slots [--times 1 2 4] [--seconds 60] [--rate 1000]

All stages of a stream run all the time, so it needs a slot for each task; the planner adds one for reading records
again. Whether more of them do harm, as was once seen with the shuffle's wait of one millisecond, is looked for here.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench import report, results
from bench.flows import flow
from bench.latency import TOPIC, once
from bench.place import Place, place
from bench.soak import WORK, over_time
from bench.systems import CORES, PARTITIONS, SYSTEMS


def chosen(at: Place) -> int:
    """How many slots the planner gives the flow."""
    from headrace.check import load
    from headrace.compile.planner import plan

    file = Path(at.fresh("slots"), "keyed.yaml")
    file.write_text(flow(WORK, TOPIC, "out"), encoding="utf-8")
    found = plan(load(file), cores=CORES, partitions={"events": PARTITIONS}).slots
    if found is None:
        raise SystemExit("the flow does not run in real-time mode")
    return found


def main(arguments: list[str]) -> None:
    """Measures, prints a table, keeps the result."""
    parser = results.parser("slots", __doc__)
    parser.add_argument("--times", type=int, nargs="+", default=[1, 2, 4], help="how many times what is chosen")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--warm", type=float, default=10.0)
    asked = parser.parse_args(arguments)
    runs = results.Runs(asked, {"seconds": asked.seconds, "rate": asked.rate})
    with place() as at:
        for times in asked.times:
            slots = times * chosen(at)
            done = runs.found.setdefault(WORK, {})
            if str(slots) in done:
                continue
            given = {"also": f'spark: {{spark.master: "local[{slots}]"}}'}
            found = once(
                at,
                SYSTEMS[0],
                WORK,
                rate=asked.rate,
                seconds=asked.seconds,
                warm=asked.warm,
                more=over_time,
                **given,
            )
            done[str(slots)] = {"label": f"{slots}", **found}
            print(f"{slots} slots: {found.get('latency', '')} {found.get('failed', '')}", flush=True)
            runs.keep()
    print(f"\n{report.slots_text(runs.keep(whole=True))}")
    report.write()


if __name__ == "__main__":
    main(sys.argv[1:])
