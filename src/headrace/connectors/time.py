"""The time of a source's records: which column tells it, and how long to wait for late ones."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from pydantic import Field

from headrace.options import Duration, Options


class Time(Options):
    """Event time from a column, with a watermark that follows the newest time seen.

    The watermark stays `watermark` behind the newest event time; a window is complete when it has passed
    the window's end. A longer one waits for later records, a shorter one answers sooner.
    """

    shorthand: ClassVar[str] = "column"
    column: str = Field(description="The TIMESTAMP column that says when a record happened.")
    watermark: Duration = Field(timedelta(0), description="How long to wait for records that come late.")
