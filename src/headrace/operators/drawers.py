"""Keys that share a drawer, for Python state on Spark.

For each key that Spark knows, its Python worker makes and sends a batch of Arrow data, even if the key gives nothing:
more than a tenth of a millisecond, whatever the step does. So Spark is told of drawers, a fixed number of them, and
what is kept for a key lies in its drawer under the key.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql import types as s

Owner = tuple[Any, ...]
"""The values of a key."""
DRAWER = "_headrace_drawer"
DRAWERS = 256
"""Part of what a checkpoint means: with another number the state of a key would not be found again."""

PACKED, LIKE = "_headrace_packed", "_headrace_like"
"""Columns of a state: records as Arrow data, and one that is always null and has their columns.

So Spark refuses a checkpoint whose records had other columns, and whoever reads the state knows how to.
"""


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


def namer(key: s.StructType) -> Callable[[Owner], Any]:
    """What tells keys apart: the key itself, or else its text."""
    return _itself if hashable(key) else repr


def owning(key: s.StructType) -> Callable[[Owner], Owner]:
    """A key as it is kept: those equal to Spark have one text, so a zero has no sign."""
    return _itself if hashable(key) else _unsigned


def _itself(owner: Owner) -> Owner:
    return owner


def _unsigned(owner: Owner) -> Owner:
    return tuple(value or 0.0 if isinstance(value, float) else value for value in owner)


def pack(rows: list[Any]) -> bytes:
    """Plain values as bytes: cheaper than Spark's way, which is one value at a time."""
    return pickle.dumps(rows, 5)


def unpack(packed: bytes) -> list[Any]:
    """What `pack` was given."""
    found: list[Any] = pickle.loads(packed)
    return found
