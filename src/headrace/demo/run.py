"""Starts everything the demo needs, shows it, and takes it all down again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

from headrace.demo.screen import read_counts, rows, table
from headrace.errors import InternalError, UsageError
from headrace.observe import events
from headrace.project import Project
from headrace.run import control
from headrace.run.home import home_of

RATE = 200.0
TOPIC = "tweets"
FLOW = "hashtag-velocity"
FIRST_ROWS_WITHIN = 300.0
"""Seconds after which something must be wrong."""
STOP_WITHIN = 20.0
"""Seconds the flow has to stop by itself; nothing of it is needed again."""
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_demo(folder: Path, seconds: float | None, say: Callable[[str], None]) -> None:
    """The whole demo, in a folder of its own; until Ctrl-C, or for some seconds. Leaves no process behind."""
    from headrace.log import broker, topics

    project = _fresh(folder)
    flow = folder / f"{FLOW}.yaml"
    flow.write_text((files("headrace") / "demo" / flow.name).read_text(encoding="utf-8"), encoding="utf-8")
    with _interruptible(), ExitStack() as stack:
        stack.callback(say, f"stopped: the flow, the tweets and Kafka; the counts are in {_short(folder)}/velocity.db")
        stack.callback(shutil.rmtree, project.home / "broker", ignore_errors=True)
        stack.callback(broker.stop, project)
        try:
            say("starting Kafka …")
            running = broker.start(project, progress=say)
            topics.create({"bootstrap.servers": running.bootstrap}, TOPIC, partitions=2)
            sent = stack.enter_context(_tweets(running.bootstrap))
            say(f"Kafka is at {running.bootstrap}; {RATE:.0f} tweets a second go to its topic {TOPIC}")
            say(f"headrace run {_short(flow)}")
            process = stack.enter_context(_flow(flow, running.bootstrap))
            _show(folder, project, process, seconds, sent)
        except KeyboardInterrupt:
            pass
        finally:
            for number in _ENDINGS:  # what is taken down is taken down whole
                signal.signal(number, signal.SIG_IGN)
            say("stopping …")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Takes every way of being told to end for a Ctrl-C: a closed terminal must not leave a Kafka behind."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in _ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _short(path: Path) -> Path:
    """A path as one would type it here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _fresh(folder: Path) -> Project:
    """An empty project; what an earlier demo left there is stopped and removed."""
    from headrace.log import broker

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if not (folder / f"{FLOW}.yaml").is_file():
            raise UsageError(f"{folder} is not empty, and no demo was there", hint="--folder with a new name")
        left = _project(folder)
        run = home_of(left.home, FLOW)
        if run.exists:
            control.stop(run, within=STOP_WITHIN)
        broker.stop(left)
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "headrace.toml").touch()
    return _project(folder)


def _project(folder: Path) -> Project:
    """The demo's own project, whatever the environment says about where others live."""
    return replace(Project.find(folder), chosen_home=None)


@contextmanager
def _tweets(bootstrap: str) -> Iterator[Callable[[], int]]:
    """Tweets sent at a steady rate by a thread, as long as the context lasts; gives the number sent so far."""
    from confluent_kafka import Producer

    from headrace.connectors.generators import dumps, make

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    generator, began, stop = make("tweets"), datetime.now(UTC), threading.Event()
    sent = 0

    def send() -> None:
        nonlocal sent
        while True:
            due = began + timedelta(seconds=sent / RATE)
            if stop.wait(max(0.0, (due - datetime.now(UTC)).total_seconds())):
                return
            record = generator.record(7, sent, began, RATE)
            producer.produce(TOPIC, key=record[generator.key], value=dumps(record))
            producer.poll(0)
            sent += 1

    thread = threading.Thread(target=send, name="tweets", daemon=True)
    thread.start()
    try:
        yield lambda: sent
    finally:
        stop.set()
        thread.join(timeout=5)
        producer.flush(5)


@contextmanager
def _flow(flow: Path, bootstrap: str) -> Iterator[subprocess.Popen[bytes]]:
    """The flow run by `headrace run`, as anybody would, as long as the context lasts."""
    command = [sys.executable, "-m", "headrace.cli.main", "run", flow.name, "--quiet", "--bootstrap", bootstrap]
    own = {name: value for name, value in os.environ.items() if name != "HEADRACE_HOME"}
    with (flow.parent / "run.log").open("wb") as log:
        # A session of its own: Ctrl-C reaches the demo alone, which then stops its parts in order.
        process = subprocess.Popen(command, cwd=flow.parent, stdout=log, stderr=log, env=own, start_new_session=True)
        try:
            yield process
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Asks the flow to stop; a second time, which cuts its batch off; then no longer."""
    for seconds in (STOP_WITHIN, 5.0):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return
    process.kill()
    process.wait()


def _show(
    folder: Path, project: Project, process: subprocess.Popen[bytes], seconds: float | None, sent: Callable[[], int]
) -> None:
    """The table, twice a second; without a terminal, its rows once at the end, also when that is a Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    database, begun = folder / "velocity.db", time.monotonic()
    home = home_of(project.home, FLOW)
    first: float | None = None
    try:
        with Live(console=console, auto_refresh=False, transient=False) as live:
            while seconds is None or first is None or time.monotonic() < first + seconds:
                waited = time.monotonic() - begun
                if process.poll() is not None or (first is None and waited > FIRST_ROWS_WITHIN):
                    tail = (folder / "run.log").read_text(errors="replace")[-1500:]
                    why = "ended by itself" if process.poll() is not None else f"gave nothing in {waited:.0f} s"
                    raise InternalError(f"the flow {why}", detail=tail or f"see {home.log}")
                counts = read_counts(database)
                first = first or (time.monotonic() if rows(counts) else None)
                if console.is_terminal:
                    status = f"{sent():,} tweets sent · Ctrl-C stops everything"
                    size = console.size
                    shown = table(counts, _waiting(home.events, waited), status, size.width, size.height)
                    live.update(shown, refresh=True)
                time.sleep(0.5)
    finally:
        if not console.is_terminal:
            for velocity in rows(read_counts(database)):
                console.print(f"#{velocity.tag:16} {velocity.rate:5.1f}/s {velocity.trend:8} {velocity.line}")


def _waiting(path: Path, seconds: float) -> str:
    """What there is to wait for before the first rows come."""
    last = events.last(path, "started")
    what = "Spark runs, the first tweets are being counted" if last else "Spark is starting, ten to thirty seconds"
    return f"{what} … {seconds:.0f} s"
