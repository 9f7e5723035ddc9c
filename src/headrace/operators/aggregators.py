"""Aggregates in Python: Spark gathers a window's values, and the author's class or function makes one answer of them.

Spark has no Python aggregates in streams. So what the function takes is collected, as state, until the window is
complete, and handed over in order. That needs a window: without one the values would be kept for ever.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.author.aggregator import Aggregator
from headrace.author.callables import travel_by_value
from headrace.model import Schema
from headrace.model.types import UNKNOWN, DataType, Map, TypeSyntaxError, parse_type
from headrace.operators.base import Say
from headrace.operators.functions import Function, annotated_type, failed, hints_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import DataType as SparkType


def check(function: Function, given: Schema, say: Say, *option: str | int) -> DataType:
    """The type of the answer; what does not fit is said."""
    from headrace.errors import nearest

    for name in function.parameters():
        column = given.find(name)
        if column is None:
            hint = nearest(name, given.names).replace("It takes", "The input has")
            say(
                "unknown-column",
                f'aggregate "{function}" takes column "{name}", which is not there',
                *option,
                hint=hint,
            )
        elif isinstance(column.type, Map):
            say("unsupported", f'aggregate "{function}" takes column "{name}", a map: maps have no order', *option)
    if not function.parameters():
        say("bad-function", f'aggregate "{function}" takes no column', *option, hint="name its parameters as columns")
    return _type(function, say, *option)


def _type(function: Function, say: Say, *option: str | int) -> DataType:
    made = function.callable
    own = isinstance(made, type) and issubclass(made, Aggregator)
    stated = function.returns or (made.returns if own else "")  # type: ignore[attr-defined]
    if stated:
        try:
            return parse_type(stated)
        except TypeSyntaxError as error:
            say("bad-schema", f"the result type of {function}: {error}", *option)
            return UNKNOWN
    found = annotated_type(hints_of(made.finish if own else made).get("return"))  # type: ignore[attr-defined]
    if found is None:
        hint = 'annotate it, "-> float", or write {python: …, returns: double}'
        say("bad-function", f'the result type of aggregate "{function}" is not known', *option, hint=hint)
        return UNKNOWN
    return found


def gathered(function: Function, time: str | None) -> Column:
    """The aggregate that collects what the function takes, in order."""
    from pyspark.sql import functions as F

    moment = [F.unix_micros(F.col(f"`{time}`").cast("timestamp")).alias("_at")] if time else []
    values = [F.col(f"`{name}`").alias(f"_{index}") for index, name in enumerate(function.parameters())]
    return F.array_sort(F.collect_list(F.struct(*moment, *values)))


def answer(function: Function, values: Column, kind: DataType, step: str, *, timed: bool) -> Column:
    """The answer from what was gathered."""
    from pyspark.sql import functions as F

    from headrace.expressions.spark import spark_type

    travel_by_value(function.callable)
    gives = spark_type(kind)
    fold = _folded(function.callable, function.parameters(), step, int(timed), gives)
    answers: Column = F.arrow_udf(fold, gives)(values)  # type: ignore[call-overload]
    return answers


def _folded(
    made: Any, names: tuple[str, ...], step: str, skip: int, gives: SparkType
) -> Callable[[pa.Array], pa.Array]:
    """What a worker does with the values of many windows and keys."""
    import pyarrow as pa

    whole = not (isinstance(made, type) and issubclass(made, Aggregator))
    series = [whole and _is_series(made, name) for name in names]

    def one(columns: list[list[Any]]) -> Any:
        if whole:
            return made(*(_series(c) if s else c for c, s in zip(columns, series, strict=True)))
        author = made()
        state = author.init()
        for values in zip(*columns, strict=True):
            state = author.add(state, *values)
        return author.finish(state)

    def fold(windows: pa.Array) -> pa.Array:
        from pyspark.sql.pandas.types import to_arrow_type

        kind = to_arrow_type(gives, timezone="UTC")
        every = windows.flatten().flatten()[skip:]
        answers, end = [], 0
        for length in windows.value_lengths().to_pylist():
            # One window's values at a time: those of all in a batch would be hundreds of megabytes as Python's objects.
            begin, end = end, end + length
            columns = [column.slice(begin, length).to_pylist() for column in every]
            first = {name: column[0] for name, column in zip(names, columns, strict=True)}
            try:
                answer = _plain(one(columns))
                pa.scalar(answer, kind)  # that it does not fit is this window's failure, and no other's
            except Exception as error:
                raise failed(error, step, made, {"records": length, "first": first}) from error
            answers.append(answer)
        return pa.array(answers, kind)

    fold.__annotations__ = {"windows": pa.Array, "return": pa.Array}  # as types, by which Spark tells what it is
    return fold


def _is_series(function: Callable[..., Any], name: str) -> bool:
    annotation = inspect.signature(function).parameters[name].annotation
    said = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return said.rpartition(".")[2] == "Series"


def _series(values: list[Any]) -> Any:
    import pandas as pd

    return pd.Series(values)


def _plain(value: Any) -> Any:
    """A number of numpy's as Python's own, which is what Spark takes."""
    return value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value
