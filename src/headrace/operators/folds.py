"""Windows that depend on the order of a key's records: what tells one kind from another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Fold:
    """How windows are made of records in order; `headrace.Fold`, in Java, makes them."""

    kind: Literal["count", "sliding", "session"]
    size: int
    """How many records, or how many microseconds: the length, or the pause that ends a session."""
    step: int = 0
    """After how many records a window is given."""
    most: int | None = None
    """How long a session may be."""
    changing: bool = False
    """Whether a window is given before it is complete, and again when it has changed."""
    allowance: int = 0
    """By how many microseconds more than the watermark a record may be late."""

    @property
    def lead(self) -> int:
        """How much later than its time a record is too late: a session without a limit takes it up to its end."""
        return self.allowance + (self.size if self.kind == "session" and self.most is None else 0)
