"""The time of a source's records on Spark: made, and records without one that can be believed left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.catalogue import SOURCES
from headrace.compile.letters import UNTIMED, Rejects
from headrace.connectors.time import ARRIVAL, Time
from headrace.model import Source
from headrace.operators.letters import because

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def timed(source: Source, frame: DataFrame, column: str, rejects: Rejects, at: int | None = None) -> DataFrame:
    """The frame with its time column made; what has none that is believed is rejected.

    `at`: when the batch was planned, in milliseconds, where it is read once more.

    Before the watermark is set, so that a record from the far future does not make all others late.
    """
    from pyspark.sql import functions as F

    time: Time = source.time
    if time.kind == "processing":
        # Of the batch, and the same when it is repeated.
        now = F.current_timestamp() if at is None else F.timestamp_millis(F.lit(at))
        frame = frame.withColumn(column, now)
        return rejects.take(source.name, frame, because(F.lit(None)), F.lit(False), counted=UNTIMED)
    made = F.col(ARRIVAL) if time.kind == "ingestion" else time.moment(F.col(f"`{column}`"))
    frame = frame.withColumn(column, made)
    told = F.col(f"`{column}`")
    ahead = _ahead(time, told, arrives=SOURCES[source.connector].arrival is not None)
    bad = told.isNull() | ahead
    reason = F.when(told.isNull(), F.lit("the record has no time that can be read")).when(
        ahead, F.lit("the time of the record lies too far in the future")
    )
    return rejects.take(source.name, frame, because(reason), bad, counted=UNTIMED)


def _ahead(time: Time, at: Column, *, arrives: bool) -> Column:
    """Whether a time lies too far in the future to be believed; never null."""
    from pyspark.sql import functions as F

    ahead, bound = F.lit(False), time.bound(arrives)
    if bound is not None:
        latest = F.col(ARRIVAL) + F.expr(f"INTERVAL '{bound.total_seconds():.3f}' SECOND")
        ahead = ahead | F.coalesce(at > latest, F.lit(False))
    if time.last is not None:
        ahead = ahead | F.coalesce(at >= F.lit(time.last), F.lit(False))
    return ahead
