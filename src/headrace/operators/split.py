"""split: records leave by the first port whose condition they meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from headrace.expressions.expression import Expression
from headrace.model import Schema
from headrace.operators.base import Balance, Lowering, Operator, Say, operator
from headrace.operators.columns import condition
from headrace.options import refuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OTHERWISE = "otherwise"


def _ports(given: Any) -> Any:
    if isinstance(given, dict):
        for name in given:
            if not isinstance(name, str) or not name.isidentifier():
                raise refuse("bad-name", f"{name!r} cannot name a port", "use letters, digits and _")
            if name in (OTHERWISE, "out", "late", "dead_letter"):
                raise refuse("bad-name", f'a port cannot be named "{name}"', "that name has a meaning already")
    return given


@operator(
    "split",
    example="""
sizes:
  from: orders
  split: {large: amount > 100, small: amount > 0}
""",
)
class Split(Operator):
    """Send each record out by the first port whose condition is true; the rest leave by `otherwise`.

    Read from a port as `sizes.large`. Every record leaves by exactly one port.
    """

    shorthand: ClassVar[str] = "into"
    into: Annotated[dict[str, Expression], BeforeValidator(_ports)] = Field(
        description="`{port: condition}`, tried in this order.", min_length=1
    )

    def ports(self) -> tuple[str, ...]:
        return (*self.into, OTHERWISE)

    def outputs(self, given: tuple[Schema, ...], say: Say) -> dict[str, Schema]:
        for port, where in self.into.items():
            condition(where, given[0], say, "into", port)
        return dict.fromkeys(self.ports(), given[0])

    def decides_by(self) -> frozenset[str]:
        return frozenset().union(*(where.columns() for where in self.into.values()))

    def balance(self) -> Balance:
        return "some"

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        return (wanted | self.decides_by(),)

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        from pyspark.sql import functions as F

        from headrace.expressions.spark import to_spark

        out: dict[str, DataFrame] = {}
        earlier = F.lit(False)
        for port, where in self.into.items():
            holds = F.coalesce(to_spark(where), F.lit(False))  # a null condition does not hold
            out[port] = low.kept(frames[0], holds & ~earlier, port)
            earlier = earlier | holds
        return out | {OTHERWISE: low.kept(frames[0], ~earlier, OTHERWISE)}
