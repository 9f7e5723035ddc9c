"""From `headrace run` to the first result: how long, and what of it is whose.

    python -m bench start [--times 5]

The W2 flow over a topic that already holds events. The split comes from the run's own events: until the driver is
started (interpreter, check, the run's home), until Spark is up, until the queries run (plan, lowering), until the first
batch is committed; and, seen from outside, until a consumer has the first result. Once with the archive of classes
that Headrace makes, once with only the one that Java has of itself.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import machine, report, results
from bench.events import load_events
from bench.flows import flow
from bench.latency import Reader
from bench.measure import spread
from bench.place import Place, place
from headrace.observe import events as run_events

TOPIC = "events"
EVENTS = 20_000
PATIENCE = 300.0
STAGES = (
    ("interpreter, check", "starting"),
    ("Java, Spark session", "session"),
    ("plan, queries started", "started"),
    ("first batch", "progress"),
)
FORMS = ("with the archive", "without it")


def java_default() -> str:
    """Java's options to use its own archive and not ours; what comes last on its command line counts."""
    from headrace.log.java import find_java

    return f"-XX:SharedArchiveFile={find_java().home / 'lib' / 'server' / 'classes.jsa'}"


def once(at: Place, number: int, form: str) -> dict[str, float]:
    """One start: seconds of each stage."""
    folder = at.fresh(f"start-{number}")
    (folder / "headrace.toml").touch()
    out = f"started-{number}-{FORMS.index(form)}"
    at.topic(out)
    text = flow("w2", TOPIC, out)
    if form == FORMS[1]:
        text += f"spark:\n  spark.driver.extraJavaOptions: {java_default()}\n"
    (folder / "w2.yaml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "headrace.cli.main", "run", "w2.yaml", "--json", "--bootstrap", at.bootstrap]
    reader = Reader(at.client, out, "first")
    reader.start()
    home = folder / ".headrace" / "runs" / "w2" / "events.jsonl"
    begun = time.time()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=os.environ, stdout=log, stderr=log, start_new_session=True)
        try:
            deadline = time.monotonic() + PATIENCE
            while reader.first is None or "progress" not in (found := _moments(home)):
                if time.monotonic() > deadline or process.poll() is not None:
                    raise SystemExit((folder / "log").read_text(errors="replace")[-2000:])
                time.sleep(0.02)
        finally:
            reader.end()
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
    split, before = {}, begun
    for stage, kind in STAGES:
        split[stage] = found[kind] - before
        before = found[kind]
    shutil.rmtree(folder, ignore_errors=True)
    return {**split, "first result seen": reader.first - begun}


def _moments(path: Path) -> dict[str, float]:
    """When each kind of event came first."""
    found: dict[str, float] = {}
    for event in run_events.read(path):
        found.setdefault(event["event"], datetime.fromisoformat(event["at"].replace("Z", "+00:00")).timestamp())
    return found


def main(arguments: list[str]) -> None:
    """Measures, prints a table, keeps the result."""
    from headrace.run import classes

    parser = results.parser("start", __doc__)
    parser.add_argument("--times", type=int, default=5)
    asked = parser.parse_args(arguments)
    classes.ready(None, lambda text: print(text, file=sys.stderr))
    before = machine.describe()
    taken: dict[str, list[dict[str, float]]] = {form: [] for form in FORMS}
    with place() as at:
        load_events(at.client, TOPIC, EVENTS)
        for number in range(asked.times + 1):  # the first fills the machine's file cache
            for form in FORMS:
                one = once(at, number, form)
                print(f"{number or 'warm-up'} {form}: {_line(one)}", flush=True)
                if number:
                    taken[form].append(one)
    found: dict[str, Any] = {
        "rounds": asked.times,
        "split": {form: {s: spread([o[s] for o in ones], 2) for s in ones[0]} for form, ones in taken.items()},
    }
    results.keep(asked.name, found, of=before)
    print(f"\n{report.start_text(results.kept(asked.name) or {})}")
    report.write()


def _line(one: dict[str, float]) -> str:
    return ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in one.items())


if __name__ == "__main__":
    main(sys.argv[1:])
