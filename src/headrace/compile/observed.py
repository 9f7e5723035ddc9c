"""What was counted on the way through a batch, read as soon as the batch has been computed.

Spark hands observed metrics out after a batch is committed, which is too late for whoever must act on them before.
Inside `foreachBatch` they are there already: the accumulators of the running batch are complete once an action has
run over its frame. A frame that is computed twice counts twice, so it must be computed once, or be persisted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

_QUERY = "sql.streaming.queryId"
"""The local property by which the thread of a stream knows its query."""
_PATIENCE = 60_000
"""Milliseconds Spark's listeners may take to hear of a job that has ended."""

Metrics = Mapping[str, Mapping[str, Any]]


def this_execution(session: SparkSession) -> Any:
    """Spark's execution of the stream's part of the batch whose `foreachBatch` we are in; else None."""
    query = session.sparkContext.getLocalProperty(_QUERY)
    running: Any = session._jsparkSession.streams().get(query) if query else None
    return None if running is None else running.streamingQuery().lastExecution()


class Counted:
    """Counts taken in frames that are no streams, where Spark gives each count once, to whoever holds it."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._taken: dict[str, list[Observation]] = {}

    def observe(self, frame: DataFrame, name: str, *metrics: Column) -> DataFrame:
        """The frame, counted on its way into the first action that computes it."""
        from pyspark.sql import Observation

        seen = Observation()
        self._taken.setdefault(name, []).append(seen)
        return frame.observe(seen, *metrics)

    @property
    def used(self) -> bool:
        return bool(self._taken)

    def read(self) -> Metrics:
        """What was counted so far. What no action has computed is left out; counts of one name are added up."""
        if not self._taken:
            return {}
        context: Any = self._session.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty(_PATIENCE)
        found: dict[str, dict[str, Any]] = {}
        for name, observations in self._taken.items():
            for seen in observations:
                java: Any = seen._jo
                if not java.future().isCompleted():
                    continue
                for field, value in seen.get.items():
                    here = found.setdefault(name, {})
                    here[field] = (here.get(field) or 0) + (value or 0)
        return found
