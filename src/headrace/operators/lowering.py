"""From named values to Spark columns; shared by the operators that compute columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.operators.base import Lowering
from headrace.operators.columns import NamedValue, Value
from headrace.operators.functions import Function

if TYPE_CHECKING:
    from pyspark.sql import Column


class Emitted(dict[str, Any]):
    """A row on its way out of Python state: what Spark takes for a row, without being made into one first."""

    def asDict(self, recursive: bool = False) -> dict[str, Any]:  # noqa: N802
        return self


def spark_column(value: Value, low: Lowering) -> Column:
    """The Spark column of an expression or function over the step's first input."""
    from headrace.expressions.spark import to_spark

    if isinstance(value, Function):
        return value.column(low.given[0], low.step)
    return to_spark(value)


def spark_columns(columns: Iterable[NamedValue], low: Lowering) -> list[Column]:
    """Each value under its name."""
    return [spark_column(c.value, low).alias(c.name) for c in columns]


def ways(columns: Iterable[NamedValue]) -> str:
    """How these columns are executed: native, unless one is a function that could not be compiled."""
    told = [f"{c.name}: {c.value.how()}" for c in columns if isinstance(c.value, Function)]
    return "; ".join(told) or "native"
