"""A real standalone Spark cluster: a master and workers as ordinary processes on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import EndpointError

LOOPBACK = "127.0.0.1"
READY_SECONDS = 60.0


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    master: str
    """What `--master` takes."""
    status: str

    def state(self) -> dict[str, Any]:
        """What the master knows: workers, applications that run, those that are done."""
        with urllib.request.urlopen(self.status, timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@contextmanager
def running_spark_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master and workers with one core each, on free ports; gone afterwards, with their executors."""
    port, web = _free_port(), _free_port()
    cluster = Cluster(f"spark://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{web}/json/")
    with ExitStack() as running:
        running.enter_context(
            _daemon(folder, "master", "Master", "--host", LOOPBACK, "--port", str(port), "--webui-port", str(web))
        )
        for number in range(workers):
            own = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g")
            where = folder / f"worker-{number}"
            running.enter_context(_daemon(folder, where.name, "Worker", *own, "--work-dir", str(where), cluster.master))
        deadline = time.monotonic() + READY_SECONDS
        while _alive(cluster) != workers:
            if time.monotonic() > deadline:
                said = (folder / "worker-0.log").read_text(encoding="utf-8", errors="replace")
                raise EndpointError("a local Spark cluster did not start", detail=said[-2000:])
            time.sleep(0.05)
        yield cluster


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _alive(cluster: Cluster) -> int:
    try:
        return len(cluster.state()["workers"])
    except (OSError, ValueError):  # it does not answer yet, or with a page of its own
        return 0


@contextmanager
def _daemon(folder: Path, name: str, kind: str, *arguments: str) -> Iterator[None]:
    import pyspark

    from headrace.log.java import find_java

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        **find_java().environment(),
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": sys.executable,
    }
    environment.pop("PYTHONPATH", None)  # workers must get the flow's modules from the driver, not from here
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        process.terminate()  # a worker then ends its executors
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
