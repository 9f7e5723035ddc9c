"""Keys that share a drawer, for Python state on Spark.

For each key that Spark knows, its Python worker makes and sends a batch of Arrow data, even if the key gives nothing:
more than a tenth of a millisecond, whatever the step does. So Spark is told of drawers, a fixed number of them, and
what is kept for a key lies in its drawer under the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql import types as s

Owner = tuple[Any, ...]
"""The values of a key."""
DRAWER = "_headrace_drawer"
DRAWERS = 256
"""Part of what a checkpoint means: with another number the state of a key would not be found again."""


def drawer(names: Sequence[str]) -> Column:
    """The drawer of a record's key, from the columns of these names."""
    from pyspark.sql import functions as F

    keys = (F.col(f"`{name}`") for name in names)
    return F.pmod(F.xxhash64(*keys), F.lit(DRAWERS)).cast("int").alias(DRAWER)


def hashable(key: s.StructType) -> bool:
    """Whether keys can be told apart as they are: no value is without a hash or, not a number, equals nothing."""
    from pyspark.sql import types as s

    plain = (s.StringType, s.BooleanType, s.IntegralType, s.DecimalType, s.DateType, s.TimestampType, s.BinaryType)
    return all(isinstance(field.dataType, plain) for field in key.fields)
