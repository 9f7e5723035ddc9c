"""A flow of ours run several times in one process, so that Java is warm: `python -m bench.ours`, with `BENCH_JOB`.

The same plan, lowering and ledger as `headrace run` has; only the supervisor and the start of Spark are left out.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.flows import flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.compile.plan import Plan


def main() -> None:
    """Runs the job that the environment holds."""
    from bench.rivals.job import BOOTSTRAP, CORES, FOLDER, JOB, OUT, ROUNDS, TOPIC, WORK, say
    from headrace.check import load
    from headrace.compile.planner import plan
    from headrace.project import Project
    from headrace.run.inline import local_session

    folder = Path(FOLDER)

    def planned(number: int) -> Plan:
        file = folder / f"{WORK}-{number}.yaml"
        file.write_text(flow(WORK, TOPIC, f"{OUT}-{number}", goal=JOB["goal"], also=JOB["also"]), encoding="utf-8")
        return plan(load(file), cores=CORES)

    # Settings that can only be given when Spark starts come from the plan, as the driver gives them.
    settings = "\n".join(f'"{name}" = "{value}"' for name, value in planned(0).spark.items())
    (folder / "headrace.toml").write_text(f"[spark.settings]\n{settings}\n", encoding="utf-8")
    session = local_session(Project.find(folder), cores=CORES)
    for number in range(ROUNDS):
        home = folder / f"home-{number}"
        home.mkdir()
        say(*once(session, planned(number), home, BOOTSTRAP), number)
    session.stop()


def once(session: SparkSession, made: Plan, home: Path, bootstrap: str) -> tuple[float, float, int]:
    """A plan run to its end in an empty folder: when it began and ended, and how many records it read."""
    from headrace.compile.where import Where
    from headrace.run.inline import run_to_end
    from headrace.run.ledger import Ledger

    kafka = {"bootstrap.servers": bootstrap}
    where = Where(session=session, streaming=True, home=home, base=home, kafka=kafka, counted=True)
    ledger = Ledger(home / "ledger.db")
    begun = time.time()
    for query in made.queries:
        run_to_end(made, query, where, home / "checkpoint" / query.name, ledger=ledger)
    ended = time.time()
    read = (line.numbers["read"] for entry in ledger.entries() for line in entry.lines if line.part == "events")
    return begun, ended, sum(read)


if __name__ == "__main__":
    main()
