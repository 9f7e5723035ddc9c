"""select: exactly these columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from headrace.model import Schema
from headrace.operators.base import Lowering, Operator, Say, operator
from headrace.operators.columns import Columns, NamedValue, reads, typed_columns
from headrace.operators.lowering import beside, computed, may_fail, ways

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@operator(
    "select",
    example="""
priced:
  from: orders
  select: [id, user, price * quantity AS total]
""",
)
class Select(Operator):
    """Keep exactly these columns, computed if need be, in this order."""

    shorthand: ClassVar[str] = "columns"
    columns: Columns = Field(
        description="Columns by name, `expression AS name`, or `{name: expression}`.", min_length=1
    )

    def output(self, given: Schema, say: Say) -> Schema:
        return Schema.of(typed_columns(self.columns, given, say, "columns"), _kept_time(self.columns, given))

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        return (reads(c.value for c in self.columns if c.name in wanted),)

    def rejects(self) -> bool:
        return may_fail(c.value for c in self.columns)

    def how(self, given: tuple[Schema, ...]) -> str:
        return ways(self.columns)

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        frame, column = computed(frames[0], (c.value for c in self.columns), low)
        return {"out": frame.select(*(column(c.value).alias(c.name) for c in self.columns), *beside(low))}


def _kept_time(columns: tuple[NamedValue, ...], given: Schema) -> str | None:
    """The event-time column under its new name, if it is passed on as it is."""
    for column in columns:
        if given.event_time is not None and getattr(column.value, "column_name", None) == given.event_time:
            return column.name
    return None
