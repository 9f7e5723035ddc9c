"""Queries in real-time mode: started, settled after each batch, stopped at a checkpoint if one is near.

Records leave as they come; a batch is only the time between two checkpoints. What micro-batches do before a batch is
committed (journal, dead letters, late records, ledger) is done here after it, in a thread of its own, and before the
first batch of a run for whatever the last one could not do any more.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.compile.counting import Counts, Observed
from headrace.compile.leaves import leaves
from headrace.compile.plan import Plan, Query
from headrace.errors import UsageError
from headrace.run.book import Book
from headrace.run.checkpoint import last_committed, last_planned, state_format
from headrace.run.home import Home
from headrace.run.journal import Journal, note
from headrace.run.ledger import Ledger
from headrace.run.queries import Running, Stopping, has_watermark, noting
from headrace.run.resumed import going_on

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from headrace.compile.lower import Lowered
    from headrace.compile.where import Where


FIRST, FEW = 2.0, 4
"""How long the first batches last, in seconds, and how many they are: the first ends of batches take longest, since
Java has yet to compile what is done there, so they come while the run is still catching up (`make bench-pauses`)."""


@dataclass(kw_only=True)
class Unbroken(Running):
    """A query in real-time mode: it is always within a batch, so it is stopped when one has just ended."""

    settler: Settler
    every: float
    """Seconds from one checkpoint to the next."""
    began: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        self.settler.check()
        super().check()

    def stop(self, within: float) -> None:
        """Ends the query at the next checkpoint if that comes soon, else now; then what came since is written again."""
        before, now = last_committed(self.settler.checkpoint), time.monotonic()
        if max(self.began, self.settler.last_heard) + self.every <= now + within:
            while self.active and time.monotonic() < now + within and last_committed(self.settler.checkpoint) == before:
                time.sleep(0.02)
        if self.active:
            self.spark.stop()


@dataclass(kw_only=True)
class Settler:
    """Does what is left to do for each batch of one query that is committed, in order."""

    lowered: Lowered
    checkpoint: Path
    journal: Journal
    book: Book
    ledger: Ledger
    error: list[BaseException] = field(default_factory=list)
    last_heard: float = 0.0
    """When the last batch was reported, by the clock that only runs forward."""
    warm: Callable[[], None] = lambda: None
    """Called once when the first few batches are done."""
    _left: int = FEW
    _reports: queue.Queue[Mapping[str, Any] | None] = field(default_factory=queue.Queue)
    _thread: threading.Thread | None = None

    @property
    def query(self) -> str:
        return self.lowered.query.name

    def catch_up(self) -> None:
        """Settles the batches that were committed when nobody could settle them any more."""
        if self.error or (self._thread is not None and self._thread.is_alive()):
            return  # it is for the next run
        last = last_committed(self.checkpoint)
        done = max((entry.batch for entry in self.ledger.entries(self.query)), default=-1)
        for batch in range(done + 1, (last if last is not None else -1) + 1):
            self.settle(batch, None)

    def settle(self, batch: int, report: Mapping[str, Any] | None) -> None:
        """Settles one batch; durable on return."""
        from headrace.compile.settle import settle

        read = note(self.journal, self.checkpoint, batch, self.lowered.leaves)
        self.book.record(read, settle(self.lowered, batch, report))

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name=f"settle {self.query}", daemon=True)
        self._thread.start()

    def heard(self, report: Mapping[str, Any]) -> Counts:
        """Spark reports a batch that is committed; what it has counted."""
        self.last_heard = time.monotonic()
        self._left -= 1
        if self._left == 0:
            self.warm()
        self._reports.put(dict(report))
        return Observed.read(report)

    def close(self, within: float = 60.0) -> None:
        """Waits until everything that was heard is settled."""
        if self._thread is not None:
            self._reports.put(None)
            self._thread.join(within)

    def check(self) -> None:
        """Raises what went wrong."""
        if self.error:
            self.error[0].headrace_query = self.query  # type: ignore[attr-defined]
            raise self.error[0]

    def _work(self) -> None:
        while (report := self._reports.get()) is not None:
            if self.error:
                continue  # what comes later must not hide that something is missing; the next run catches up
            try:
                self.settle(int(report["batchId"]), report)
            except BaseException as error:  # noqa: BLE001, raised again where the queries are watched
                self.error.append(error)


def settled(home: Home, plan: Plan, query: Query, where: Where) -> Settler:
    """A query made ready: lowered, and the batches that it has committed before settled."""
    from headrace.compile.lower import lower

    checkpoint, journal = home.checkpoint(query.name), Journal(home.journal(query.name))
    if state_format(checkpoint) == 1:
        raise UsageError(
            f'query "{query.name}" has run in micro-batches, and real-time mode cannot go on from their state',
            detail="it needs state in which every batch names its own files",
            hint="--mode micro-batch goes on; --fresh begins anew and keeps the old home aside",
        )
    told = replace(where, checkpoint=checkpoint, note=noting(home), counted=True, real_time=True)
    lowered = lower(plan, query, told)
    ledger = Ledger(home.ledger)
    book = Book(ledger, plan, query, checkpoint, leaves(lowered.trunk), where.kafka, where.stop)
    settler = Settler(lowered=lowered, checkpoint=checkpoint, journal=journal, book=book, ledger=ledger)
    if last_planned(checkpoint) is None:
        lowered.begins()
    settler.catch_up()
    return settler


def start_query(plan: Plan, settler: Settler, stopping: Stopping) -> Unbroken:
    """Starts a query that is ready on its checkpoint."""
    assert plan.checkpoint is not None
    every, lowered, query = plan.checkpoint.total_seconds(), settler.lowered, settler.lowered.query

    watermarked, where = has_watermark(lowered.trunk), lowered.where

    def begin(trigger: dict[str, Any]) -> StreamingQuery:
        stream = (
            lowered.stream()
            .queryName(query.name)
            .outputMode("update")
            .option("checkpointLocation", str(settler.checkpoint))
            # Spark would note some batches later than it reports them, and others not at all.
            .option("asyncProgressTrackingEnabled", "false")
            .trigger(**trigger)
        )
        if not watermarked:
            return stream.start()
        return going_on(where.session, plan, query, settler.checkpoint, where.kafka, stream.start)

    first = min(every, FIRST)
    trigger = {"realTime": f"{round(first * 1000)} milliseconds"}
    settler.start()
    running = Unbroken(
        query=query,
        watermarked=watermarked,
        begin=begin,
        trigger=trigger,
        stopping=stopping,
        spark=begin(trigger),
        settler=settler,
        every=every,
    )
    if first < every:
        java: Any = where.session._jvm
        settler.warm = lambda: java.headrace.RealTime.every(running.spark._jsq, round(every * 1000))
    return running
