"""with: more columns, or new values for those there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from headrace.model import Schema
from headrace.operators.base import Lowering, Operator, Say, operator
from headrace.operators.columns import Columns, reads, typed_columns
from headrace.operators.lowering import computed, may_fail, uncalled, ways

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@operator(
    "with",
    example="""
priced:
  from: orders
  with: {total: price * quantity}
""",
)
class With(Operator):
    """Add columns, or give columns new values; all others stay.

    Every expression sees the input as it came: one new column cannot use another.
    """

    shorthand: ClassVar[str] = "columns"
    columns: Columns = Field(description="New columns: `{name: expression}`.", min_length=1)

    def output(self, given: Schema, say: Say) -> Schema:
        made = typed_columns(self.columns, given, say, "columns")
        time = given.event_time
        if any(name.lower() == (time or "").lower() for name, _ in made):
            say(
                "unsupported",
                f'column "{time}" is the event time, which cannot be given new values',
                "columns",
                time or "",
                hint="make a column of another name, or set the source's time to another column",
            )
        return given.with_columns(made)

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        made = {c.name for c in self.columns}
        return ((wanted - made) | reads(c.value for c in self.columns if c.name in wanted),)

    def rejects(self) -> bool:
        return may_fail(c.value for c in self.columns)

    def how(self, given: tuple[Schema, ...]) -> str:
        return ways(self.columns)

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        frame, column = computed(frames[0], (c.value for c in self.columns), low)
        return {"out": uncalled(frame.withColumns({c.name: column(c.value) for c in self.columns}))}
