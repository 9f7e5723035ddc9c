"""Dead letters: the records that a source or step could not take, and what is known of each.

A record is *rejected* where it fails: the main path counts it and goes on without it. Only when a batch has rejected
any are they looked for again, with where they came from carried along; see `headrace.compile.letters`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.model import Schema
from headrace.model.types import parse_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

LETTERS = Schema.parse(
    "step STRING, reason STRING, function STRING, place STRING, record STRING, value BINARY, key BINARY, "
    "source STRING, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, file STRING, line BIGINT, "
    "at TIMESTAMP"
)
"""The columns of a port `dead_letter`; the guide says what each means."""

FAILED = "_headrace_failed"
"""The column that tells what is wrong with a record, null where nothing is."""
FAILED_TYPE = "struct<reason:string,function:string,place:string,record:string,call:string>"
"""`record` is set where the columns beside it are no longer those that failed, `call` where a function raised."""


def failed_type() -> DataType:
    """FAILED_TYPE as Spark takes it where it does not take a text."""
    from headrace.expressions.spark import spark_type

    return spark_type(parse_type(FAILED_TYPE))


class Reject(Protocol):
    """Takes the records out of a frame of which `failed`, of FAILED_TYPE, is not null."""

    def __call__(self, frame: DataFrame, failed: Column) -> DataFrame: ...


def because(reason: Column) -> Column:
    """A FAILED_TYPE from a text, null where the text is."""
    from pyspark.sql import functions as F

    nothing = F.lit(None).cast("string")
    rest = (nothing.alias(name) for name in ("function", "place", "record", "call"))
    return F.when(reason.isNotNull(), F.struct(reason.alias("reason"), *rest)).cast(FAILED_TYPE)


def stop_at(frame: DataFrame, failed: Column) -> DataFrame:
    """Rejects nothing: fails at the first record that would be. Where nobody can take a dead letter."""
    from pyspark.sql import functions as F

    stop = F.raise_error(F.concat(F.lit("a record was refused: "), failed["reason"]))
    # In a filter: Spark may not leave it out, as it would a column that nothing reads.
    return frame.where(F.when(failed.isNotNull(), stop.cast("boolean")).otherwise(F.lit(True)))
