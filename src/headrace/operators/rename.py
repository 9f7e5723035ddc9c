"""rename: the same columns under other names."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from headrace.model import Schema
from headrace.operators.base import Lowering, Operator, Say, operator
from headrace.operators.columns import has_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@operator(
    "rename",
    example="""
english:
  from: orders
  rename: {utilisateur: user}
""",
)
class Rename(Operator):
    """Give columns other names; values, order and event time stay."""

    shorthand: ClassVar[str] = "columns"
    columns: dict[str, str] = Field(description="`{old: new}`.", min_length=1)

    def output(self, given: Schema, say: Say) -> Schema:
        has_columns(self.columns, given, say, "columns")
        renamed = given.renamed(lambda name: self._new(name))
        for index, name in enumerate(renamed.names):
            if name.lower() in (n.lower() for n in renamed.names[:index]):
                say("duplicate-name", f'two columns would be named "{name}"', "columns")
        return renamed

    def _new(self, name: str) -> str:
        return next((new for old, new in self.columns.items() if old.lower() == name.lower()), name)

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        return (frozenset(name for name in given[0].names if self._new(name) in wanted),)

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        return {"out": frames[0].withColumnsRenamed(self.columns)}
