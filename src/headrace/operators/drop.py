"""drop: all but these columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from headrace.model import Schema
from headrace.operators.base import Lowering, Operator, Say, operator
from headrace.operators.columns import has_columns
from headrace.options import Names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@operator(
    "drop",
    example="""
public:
  from: orders
  drop: [user, address]
""",
)
class Drop(Operator):
    """Leave columns out."""

    shorthand: ClassVar[str] = "columns"
    columns: Names = Field(description="Columns to leave out.", min_length=1)

    def output(self, given: Schema, say: Say) -> Schema:
        gone = {name.lower() for name in has_columns(self.columns, given, say, "columns")}
        return given.keeping(name for name in given.names if name.lower() not in gone)

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        return (wanted,)

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        return {"out": frames[0].drop(*self.columns)}
