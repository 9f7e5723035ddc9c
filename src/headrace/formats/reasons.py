"""Why a record could not be read: the columns all formats share.

Each function gives a STRING column that is null where there is nothing to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def column(name: str) -> Column:
    """A column by its exact name, dots and all."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def when(condition: Column, reason: str) -> Column:
    """The reason where the condition holds."""
    from pyspark.sql import functions as F

    return F.when(condition, F.lit(reason))


def no_value(value: Column) -> Column:
    """A record without a value, such as a Kafka tombstone."""
    return when(value.isNull(), "the record has no value")


def not_text(text: Column) -> Column:
    """Bytes that are not UTF-8."""
    from pyspark.sql import functions as F

    return when(~F.is_valid_utf8(text), "the record is not UTF-8 text")


def first_reason(*reasons: Column) -> Column:
    """The first reason that applies."""
    from pyspark.sql import functions as F

    return F.coalesce(*reasons)
