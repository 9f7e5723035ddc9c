"""Windows over a key's records in order: by count, sliding with each record, sessions with a limit or changing answers.

Spark has no such windows. Its keyed state holds a key's records until the watermark has passed them, in Java
(`headrace.InOrder`), so that a record is taken in the order of its time however the input was cut into batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.operators.folds import Fold
from headrace.operators.marks import noted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PACKED, LIKE = "_headrace_packed", "_headrace_like"
"""Columns of the state: the records as bytes, and one that is always null and has their columns.

So Spark refuses a checkpoint whose records had other columns, and whoever reads the state knows how to.
"""
_AT, _ALL = "_headrace_at", "_headrace_all"
_NEVER = 2**63 - 1


def windows_in_order(
    frame: DataFrame, fold: Fold, time: str, keys: Sequence[Column], values: Sequence[Column], *, streaming: bool
) -> DataFrame:
    """The keys; GONE; FROM and TO in microseconds, NUMBER, FIRST (from 1) and SIZE as arrays; each value as an array.

    A row holds several windows of one key: the n-th begins at FROM[n], and its values are SIZE[n] from FIRST[n] on.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    session = frame.sparkSession
    keys = list(keys) or [F.lit(0).alias(_ALL)]
    # Spark compares its watermark with the number behind a time, which this is.
    lead = fold.lead if streaming else 0
    at = noted(F.unix_micros(f"`{time}`") + lead, _AT, frame.schema[time].metadata)
    given = frame.select(*keys, at, *values).where(F.col(_AT).isNotNull())
    java: Any = session._jvm
    most = _NEVER if fold.most is None else fold.most
    how = (fold.kind, fold.size, fold.step, most, fold.changing, fold.allowance, lead)
    made = java.headrace.InOrder.windows(given._jdf, len(keys), streaming, *how)
    return DataFrame(made, session)
