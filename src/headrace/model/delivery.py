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
