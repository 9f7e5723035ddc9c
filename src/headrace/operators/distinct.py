"""distinct: each record once."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from headrace.model import Schema
from headrace.operators.base import Lowering, Operator, Say, State, operator
from headrace.operators.columns import has_columns
from headrace.options import Names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@operator(
    "distinct",
    example="""
first_visits:
  from: visits
  distinct: user
""",
)
class Distinct(Operator):
    """Let the first record of each key through and drop the others.

    Every key is remembered for ever.
    """

    shorthand: ClassVar[str] = "by"
    by: Names = Field((), description="Columns that identify a record; all of them if none is named.")

    def output(self, given: Schema, say: Say) -> Schema:
        has_columns(self.by, given, say, "by")
        return given

    def state(self, given: tuple[Schema, ...]) -> State | None:
        return State(what=f"one entry per {', '.join(self.by) or 'record'}", bound=None)

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        return {"out": frames[0].dropDuplicates(list(self.by) or None)}
