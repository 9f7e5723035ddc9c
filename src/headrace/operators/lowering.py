"""From named values to Spark columns; shared by the operators that compute columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headrace.operators.base import Lowering
from headrace.operators.columns import NamedValue, Value
from headrace.operators.functions import Function

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CALLED = "_headrace_called_"
"""Columns that hold what a function gave, as long as it is not known whether it failed."""


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


def computed(frame: DataFrame, values: Iterable[Value], low: Lowering) -> tuple[DataFrame, Callable[[Value], Column]]:
    """The frame without the records on which a function raised, and how to get the column of each value.

    Python functions are called here, once, so that their failures are known before their values are used. The
    columns that hold both are to be left out with `uncalled`.
    """
    from pyspark.sql import functions as F

    given = [v for v in dict.fromkeys(values) if isinstance(v, Function) and not v.is_compiled()]
    if not given:
        return frame, lambda value: spark_column(value, low)
    names = {function: f"{_CALLED}{number}" for number, function in enumerate(given)}
    record = _digest(frame, low)
    called = frame.withColumns({name: f.attempt(low, number, record) for number, (f, name) in enumerate(names.items())})
    failures = [F.col(f"{name}.failed") for name in names.values()]
    if len(failures) > 1:  # one that raised when it counted comes before one that raises only now
        failures = [*(F.when(one["reason"].isNotNull(), one) for one in failures), *failures]
    frame = low.reject(called, F.coalesce(*failures))

    def column(value: Value) -> Column:
        called = isinstance(value, Function) and value in names
        return F.col(f"{names[value]}.value") if called else spark_column(value, low)  # type: ignore[index]

    return frame, column


def _digest(frame: DataFrame, low: Lowering) -> Column:
    """A digest of the whole record: other records may come to a function with the same arguments."""
    from pyspark.sql import functions as F

    kinds = {f.name: f.dataType.simpleString() for f in frame.schema.fields if f.name in low.given[0].names}
    plain = [F.col(f"`{name}`") for name, kind in kinds.items() if "map<" not in kind and "variant" not in kind]
    others = [F.col(f"`{name}`") for name, kind in kinds.items() if "map<" in kind or "variant" in kind]
    return F.xxhash64(*plain, *([F.to_json(F.struct(*others))] if others else []))


def uncalled(frame: DataFrame) -> DataFrame:
    """The frame without what `computed` added."""
    return frame.drop(*(name for name in frame.columns if name.startswith(_CALLED)))


def beside(low: Lowering) -> list[Column]:
    """The columns that travel with the records."""
    from pyspark.sql import functions as F

    return [F.col(f"`{name}`") for name in low.carried]


def may_fail(values: Iterable[Value]) -> bool:
    """Whether one of these is a function that runs as Python, and so may raise."""
    return any(isinstance(v, Function) and not v.is_compiled() for v in values)


def ways(columns: Iterable[NamedValue]) -> str:
    """How these columns are executed: native, unless one is a function that could not be compiled."""
    told = [f"{c.name}: {c.value.how()}" for c in columns if isinstance(c.value, Function)]
    return "; ".join(told) or "native"
