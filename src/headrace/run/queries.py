"""Queries while they run: started, watched, stopped between two batches."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from headrace.compile.counting import TIMED, Counts
from headrace.compile.leaves import leaves
from headrace.compile.plan import Plan, Query
from headrace.compile.spoiled import Sieve, concerns
from headrace.model import Source
from headrace.observe import events
from headrace.observe.progress import OUT_METRIC, measure
from headrace.run.book import Book
from headrace.run.checkpoint import forget_unplanned, last_planned
from headrace.run.culprit import blame
from headrace.run.failure import SLOW_STARTS, slow_start
from headrace.run.flush import holds_windows
from headrace.run.home import Home
from headrace.run.journal import Journal, note
from headrace.run.ledger import Ledger, entry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from headrace.compile.where import Where


EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


class Stopping:
    """Whether the driver runs its queries, and whether it was asked to stop, and why."""

    def __init__(self) -> None:
        self.asked = False
        self.why = ""
        self.running = False
        self._news: SimpleQueue[None] = SimpleQueue()
        """Not an event: that one's lock may be held by the very thread that a signal interrupts to ask for a stop."""

    def ask(self, why: str) -> None:
        self.why = self.why or why
        self.asked = True
        self.tell()

    def tell(self) -> None:
        """Ends a wait before its time: there is something to look at."""
        self._news.put(None)

    def wait(self, seconds: float) -> bool:
        """Waits so long at most; whether a stop was asked for."""
        if not self.asked:
            with suppress(Empty):
                self._news.get(timeout=seconds)
        return self.asked


class BetweenBatchesError(Exception):
    """Raised in place of a batch's work to end a query exactly between two batches."""


@dataclass(kw_only=True)
class Running:
    """One query of the flow and the Spark query that runs it."""

    query: Query
    watermarked: bool
    begin: Callable[..., StreamingQuery]
    trigger: dict[str, Any] = field(default_factory=dict)
    stopping: Stopping
    error: list[BaseException] = field(default_factory=list)
    """What the batch function raised, before Java turned it into text."""
    held: threading.Event = field(default_factory=threading.Event)
    """Set where the next batch is not to be begun."""
    spoiled: threading.Event = field(default_factory=threading.Event)
    """Set where a batch failed for files that it is to be done again without."""
    tries: int = SLOW_STARTS
    """How often it may still be begun while Python is too slow to start."""
    spark: StreamingQuery

    @property
    def active(self) -> bool:
        return bool(self.spark.isActive)

    @property
    def waits(self) -> bool:
        """Whether it has looked for records and there are none."""
        return bool(self.spark.status["message"] == "Waiting for data to arrive")

    def once_more(self) -> Running:
        """The same query, which has ended well, started again for one batch."""
        # It is no longer active a moment before Spark lets go of its name; on a busy machine that moment is long.
        self.spark.awaitTermination()
        return Running(
            query=self.query,
            watermarked=self.watermarked,
            begin=self.begin,
            trigger={"once": True},
            stopping=self.stopping,
            error=self.error,
            spoiled=self.spoiled,
            spark=self.begin({"once": True}),
        )

    def hold(self, within: float) -> bool:
        """Ends the query to go on soon; whether that was before anything of the batch was done that is planned, if any.

        A query with more to do than time has no moment between two batches to be stopped in: its next batch is refused.
        """
        self.held.set()
        self.stop(within)
        with suppress(Exception):  # why it ended is said by `check`; here it is only waited for, until its name is free
            self.spark.awaitTermination()
        return self._refused

    def resume(self) -> None:
        """The same query started again to go on."""
        self.held.clear()
        self.error.clear()
        self.spark = self.begin(self.trigger)

    def goes_on(self) -> bool:
        """Whether the query runs; raises what has ended it.

        It is begun again where it failed for files that it can do without, or where Python was too slow to start: a
        new driver would take longer and make the others wait.
        """
        if self.active:
            return True
        slow = self.tries > 1 and any(slow_start(str(e)) for e in (*self.error, self.spark.exception()))
        if not slow:
            self.check()
        if self.stopping.asked or not (slow or self.spoiled.is_set()):
            return False
        self.tries -= slow
        with suppress(Exception):  # why it ended is known; here it is only waited for, until its name is free
            self.spark.awaitTermination()
        self.resume()
        return True

    @property
    def _refused(self) -> bool:
        return any(isinstance(e, BetweenBatchesError) for e in self.error)

    def check(self) -> None:
        """Raises what ended the query, unless it ended as it should."""
        if self.active:
            return
        said = self.spark.exception()
        if said is None or self._refused or self.spoiled.is_set():
            return
        error = self.error[0] if self.error else said
        error.headrace_query = self.query.name  # type: ignore[attr-defined]
        raise error

    def stop(self, within: float) -> None:
        """Ends the query between two batches if that comes soon, else in the middle of one, which is then replayed."""
        deadline = time.monotonic() + within
        while self.active and time.monotonic() < deadline and self.spark.status["isTriggerActive"]:
            time.sleep(0.05)
        if self.active:
            self.spark.stop()


def start_query(
    home: Home, plan: Plan, query: Query, where: Where, stopping: Stopping, watch: Watch, *, until_done: bool
) -> Running:
    """Lowers a query and starts it on its checkpoint."""
    from headrace.compile.lower import lower, unfinished

    checkpoint, journal = home.checkpoint(query.name), Journal(home.journal(query.name))
    remote = not isinstance(checkpoint, Path)
    told = replace(where, checkpoint=checkpoint, note=noting(home), counted=True)
    told = replace(told, journal=journal.path.resolve() if remote else None)
    lowered = lower(plan, query, told)
    errors: list[BaseException] = []
    held, spoiled, sieve = threading.Event(), threading.Event(), Sieve()
    order = leaves(lowered.trunk)
    if not remote:
        forget_unplanned(checkpoint, order)
    book = Book(Ledger(home.ledger), plan, query, checkpoint, order, where.kafka, where.stop)
    if last_planned(checkpoint) is None:
        lowered.begins()

    def write(frame: DataFrame, batch_id: int) -> None:
        try:
            if stopping.asked or held.is_set():
                # The batch before this one is committed, and nothing of this one is written: a clean place to end.
                # Returning instead would commit a batch whose rows nobody wrote.
                raise BetweenBatchesError
            read = note(journal, checkpoint, batch_id, order)
            outcome = lowered.write(frame, batch_id)
            watch.count(query, batch_id, observed(plan, query, outcome.trunk))
            book.record(read, outcome)
        except BaseException as error:
            if sieve.again(error, lowered, batch_id):
                spoiled.set()
            blame(error, lowered, batch_id)
            errors.append(error)
            raise

    def begin(trigger: dict[str, Any]) -> StreamingQuery:
        nonlocal lowered
        # A batch that is repeated leaves out the files that are noted as unreadable, so they are looked up each time.
        if spoiled.is_set() or (lowered.where.repeated != unfinished(checkpoint) and concerns(lowered)):
            lowered = lower(plan, query, told)
            spoiled.clear()
        with ending(where.session, query, trigger, flushed=holds_windows(query, watermarked=watermarked)):
            return (
                lowered.trunk.writeStream.foreachBatch(write)
                .queryName(query.name)
                .outputMode(query.changes.value)
                .option("checkpointLocation", str(checkpoint))
                .trigger(**trigger)
                .start()
            )

    watermarked = has_watermark(lowered.trunk)
    trigger: dict[str, Any] = {"availableNow": True} if until_done else {"processingTime": _pause(query)}
    return Running(
        query=query,
        watermarked=watermarked,
        begin=begin,
        trigger=trigger,
        stopping=stopping,
        error=errors,
        held=held,
        spoiled=spoiled,
        spark=begin(trigger),
    )


@contextmanager
def ending(session: SparkSession, query: Query, trigger: Mapping[str, Any], *, flushed: bool) -> Iterator[None]:
    """Within it a query is started that is to end with its input, without batches that have no records.

    Where something may come due by the clock Spark would ask for another one for ever; where all windows are closed
    afterwards (`flushed`), one more would only close some of them before. A query keeps the settings it is started
    with.
    """
    if "availableNow" not in trigger or not (query.ticks or flushed):
        yield
        return
    before = session.conf.get(EMPTY_BATCHES, "true") or "true"
    session.conf.set(EMPTY_BATCHES, "false")
    try:
        yield
    finally:
        session.conf.set(EMPTY_BATCHES, before)


def noting(home: Home) -> Callable[[dict[str, Any]], None]:
    """Tells of dead letters by an event; one for each batch that has any, and again if the batch is repeated."""

    def note(told: dict[str, Any]) -> None:
        events.append(home.events, "dead-letters", **told)

    return note


def _pause(query: Query) -> str:
    """How long Spark waits from batch to batch, as it reads it."""
    return f"{round(query.every.total_seconds() * 1000) if query.every else 0} milliseconds"


def has_watermark(frame: DataFrame) -> bool:
    """Whether a watermark is set somewhere in a frame's plan."""
    return "EventTimeWatermark" in str(frame._jdf.queryExecution().analyzed().toString())


def observed(plan: Plan, query: Query, counts: Counts) -> dict[str, dict[str, int | None]]:
    """What was counted in a batch up to the trunk, as a report of its progress has it."""
    found: dict[str, dict[str, int | None]] = {name: dict(fields) for name, fields in counts.taken.items()}
    for name, times in counts.times.items():
        source = plan.flow[name]
        assert isinstance(source, Source)
        delay = round(source.time.watermark.total_seconds() * 1000)
        mark = None if times.newest is None else times.newest - delay
        found.setdefault(name + TIMED, {}).update(records=times.records, newest=times.newest, watermark=mark)
    return {**found, OUT_METRIC: {"rows": counts.rows.get(str(query.trunk))}}


def run_batch(home: Home, plan: Plan, query: Query, where: Where) -> None:
    """Runs a query once over everything there is."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    from headrace.compile.lower import lower

    begun, sieve = time.monotonic(), Sieve()
    while True:
        lowered = lower(plan, query, replace(where, note=noting(home), counted=True))
        seen = Observation(OUT_METRIC)
        try:
            outcome = lowered.write(lowered.trunk.observe(seen, F.count(F.lit(1)).alias("rows")), 0)
            Ledger(where.home / home.ledger.name).put(entry(plan, query, 0, outcome))
            break
        except Exception as error:
            if sieve.again(error, lowered, 0):
                continue
            error.headrace_query = query.name  # type: ignore[attr-defined]
            blame(error, lowered, 0)
            raise
    report = {
        "batchId": 0,
        "batchDuration": round((time.monotonic() - begun) * 1000),
        "observedMetrics": {OUT_METRIC: {"rows": seen.get.get("rows")}},
    }
    events.append(home.events, "progress", **measure(report, query.name, query.sources))


class Watch:
    """What Spark reports about the queries, written as events: one for every batch that is committed."""

    def __init__(
        self,
        home: Home,
        queries: Sequence[Query],
        then: Callable[[dict[str, Any]], None],
        heard: Callable[[Query, dict[str, Any]], None] = lambda query, report: None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._home, self._then, self._heard, self._tell_ended = home, then, heard, ended
        self._queries = {query.name: query for query in queries}
        self._counted: dict[tuple[str, int], dict[str, dict[str, int | None]]] = {}
        self._ended: set[str] = set()
        self._more = threading.Condition()

    def attach(self, session: SparkSession) -> Callable[[], None]:
        """Begins to listen; what it returns ends it, for a session that outlives the queries."""
        from pyspark.java_gateway import ensure_callback_server_started

        context: Any = session.sparkContext
        ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
        spark: Any = session._jsparkSession.streams()
        wrapper = context._jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper
        listener = wrapper(_Listener(self._progress, self._over))
        spark.addListener(listener)
        return lambda: spark.removeListener(listener)

    def _over(self, run: str) -> None:
        with self._more:
            self._ended.add(run)
            self._more.notify_all()
        self._tell_ended()

    def count(self, query: Query, batch: int, found: dict[str, dict[str, int | None]]) -> None:
        """Takes in what was counted in a batch; Spark reports the batch when it is committed."""
        self._counted[query.name, batch] = found

    def _progress(self, name: str, report: dict[str, Any]) -> None:
        query = self._queries.get(name)
        if query is not None:
            self._heard(query, report)
            counted = self._counted.pop((name, report["batchId"]), {})
            report["observedMetrics"] = {**(report.get("observedMetrics") or {}), **counted}
            measured = measure(report, query.name, query.sources)
            events.append(self._home.events, "progress", **measured)
            self._then(measured)

    def settle(self, running: Sequence[Running], within: float = 5.0) -> None:
        """Waits until everything these queries had to report is written; Spark reports a little after the fact."""
        ended = {str(one.spark.runId) for one in running}
        with self._more:
            self._more.wait_for(lambda: ended <= self._ended, timeout=within)


class _Listener:
    """What Spark calls. PySpark's own would first fetch every number of a report from Java, one by one."""

    def __init__(self, progress: Callable[[str, dict[str, Any]], None], over: Callable[[str], None]) -> None:
        self._told, self._over = progress, over

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        return

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        report = event.progress()
        self._told(str(report.name() or ""), json.loads(report.json()))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        return

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._over(str(event.runId().toString()))

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
