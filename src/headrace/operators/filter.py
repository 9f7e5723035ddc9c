"""filter: only the records for which a condition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from headrace.model import Schema
from headrace.operators.base import Balance, Lowering, Operator, Say, operator
from headrace.operators.columns import ValueOption, condition
from headrace.operators.functions import Function
from headrace.operators.lowering import computed, may_fail, uncalled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@operator(
    "filter",
    example="""
large:
  from: orders
  filter: amount > 100
""",
)
class Filter(Operator):
    """Keep the records for which the condition is true; false and null are left out."""

    shorthand: ClassVar[str] = "where"
    where: ValueOption = Field(description="The condition: an expression, or a Python function of columns.")

    def output(self, given: Schema, say: Say) -> Schema:
        condition(self.where, given, say, "where")
        return given

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        return (wanted | self.where.columns(),)

    def decides_by(self) -> frozenset[str]:
        return self.where.columns()

    def rejects(self) -> bool:
        return may_fail((self.where,))

    def balance(self) -> Balance:
        return "some"

    def how(self, given: tuple[Schema, ...]) -> str:
        return self.where.how() if isinstance(self.where, Function) else "native"

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        frame, column = computed(frames[0], (self.where,), low)
        return {"out": uncalled(low.kept(frame, column(self.where)))}
