"""What the operators with two inputs share: which columns pair them, and how the result's columns are named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from headrace.errors import nearest
from headrace.model import Schema
from headrace.model.types import UNKNOWN, DataType
from headrace.operators.base import WITHOUT_TIME, Operator, Say
from headrace.operators.marks import named
from headrace.options import refuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def parse_pairs(given: object) -> tuple[tuple[str, str], ...]:
    """Which columns must be equal: a name for both sides, several, or `{first's: second's}`.

    >>> parse_pairs("id"), parse_pairs({"order_id": "id"})
    ((('id', 'id'),), (('order_id', 'id'),))
    """
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Mapping):
        given = list(given.items())
    if not isinstance(given, list | tuple) or not given:
        raise refuse("bad-option", f"{given!r} names no columns", "write `on: id` or `on: {order_id: id}`")
    pairs = [(item, item) if isinstance(item, str) else item for item in given]
    if not all(isinstance(p, tuple | list) and len(p) == 2 and all(isinstance(n, str) for n in p) for p in pairs):
        raise refuse("bad-option", f"{given!r} does not pair columns", "write `on: id` or `on: {order_id: id}`")
    return tuple((str(p[0]), str(p[1])) for p in pairs)


def show_pairs(pairs: tuple[tuple[str, str], ...]) -> Any:
    """The shortest form that reads the same."""
    if any(a != b for a, b in pairs):
        return dict(pairs)
    return pairs[0][0] if len(pairs) == 1 else [a for a, _ in pairs]


Pairs = Annotated[
    tuple[tuple[str, str], ...],
    BeforeValidator(parse_pairs),
    PlainSerializer(show_pairs),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}},
                {"type": "object", "additionalProperties": {"type": "string"}},
            ]
        }
    ),
]
"""Columns of the first input and those of the second they must equal."""


class Sides(Operator):
    """Two inputs whose records belong together where some columns are equal; null equals nothing."""

    on: Pairs = Field(description="Columns that must be equal: a name, several, or `{first's: second's}`.")
    prefix: str = Field("", description="Put before the names of the second input's columns.", examples=["payment_"])

    def shared(self) -> set[str]:
        """The second input's columns, in lower case, that are the first's under the same name."""
        return {right.lower() for left, right in self.on if left.lower() == right.lower()}

    def named_in_result(self, right: str) -> str:
        """What a column of the second input is called in the result."""
        return right if right.lower() in self.shared() else self.prefix + right

    def columns(self, given: tuple[Schema, ...], say: Say) -> list[tuple[str, DataType]]:
        """The first input's columns, then the second's; what does not fit is said."""
        for first, second in self.on:
            _compare(first, second, given, say)
        columns: list[tuple[str, DataType]] = [(f.name, f.type) for f in given[0]]
        for field in given[1]:
            if field.name.lower() in self.shared():
                continue
            name = self.prefix + field.name
            if any(name.lower() == known.lower() for known, _ in columns):
                what = f'both inputs have a column "{field.name}"'
                say(
                    "duplicate-name",
                    what if not self.prefix else f'the first input has a column "{name}" already',
                    "prefix",
                    hint="give `prefix:` a word to put before the second input's names, or select or rename first",
                )
            columns.append((name, field.type))
        return columns

    def timed(self, given: tuple[Schema, ...], say: Say, *option: str) -> None:
        """Says so unless both inputs have an event time."""
        for which, schema in zip(("first", "second"), given, strict=True):
            if schema.event_time is None:
                say(
                    "no-watermark",
                    f"a bound in time needs an event time, and the {which} input has none",
                    *option,
                    hint=WITHOUT_TIME,
                )

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        asked = {name.lower() for name in wanted}
        left = {f.name for f in given[0] if f.name.lower() in asked} | {a for a, _ in self.on}
        right = {f.name for f in given[1] if self.named_in_result(f.name).lower() in asked} | {b for _, b in self.on}
        return frozenset(left), frozenset(right)


def _compare(first: str, second: str, given: tuple[Schema, ...], say: Say) -> None:
    found = []
    for name, schema, which in ((first, given[0], "first"), (second, given[1], "second")):
        field = schema.find(name)
        if field is None:
            hint = nearest(name, schema.names).replace("It takes", "It has")
            say("unknown-column", f'the {which} input has no column "{name}"', "on", first, hint=hint)
        else:
            found.append(field.type)
    if len(found) == 2 and found[0] != found[1] and UNKNOWN not in found:
        say(
            "type-mismatch",
            f'"{first}" is {found[0]} and "{second}" is {found[1]}',
            "on",
            first,
            hint="cast one of them before",
        )


def renamed(frame: DataFrame, letter: str) -> tuple[DataFrame, dict[str, str]]:
    """The frame with names of its own for every column, and those names by the old ones in lower case.

    Two inputs may come from one source, and then have the same names.
    """
    from pyspark.sql import functions as F

    new = {name.lower(): f"_{letter}{i}" for i, name in enumerate(frame.columns)}
    return frame.select(*(F.col(named(n)).alias(new[n.lower()]) for n in frame.columns)), new


def with_time(frame: DataFrame, time: str | None) -> DataFrame:
    """Only the records that have an event time."""
    return frame.where(f"{named(time or '')} IS NOT NULL")
