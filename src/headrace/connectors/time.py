"""The time of a source's records: which column tells it, how long to wait for late ones, what is not believed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from headrace.model.types import BIGINT, INT, STRING, TIMESTAMP, DataType
from headrace.options import Duration, Options, refuse, show_duration

if TYPE_CHECKING:
    from pyspark.sql import Column

PROCESSING = "processing_time"
"""The column that `time: processing` adds."""
ARRIVAL = "_headrace_arrival"
"""The column a source adds for us when it is asked when its records arrived."""
AHEAD = timedelta(hours=1)
EPOCH = {"epoch-seconds": 1_000_000, "epoch-milliseconds": 1000, "epoch-microseconds": 1}
_LETTERS = {
    **dict.fromkeys("dHhKkms", (1, 2)),
    **dict.fromkeys("GMLz", range(1, 5)),
    **dict.fromkeys("XxZ", range(1, 6)),
    **{"y": range(1, 7), "D": range(1, 4), "a": (1,), "S": range(1, 10), "V": (2,), "O": (1, 4)},
}
"""The letters of a pattern by which Spark reads a time, and how often each may stand; it writes by more of them."""


class Time(Options):
    """Event time from a column, ingestion time or processing time, with a watermark that follows the newest time seen.

    The watermark stays `watermark` behind the newest time; a window is complete when it has passed the window's
    end. A longer one waits for later records, a shorter one answers sooner.

    `time: ingestion` is when a record reached the log; `time: processing` is when the batch it is in was planned,
    which is written down, so that a batch repeated after a crash has the same. A record without a time, with one
    that cannot be read, or with one too far in the future is counted as unreadable and left out: it neither gets
    into a window nor moves the watermark.
    """

    shorthand: ClassVar[str] = "column"
    column: str | None = Field(None, description="The column that says when a record happened.")
    kind: Literal["event", "ingestion", "processing"] = Field(
        "event", description="What the time means: from a column, when it reached the log, or when it is processed."
    )
    format: str | None = Field(
        None,
        description="How a text column writes the time, as a Spark pattern; or what a number column counts: "
        "epoch-seconds, epoch-milliseconds or epoch-microseconds.",
        examples=["dd.MM.yyyy HH:mm:ss", "epoch-milliseconds"],
    )
    watermark: Duration = Field(timedelta(0), description="How long to wait for records that come late.")
    ahead: Duration | None = Field(
        None,
        description="How far a time may lie behind the record's arrival in the log and still be believed; "
        "1 hour where the source knows the arrival, as kafka does.",
    )
    idle: Duration | None = Field(
        None,
        description="After how long without a record the source no longer holds the watermark back: others lead then, "
        "and when all are silent time goes on as the clock does.",
        ge=timedelta(seconds=1),
    )
    before: datetime | None = Field(
        None, description="Times from here on are not believed, for any source.", examples=["2100-01-01T00:00:00Z"]
    )

    @model_validator(mode="before")
    @classmethod
    def _in_short(cls, given: Any) -> Any:
        words = ("ingestion", "processing")
        if isinstance(given, dict) and given.get("column") in words and "kind" not in given:
            return {k: v for k, v in given.items() if k != "column"} | {"kind": given["column"]}
        return given

    @model_validator(mode="after")
    def _fits(self) -> Time:
        if self.kind == "event" and self.column is None:
            raise refuse("missing-option", 'event time needs "column"', "name it, or write `time: ingestion`")
        if self.kind != "event":
            unfit = [n for n in ("column", "format", "ahead", "before") if getattr(self, n) is not None]
            if unfit:
                raise refuse(
                    "bad-option", f'{self.kind} time takes no "{unfit[0]}"', "only watermark and idle go with it"
                )
        if self.format is not None and self.format not in EPOCH and (said := _unread(self.format)):
            raise refuse(
                "bad-option",
                f'the time format "{self.format}" has {said}',
                "write a pattern such as \"yyyy-MM-dd HH:mm:ss\", other text in 'quotes', or epoch-milliseconds",
            )
        return self

    @property
    def last(self) -> datetime | None:
        """The first time that is not believed any more; a text without a zone means UTC."""
        return self.before and (self.before if self.before.tzinfo else self.before.replace(tzinfo=UTC))

    def reads(self) -> frozenset[DataType]:
        """The types of column it can be read from."""
        if self.format is None:
            return frozenset({TIMESTAMP})
        return frozenset({BIGINT, INT}) if self.format in EPOCH else frozenset({STRING})

    def moment(self, column: Column) -> Column:
        """The time in a column of such a type; null where it cannot be read."""
        from pyspark.sql import functions as F

        if self.format is None:
            return column
        if self.format in EPOCH:
            return F.timestamp_micros(column.cast("bigint") * EPOCH[self.format])
        return F.try_to_timestamp(column, F.lit(self.format))

    def bound(self, arrives: bool) -> timedelta | None:
        """How far ahead of its arrival a record may be; None: nothing is known about arrivals, or nothing is asked."""
        return (self.ahead or AHEAD) if arrives and self.kind == "event" else None

    def show(self, arrives: bool) -> str:
        """What is done with the time, for `explain`."""
        said = [f"watermark {show_duration(self.watermark)} behind the newest"]
        if (ahead := self.bound(arrives)) is not None:
            said.append(f"not believed: more than {show_duration(ahead)} after the record's arrival")
        if self.last is not None:
            said.append(f"not believed: from {self.last.isoformat()} on")
        if self.kind == "event" and self.last is None and ahead is None:
            said.append("no bound on times in the future")
        if self.idle is not None:
            said.append(f"silent for {show_duration(self.idle)}, it holds nothing back")
        elif self.kind == "processing":
            said.append("it stands still while no record comes, and the last windows stay open: `idle` ends that")
        return "; ".join(said)


def _unread(pattern: str) -> str:
    """What of a pattern no time can be read by; empty: nothing.

    >>> _unread("yyyy-MM-dd'T'HH:mm"), _unread("E dd.MM.yyyy"), _unread("yyyy-MMM-ddd")
    ('', 'letter "E", by which no time is read', '"ddd", one letter too many')
    """
    bare = re.sub(r"'[^']*'", "", pattern)
    runs = [found[0] for found in re.finditer(r"([A-Za-z])\1*", bare)]
    for run in runs:
        if run[0] not in _LETTERS:
            return f'letter "{run[0]}", by which no time is read'
        if len(run) not in _LETTERS[run[0]]:
            many = "one letter too many" if len(run) > max(_LETTERS[run[0]]) else "which Spark does not read"
            return f'"{run}", {many}'
    odd = next((c for c in bare if c in "'{}#"), "")
    if odd or not runs:
        return "a quote that is not closed" if odd == "'" else f'"{odd}", which means nothing' if odd else "no letter"
    return ""
