"""How long real-time mode stands still at a checkpoint, and what latency is left around it; on a broker of its own.

    python -m tools.pause --every "10 seconds" --for 60 --rate 1000 [--stateless] [--set NAME=VALUE …]

Runs a flow from Kafka to Kafka with `headrace run`, sends records at a rate, and takes the time from when each was
sent to when its answer was read, one by one. Prints the percentiles and, for each checkpoint, its pause and of what it
consisted. The first seconds do not count (`--warm`). For a machine that does nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from headrace.log import broker, topics
from headrace.observe import events
from headrace.options import parse_duration
from headrace.project import Project, kafka_client
from headrace.run.home import home_of

_FLOW = """\
flow: pause
goal: {{latency: best, checkpoint: {every}}}
spark: {spark}
sources:
  given: {{kafka: given, format: json, schema: 'k STRING, t DOUBLE'}}
steps:
  answered: {{from: given, {step}}}
sinks:
  answers: {{from: answered, kafka: {{topic: answers, key: k}}}}
"""
_KEYED = "aggregate: {by: k, compute: {n: count(*), t: max(t)}}"
_STATELESS = "filter: t > 0"
_KEYS = 100


def main(arguments: list[str]) -> int:
    """Measures once, and prints what was found."""
    asked = argparse.ArgumentParser(prog="tools.pause")
    asked.add_argument("--every", default="10 seconds")
    asked.add_argument("--for", dest="seconds", type=float, default=60.0)
    asked.add_argument("--warm", type=float, default=20.0)
    asked.add_argument("--rate", type=int, default=1000)
    asked.add_argument("--stateless", action="store_true")
    asked.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    given = asked.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="headrace-pause-") as folder:
        root = Path(folder)
        (root / "headrace.toml").touch()
        spark = json.dumps(dict(pair.split("=", 1) for pair in given.set))
        step = _STATELESS if given.stateless else _KEYED
        (root / "pause.yaml").write_text(_FLOW.format(every=given.every, spark=spark, step=step))
        project = Project.find(root)
        broker.start(project)
        try:
            found = _measure(project, given)
        finally:
            broker.stop(project, delete=True)
    print(json.dumps(found, indent=2))
    return 0


def _measure(project: Project, given: argparse.Namespace) -> dict[str, Any]:
    client = dict(kafka_client(project, None))
    for topic in ("given", "answers"):
        topics.create(client, topic, partitions=2)
    home = home_of(project.home, "pause")
    command = [sys.executable, "-m", "headrace.cli.main", "run", "pause.yaml", "--quiet"]
    run = subprocess.Popen(command, cwd=project.root, env=dict(os.environ))
    try:
        while not any(e["event"] == "started" for e in events.read(home.events)):
            if run.poll() is not None:
                raise SystemExit(f"the run ended with {run.returncode}")
            time.sleep(0.1)
        taken = _latencies(client, given)
    finally:
        run.send_signal(signal.SIGINT)
        run.wait(60)
    every = parse_duration(given.every).total_seconds()
    progress = [e for e in events.read(home.events) if e["event"] == "progress"]
    pauses = [round(e["seconds"] - every, 3) for e in progress]
    parts = progress[-1]["split"] | {"addBatch": round(progress[-1]["split"]["addBatch"] - every, 3)}
    return {"answers": len(taken), "milliseconds": _percentiles(taken), "pauses": pauses, "the last one": parts}


def _latencies(client: dict[str, str], given: argparse.Namespace) -> list[float]:
    """Milliseconds from sending to reading, sorted."""
    from confluent_kafka import Consumer, Producer

    found: list[tuple[float, float]] = []
    done = threading.Event()

    def read() -> None:
        consumer = Consumer(
            {**client, "group.id": uuid4().hex, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 5}
        )
        consumer.subscribe(["answers"])
        while not done.is_set():
            message = consumer.poll(0.1)  # one by one: a bundle would wait for its last
            if message is not None and message.error() is None:
                found.append((time.time(), json.loads(message.value() or b"{}")["t"]))
        consumer.close()

    reader = threading.Thread(target=read)
    reader.start()
    producer = Producer({**client, "linger.ms": 0})
    begun, sent = time.time(), 0
    while (now := time.time()) - begun < given.warm + given.seconds:
        for _ in range(int((now - begun) * given.rate) - sent):
            key = f"k{sent % _KEYS}"
            producer.produce("given", key=key, value=json.dumps({"k": key, "t": time.time()}))
            sent += 1
        producer.poll(0)
        time.sleep(0.001)
    producer.flush()
    time.sleep(2)  # a second longer than the last answers should take
    done.set()
    reader.join()
    return sorted(1000 * (at - t) for at, t in found if t > begun + given.warm)


def _percentiles(values: list[float]) -> dict[str, float]:
    named = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    return {name: round(values[min(len(values) - 1, int(len(values) * at))], 1) for name, at in named.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
