"""explode: one record per element of an array, with the record's other columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from headrace.expressions.expression import Expression
from headrace.model import Schema
from headrace.model.types import UNKNOWN, Array, DataType, Map, Struct
from headrace.model.types import Field as Column
from headrace.operators.base import Balance, Lowering, Operator, Say, operator
from headrace.operators.columns import typed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@operator(
    "explode",
    example="""
tags:
  from: tweets
  explode: {each: hashtags, as: tag}
""",
)
class Explode(Operator):
    """One record per element of an array (or entry of a map), beside the record's own columns.

    A record whose array is empty or null gives none, unless `outer` keeps it with a null element.
    The column itself is replaced when `as` has its name.
    """

    shorthand: ClassVar[str] = "each"
    each: Expression = Field(description="An expression that gives an array or a map.")
    as_: str = Field("value", alias="as", description="The column an element goes into.")
    outer: bool = Field(False, description="Keep a record with nothing to explode, with a null element.")

    def output(self, given: Schema, say: Say) -> Schema:
        kind = typed(self.each, given, say, "each")
        item: DataType = UNKNOWN
        if isinstance(kind, Array):
            item = kind.item
        elif isinstance(kind, Map):
            item = Struct((Column("key", kind.key), Column("value", kind.value)))
        elif kind != UNKNOWN:
            say("type-mismatch", f"each must give an array or a map, but {self.each} is {kind}", "each")
        return given.with_columns([(self.as_, item)])

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        return ((wanted - {self.as_}) | self.each.columns(),)

    def decides_by(self) -> frozenset[str]:
        return self.each.columns()

    def balance(self) -> Balance:
        return "others"

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        from pyspark.sql import functions as F

        from headrace.expressions.spark import to_spark

        each = to_spark(self.each)
        if isinstance(typed(self.each, low.given[0], lambda *_, **__: None), Map):
            each = F.map_entries(each)
        rows = F.explode_outer(each) if self.outer else F.explode(each)
        return {"out": frames[0].withColumn(self.as_, rows)}
