"""The mark on a column that tells Spark it is the event time.

Spark keeps it in the column's metadata. The watermark itself is measured where `withWatermark` was called, at the
source; a column that is made of marked ones, or that is one of two, is marked or unmarked here, so that the steps
behind find exactly one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.operators.windows import WATERMARKED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def named(column: str) -> str:
    """A column's name as Spark's parser takes it, whatever is in it.

    >>> named("a `b`")
    '`a ``b```'
    """
    return "`" + column.replace("`", "``") + "`"


def marks_of(frame: DataFrame, column: str) -> dict[str, Any]:
    """What Spark and we noted about a column."""
    return dict(frame.schema[column].metadata)


def marked(frame: DataFrame, column: str, marks: Mapping[str, Any]) -> DataFrame:
    """The frame with other notes on one column."""
    from pyspark.sql import functions as F

    return frame.select(*(noted(F.col(named(n)), n, marks) if n == column else F.col(named(n)) for n in frame.columns))


def noted(column: Column, name: str, marks: Mapping[str, Any]) -> Column:
    """The column under a name with these notes and no others."""
    return column.alias(name, metadata={"headrace": 0, **marks})  # empty metadata would keep the old ones


def delayed(marks: Mapping[str, Any], delay: timedelta) -> dict[str, Any]:
    """The notes with another distance between the time and its watermark."""
    return {**marks, WATERMARKED: round(delay.total_seconds() * 1000)}


def unmarked(marks: Mapping[str, Any]) -> dict[str, Any]:
    """The notes of a column that is no longer the event time."""
    return {name: value for name, value in marks.items() if name != WATERMARKED}
