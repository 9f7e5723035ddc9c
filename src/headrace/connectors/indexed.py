"""Streams of rows known by their number: numbers that Spark counts itself, and a row made of each.

The offset is the number of the next row, so any range of rows can be made again, on any machine.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.base import Between, Reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW = "row"
"""The column that has the number."""
FIRST, BEHIND = "first", "behind"


@dataclass(frozen=True, kw_only=True)
class Numbered:
    """Which numbers there are from 0 on, and when."""

    total: int | None = None
    """How many there are; None: they never end."""
    per_second: float | None = None
    """How many come due in each second of a stream; None: all are there from the beginning."""
    per_batch: int | None = None


def read_numbers(numbered: Numbered, reading: Reading) -> DataFrame:
    """A streaming or batch frame of the numbers, in ROW, in order within each task."""
    options = {"total": numbered.total, "perSecond": numbered.per_second, "perBatch": numbered.per_batch}
    if reading.between is not None:
        options[FIRST], options[BEHIND] = rows_of(reading.between)
    reader = reading.session.readStream if reading.streaming else reading.session.read
    said = {name: value for name, value in options.items() if value is not None}
    return reader.format("headrace.Numbers").options(**said).load()


def rows_of(between: Between) -> tuple[int, int]:
    """The numbers of the first row and of the one behind the last.

    >>> rows_of(Between(start=None, end='{"row": 7}'))
    (0, 7)
    """
    start, end = (int(json.loads(text)["row"]) if text else 0 for text in (between.start, between.end))
    return start, max(start, end)
