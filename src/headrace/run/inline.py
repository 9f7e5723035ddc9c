"""Queries run to their end in this process, without home or supervisor: for cases, benchmarks and checks."""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.compile.lower import Lowered, lower
from headrace.compile.plan import Plan, Query
from headrace.compile.spoiled import Sieve
from headrace.compile.where import Where
from headrace.project import Project
from headrace.run import classes
from headrace.run import session as sessions
from headrace.run.failure import SLOW_STARTS, slow_start
from headrace.run.flush import holds_windows, plan_flush
from headrace.run.ledger import Ledger, entry
from headrace.run.queries import ending, has_watermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_to_end(
    plan: Plan, query: Query, where: Where, checkpoint: Path, *, flush: bool = True, ledger: Ledger | None = None
) -> None:
    """Takes all input there is, and closes the last windows unless `flush` is off; raises what a batch raises."""
    drive(lower(plan, query, replace(where, checkpoint=checkpoint)), checkpoint, flush=flush, ledger=ledger)


def drive(lowered: Lowered, checkpoint: Path, *, flush: bool = True, ledger: Ledger | None = None) -> None:
    """The same for a query that is lowered already."""
    plan, query, where = lowered.plan, lowered.query, lowered.where
    sieve, spoiled = Sieve(), threading.Event()

    def write(frame: DataFrame, batch_id: int) -> None:
        try:
            outcome = lowered.write(frame, batch_id)
        except Exception as error:
            if sieve.again(error, lowered, batch_id):
                spoiled.set()
            raise
        if ledger is not None:
            ledger.put(entry(plan, query, batch_id, outcome))

    def unspoiled(do: Callable[[], None]) -> None:
        """Does it, and again as long as files that cannot be read are what it failed for."""
        nonlocal lowered
        while True:
            try:
                return do()
            except Exception:
                if not spoiled.is_set():
                    raise
                spoiled.clear()
                lowered = lower(plan, query, where)

    if not where.streaming:
        unspoiled(lambda: write(lowered.trunk, 0))
        return

    flush = flush and holds_windows(query, watermarked=has_watermark(lowered.trunk))

    def once(**trigger: Any) -> None:
        with ending(where.session, query, trigger, flushed=flush):
            started = (
                lowered.trunk.writeStream.foreachBatch(write)
                .outputMode(query.changes.value)
                .option("checkpointLocation", str(checkpoint))
                .trigger(**trigger)
                .start()
            )
        started.awaitTermination()

    def run(**trigger: Any) -> None:
        for left in reversed(range(SLOW_STARTS)):
            try:
                unspoiled(lambda: once(**trigger))
                return
            except Exception as error:
                if not left or not slow_start(str(error)):
                    raise

    run(availableNow=True)
    if flush and plan_flush(checkpoint) is not None:
        run(once=True)


def local_session(project: Project | None = None, *, cores: int = 2, brief: bool = False) -> SparkSession:
    """A Spark session on this machine, quiet, with the Kafka connector; its files go when the process ends.

    `brief`: for a few small jobs, which Java is not to spend its time on making faster.
    """
    from headrace.log.jars import ensure
    from headrace.log.java import find_java

    project = project or Project.find()
    java = find_java(project.settings.java.home)
    folder = tempfile.TemporaryDirectory(prefix="headrace-spark-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    scratch, master = Path(folder.name) / "scratch", f"local[{cores}]"
    paths = (Path.cwd(), *sessions.python_path(project.root / "flow", project.root))
    os.environ.update(sessions.environment(java.home, master, paths))
    log4j = Path(folder.name) / "log4j2.properties"
    jars = ensure("spark", java=java)
    wanted = sessions.settings(
        master=master,
        jars=jars,
        scratch=scratch,
        log4j=log4j,
        project=project.settings.spark.settings,
        java=f"{classes.options(java, jars)} {sessions.BRIEF if brief else ''}",
    )
    with _quiet(Path(folder.name) / "spark.log"):
        return sessions.start("local", wanted, log4j=log4j, scratch=scratch)


@contextmanager
def _quiet(file: Path) -> Iterator[None]:
    """Sends standard error to a file, for a child that takes it over: Java, which then writes its log there."""
    kept = os.dup(2)
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    os.close(log)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
