"""The last windows of a bounded input: closes them once everything has been read.

A window is emitted when the watermark passes its end, and the watermark follows the newest record; so when the
input ends, the last windows stay open. Spark plans a batch on disk before it runs it. Here the next batch is
planned by hand: the offsets of the last one, hence no new record, under a watermark at the end of time. The
query, started again on that checkpoint for one batch, finds it planned but not done, runs it, and so emits
every open window and empties its state. The batch has its own number, so sinks treat it as any other.

After that every further record is late: the run is drained. A query whose results are updated as records come
has nothing left to emit, and is not drained.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from headrace.compile.plan import Query
from headrace.model import Changes
from headrace.run.checkpoint import last_committed, last_planned, planned, write_whole

END_OF_TIME = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp() * 1000)
"""Later than any record, and still a time that can be written down."""


def holds_windows(query: Query, *, watermarked: bool) -> bool:
    """Whether a query may still have results to emit when its input has ended."""
    return bool(query.stateful) and watermarked and query.changes is Changes.APPEND


def plan_flush(checkpoint: Path) -> int | None:
    """Plans the batch that closes all windows; its number, or None if there is nothing to close.

    May be called again after a crash: a flush that was planned stays as it is.
    """
    done, begun = last_committed(checkpoint), last_planned(checkpoint)
    if begun is None or done is None:
        return None
    if begun > done:
        entry = planned(checkpoint, begun)
        if entry.metadata.get("batchWatermarkMs") == END_OF_TIME:
            return begun
        raise ValueError(f"batch {begun} is planned but not done; it must run before the windows are closed")
    entry = planned(checkpoint, done)
    if entry.metadata.get("batchWatermarkMs") == END_OF_TIME:
        return None
    write_whole(checkpoint / "offsets" / str(done + 1), entry.at_watermark(END_OF_TIME).render())
    return done + 1


def plan_watermark(checkpoint: Path, milliseconds: int, *, refused: bool = False) -> int | None:
    """Plans a batch that brings the watermark up to a time; its number.

    It has no new records, unless a batch is planned that was `refused` before anything of it was done: then it is that
    one. None if the watermark is there already, or a batch is planned that must run first.
    """
    done, begun = last_committed(checkpoint), last_planned(checkpoint)
    if done is None or begun is None or (begun != done and not refused):
        return None
    entry = planned(checkpoint, begun)
    if entry.metadata.get("batchWatermarkMs", 0) >= milliseconds:
        return None
    write_whole(checkpoint / "offsets" / str(done + 1), entry.at_watermark(milliseconds).render())
    return done + 1
