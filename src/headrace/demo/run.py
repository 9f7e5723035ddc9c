"""Starts everything the demo needs, shows it, and takes it all down again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

from headrace.demo.screen import read_counts, rows, table
from headrace.errors import InternalError
from headrace.project import Project

RATE = 200.0
TOPIC = "tweets"
FLOW = "hashtag-velocity"


def run_demo(folder: Path, seconds: float | None, say: Callable[[str], None]) -> None:
    """The whole demo, in a folder of its own; until Ctrl-C, or for some seconds. Leaves no process behind."""
    from headrace.log import broker, topics

    project = _fresh(folder)
    flow = folder / f"{FLOW}.yaml"
    flow.write_text((files("headrace") / "demo" / flow.name).read_text(encoding="utf-8"), encoding="utf-8")
    with ExitStack() as stack:
        stack.callback(say, "stopped: the flow, the tweets and Kafka")
        stack.callback(shutil.rmtree, project.home / "broker", ignore_errors=True)
        stack.callback(broker.stop, project)
        say("starting a real Kafka …")
        running = broker.start(project)
        topics.create({"bootstrap.servers": running.bootstrap}, TOPIC, partitions=2)
        sent = stack.enter_context(_tweets(running.bootstrap))
        say(f"Kafka is at {running.bootstrap}; {RATE:.0f} tweets a second go to its topic {TOPIC}")
        say(f"starting the flow {flow} …")
        process = stack.enter_context(_flow(flow))
        stack.callback(say, "stopping …")
        with suppress(KeyboardInterrupt):
            _show(folder, process, seconds, sent)


def _fresh(folder: Path) -> Project:
    """An empty project; what an earlier demo left there is stopped and removed."""
    from headrace.log import broker

    if folder.exists():
        broker.stop(Project.find(folder))
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / "headrace.toml").touch()
    return Project.find(folder)


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
def _flow(flow: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The flow run by `headrace run`, as anybody would, as long as the context lasts."""
    command = [sys.executable, "-m", "headrace.cli.main", "run", flow.name, "--quiet"]
    with (flow.parent / "run.log").open("wb") as log:
        # A session of its own: Ctrl-C reaches the demo alone, which then stops its parts in order.
        process = subprocess.Popen(command, cwd=flow.parent, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _show(folder: Path, process: subprocess.Popen[bytes], seconds: float | None, sent: Callable[[], int]) -> None:
    """The table, twice a second; without a terminal, a line every few seconds."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    database = folder / "velocity.db"
    until = time.monotonic() + seconds if seconds is not None else None
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while until is None or time.monotonic() < until:
            if process.poll() is not None:
                tail = (folder / "run.log").read_text(errors="replace")[-1500:]
                raise InternalError("the flow ended by itself", detail=tail)
            counts = read_counts(database)
            status = f"{sent():,} tweets sent; results in {database}; Ctrl-C stops everything"
            if console.is_terminal:
                live.update(table(counts, status), refresh=True)
            time.sleep(0.5)
    if not console.is_terminal:
        for velocity in rows(read_counts(database)):
            console.print(f"#{velocity.tag:16} {velocity.rate:5.1f}/s {velocity.trend:8} {velocity.line}")
