"""union: several streams as one."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from headrace.model import Schema
from headrace.model.types import UNKNOWN
from headrace.operators.base import Lowering, Operator, Say, operator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@operator(
    "union",
    inputs=None,
    example="""
all_orders:
  from: [web_orders, shop_orders]
  union: {}
""",
)
class Union(Operator):
    """Put streams with the same columns together; columns are matched by name, order is the first one's."""

    def outputs(self, given: tuple[Schema, ...], say: Say) -> dict[str, Schema]:
        first, *others = given
        for number, other in enumerate(others, start=2):
            _compare(first, other, number, say)
        timed = all(schema.event_time == first.event_time for schema in given)
        return {"out": first if timed else first.timed(None)}

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        return tuple(wanted for _ in given)

    def time_instead(self) -> str:
        return "let the event time of all its inputs have one name"

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        return {"out": reduce(lambda a, b: a.unionByName(b, allowMissingColumns=bool(low.carried)), frames)}


def _compare(first: Schema, other: Schema, number: int, say: Say) -> None:
    """Says how an input's columns differ from the first one's."""
    missing = [f.name for f in first if f.name not in other]
    extra = [f.name for f in other if f.name not in first]
    if missing or extra:
        told = [f"has no {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(extra)} besides"] * bool(extra)
        say("schema-mismatch", f"input {number} {' and '.join(told)}", hint="select the same columns of each first")
    for field in first:
        found = other.find(field.name)
        if found is not None and UNKNOWN not in (found.type, field.type) and found.type != field.type:
            say(
                "schema-mismatch",
                f'column "{field.name}" is {field.type} in the first input and {found.type} in input {number}',
                hint="cast one of them before the union",
            )
