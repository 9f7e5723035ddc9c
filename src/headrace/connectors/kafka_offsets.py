"""Where in a topic to begin or end: an offset for all partitions, one for each, or a time.

>>> parse_position("0:15,1:20", "--from").starting({"orders": 3})
{'startingOffsets': '{"orders": {"0": 15, "1": 20, "2": -2}}'}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.errors import UsageError

_EARLIEST, _LATEST = -2, -1


@dataclass(frozen=True, kw_only=True)
class Position:
    """One of the three is set."""

    all: int | None = None
    each: tuple[tuple[int, int], ...] = ()
    time: datetime | None = None

    def offset(self, partition: int) -> int | None:
        """The offset in that partition; None if it is not named."""
        return self.all if self.all is not None else dict(self.each).get(partition)

    def starting(self, partitions: Mapping[str, int]) -> dict[str, str]:
        """Spark's options to begin here; partitions that are not named begin at their oldest record."""
        if self.time is not None:
            # After the newest record: nothing yet, rather than an error.
            return {"startingTimestamp": self._milliseconds(), "startingOffsetsByTimestampStrategy": "latest"}
        return {"startingOffsets": self._offsets(partitions, _EARLIEST)}

    def ending(self, partitions: Mapping[str, int]) -> dict[str, str]:
        """Spark's options to end before here; partitions that are not named end at their newest record."""
        if self.time is not None:
            return {"endingTimestamp": self._milliseconds()}
        return {"endingOffsets": self._offsets(partitions, _LATEST)}

    def _milliseconds(self) -> str:
        assert self.time is not None
        return str(round(self.time.timestamp() * 1000))

    def _offsets(self, partitions: Mapping[str, int], other: int) -> str:
        def offset(number: int) -> int:
            found = self.offset(number)
            return other if found is None else found

        return json.dumps({topic: {str(n): offset(n) for n in range(count)} for topic, count in partitions.items()})


def parse_position(text: str | None, option: str) -> Position | None:
    """A position from what was written behind `--from` or `--to`; raises UsageError."""
    if text is None:
        return None
    written = text.strip()
    if re.fullmatch(r"\d+", written):
        return Position(all=int(written))
    if re.fullmatch(r"\d+:\d+(\s*,\s*\d+:\d+)*", written):
        pairs = (pair.split(":") for pair in written.split(","))
        return Position(each=tuple((int(partition), int(offset)) for partition, offset in pairs))
    try:
        time = datetime.fromisoformat(written)
    except ValueError:
        raise UsageError(
            f'{option} "{text}" is neither an offset nor a time',
            hint='write "1500", "0:1500,1:1720" or "2026-01-31T12:00:00Z"',
        ) from None
    return Position(time=time if time.tzinfo else time.replace(tzinfo=UTC))


def offsets_in(text: str | None) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition, from a checkpoint's text; what Spark writes before them is skipped.

    >>> offsets_in('v1\\n{"orders":{"0":15}}'), offsets_in(None)
    ({'orders': {'0': 15}}, {})
    """
    found: dict[str, dict[str, int]] = json.loads(text[text.index("{") :]) if text else {}
    return found
