"""Five million keys in RocksDB: how fast they go in, and how much memory the whole driver holds, JVM and Python.

Two flows over the same files, each run as a user would run it, `headrace run FLOW --until-done`: a native
aggregate per key, and a Python function per key (`process`). The resident memory of the driver and of all its children
is read from /proc while it runs. `make bench-state` prints both and writes bench/results/state.json; `KEYS=100000`
makes it quick, `ONLY=process` runs one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import machine, results
from bench.memory import resident
from bench.place import TEMPORARY

KEYS = int(os.environ.get("KEYS", "5000000"))
ONLY = os.environ.get("ONLY", "")
FILES = 20
LIMIT_GB = 3.0

SOURCE = """
sources:
  events:
    files: {path: input, per_batch: 1}
    format: parquet
    schema: id BIGINT, amount DOUBLE
"""
FLOWS = {
    "aggregate": f"""
flow: aggregate
{SOURCE}
steps:
  held:
    from: events
    aggregate: {{by: id, compute: {{n: count(*), total: sum(amount)}}}}
  again:
    from: held
    filter: n > 1
sinks:
  out:
    from: again
    sqlite: {{path: aggregate.db, table: again, key: id}}
""",
    "process": f"""
flow: process
{SOURCE}
steps:
  held:
    from: events
    process:
      python: counting:count
      by: id
      state: n BIGINT, total DOUBLE
      returns: id BIGINT, n BIGINT, total DOUBLE
      bound: a benchmark ends
sinks:
  out:
    from: held
    sqlite: {{path: process.db, table: again, key: id}}
""",
}
FUNCTION = """
def count(record, state):
    n, total = (state["n"], state["total"]) if state else (0, 0.0)
    after = {"n": n + 1, "total": total + record["amount"]}
    return {"id": record["id"], **after} if n else None, after
"""


def write_input(folder: Path) -> int:
    """Every key once, in files of equal size, and at the end some of them again; how many records."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder.mkdir()
    size = -(-KEYS // FILES)
    total = 0
    for number in range(FILES + 1):
        first, end = (number * size, min(KEYS, (number + 1) * size)) if number < FILES else (0, size // 5)
        # A large odd factor spreads the keys, as ids of users would be; it maps each number to another.
        ids = pa.array([(i * 2654435761) % (1 << 40) for i in range(first, end)], pa.int64())
        amounts = pc.divide(pc.cast(ids, pa.float64()), 1024.0)
        pq.write_table(pa.table({"id": ids, "amount": amounts}), folder / f"{number:03}.parquet")
        total += end - first
    return total


def run(name: str, work: Path, records: int) -> dict[str, Any]:
    """One flow from start to end: its rate without the start of Spark, and its largest memory."""
    file = work / f"{name}.yaml"
    file.write_text(FLOWS[name], encoding="utf-8")
    command = [sys.executable, "-m", "headrace.cli.main", "run", str(file), "--until-done", "--json", "--restarts", "0"]
    largest = {"java": 0, "python": 0, "all": 0}
    begun = time.monotonic()
    with (work / f"{name}.log").open("wb") as log, (work / f"{name}.jsonl").open("wb") as out:
        process = subprocess.Popen(command, cwd=work, stdout=out, stderr=log)
        while process.poll() is None:
            driver = driver_of(work / ".headrace" / "runs" / name / "run.json")
            held = resident(driver) if driver else {"java": 0, "python": 0}
            total = held["java"] + held["python"]
            if total > largest["all"]:
                largest = {**held, "all": total}
            time.sleep(0.5)
    if process.returncode:
        sys.exit((work / f"{name}.log").read_text(errors="replace")[-3000:])
    events = [json.loads(line) for line in (work / f"{name}.jsonl").read_text().splitlines() if line.startswith("{")]
    working = seconds_of(events) or time.monotonic() - begun
    result = {
        "records": records,
        "keys": KEYS,
        "seconds": round(working, 1),
        "records_per_second": round(records / working),
        "largest_resident_bytes": largest,
    }
    print(
        f"{name:9} {records / working:10,.0f} records/s over {working:.0f} s; resident at most "
        f"{largest['all'] / 1e9:.2f} GB (Java {largest['java'] / 1e9:.2f}, Python {largest['python'] / 1e9:.2f})",
        flush=True,
    )
    return result


def driver_of(record: Path) -> int | None:
    try:
        found = json.loads(record.read_text()).get("driver")
        return int(found["pid"]) if found else None
    except (OSError, ValueError):
        return None


def seconds_of(events: list[dict[str, Any]]) -> float | None:
    """From the start of the queries to their end."""
    from datetime import datetime

    times = {e.get("event") or e.get("kind") or e.get("type"): e.get("at") or e.get("time") for e in events}
    begun, ended = times.get("started"), times.get("finished")
    if not begun or not ended:
        return None
    return (datetime.fromisoformat(str(ended)) - datetime.fromisoformat(str(begun))).total_seconds()


def main(_: Sequence[str] = ()) -> None:
    work = Path(tempfile.mkdtemp(prefix=TEMPORARY))
    (work / "headrace.toml").touch()
    (work / "counting.py").write_text(FUNCTION, encoding="utf-8")
    before = machine.describe()
    found: dict[str, Any] = {}
    try:
        records = write_input(work / "input")
        for name in FLOWS:
            if ONLY in ("", name):
                found[name] = run(name, work, records)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    most = max(r["largest_resident_bytes"]["all"] for r in found.values()) / 1e9
    print(f"at most {most:.2f} GB; under {LIMIT_GB:g} GB is the aim")
    report = {**found, "limit_gb": LIMIT_GB}
    if KEYS >= 5_000_000 and not ONLY:
        results.keep("state", report, of=before)
    else:
        print(json.dumps(report, indent=2))
    if most >= LIMIT_GB:
        sys.exit(1)


if __name__ == "__main__":
    main()
