"""How time is cut into windows: the options, and what they mean to Spark."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from headrace.options import Duration, Options, refuse, show_duration

if TYPE_CHECKING:
    from pyspark.sql import Column

START, END = "window_start", "window_end"
"""The columns every windowed result begins with; a window holds times from its start up to, not including, its end."""


class Window(Options):
    """Windows of a fixed length over the event time.

    `tumbling: 10 seconds` cuts time into pieces; `hopping: 10 seconds, every: 5 seconds` begins a piece of
    ten seconds every five, so that a record is in two of them.
    """

    tumbling: Duration | None = Field(None, description="Length of windows that follow one another.")
    hopping: Duration | None = Field(None, description="Length of windows that overlap; needs `every`.")
    every: Duration | None = Field(None, description="How often a hopping window begins.")

    @model_validator(mode="after")
    def _one_kind(self) -> Window:
        if (self.tumbling is None) == (self.hopping is None):
            raise refuse("bad-option", "a window is either tumbling or hopping", "write {tumbling: 10 seconds}")
        if (self.hopping is None) != (self.every is None):
            raise refuse("bad-option", 'hopping and "every" go together', "write {hopping: 10 s, every: 5 s}")
        if self.length <= timedelta(0) or self.step <= timedelta(0):
            raise refuse("bad-option", "a window must be longer than nothing")
        if self.step > self.length:
            raise refuse(
                "bad-option",
                f"windows of {show_duration(self.length)} every {show_duration(self.step)} leave gaps",
                "every must not be longer than the window",
            )
        return self

    @property
    def length(self) -> timedelta:
        return self.tumbling or self.hopping or timedelta(0)

    @property
    def step(self) -> timedelta:
        return self.every or self.length

    def __str__(self) -> str:
        if self.tumbling:
            return f"tumbling {show_duration(self.length)}"
        return f"hopping {show_duration(self.length)} every {show_duration(self.step)}"

    def column(self, time: str) -> Column:
        """Spark's window column over an event-time column."""
        from pyspark.sql import functions as F

        return F.window(F.col(f"`{time}`"), interval(self.length), interval(self.step))


def interval(length: timedelta) -> str:
    """A length of time as Spark reads it."""
    return f"{round(length.total_seconds() * 1000)} milliseconds"


def tumbling(length: str | timedelta) -> Window:
    """Windows that follow one another."""
    return Window.model_validate({"tumbling": length})


def hopping(length: str | timedelta, every: str | timedelta) -> Window:
    """Windows of one length that begin more often than that."""
    return Window.model_validate({"hopping": length, "every": every})
