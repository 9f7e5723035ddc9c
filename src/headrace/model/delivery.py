"""What can be promised about each record, and how promises combine."""

from __future__ import annotations

from enum import Enum, IntEnum


class Delivery(IntEnum):
    """How often a record reaches a sink, weakest first, so `min` finds the weakest link."""

    AT_MOST_ONCE = 1
    AT_LEAST_ONCE = 2
    EXACTLY_ONCE = 3

    def __str__(self) -> str:
        return self.name.lower().replace("_", "-")

    @classmethod
    def parse(cls, text: str) -> Delivery:
        return cls[text.upper().replace("-", "_")]


class Mode(Enum):
    """How a flow is driven."""

    BATCH = "batch"
    MICRO_BATCH = "micro-batch"
    REAL_TIME = "real-time"

    def __str__(self) -> str:
        return self.value


class Changes(Enum):
    """What a stream of rows means: new facts, or new values for a key."""

    APPEND = "append"
    UPDATE = "update"


REMOVED = "_headrace_removed"
"""A column that travels with the rows of a step that may take rows back: true for one that was given and is no more.

Such a row has the values it was given with, so steps on the way do with it what they did with the row itself, and it
reaches every sink that had it and no other.
"""
