"""limit: the first few records of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from headrace.model import Schema
from headrace.operators.base import Lowering, Operator, Say, State, operator
from headrace.operators.columns import has_columns
from headrace.operators.windows import marked_again
from headrace.options import Names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming import StatefulProcessor


@operator(
    "limit",
    example="""
first_three:
  from: orders
  limit: {rows: 3, by: user}
""",
)
class Limit(Operator):
    """Let the first records of each key through, in the order they arrive, and drop the rest."""

    python_state: ClassVar[bool] = True
    rows: int = Field(ge=1, description="How many records of each key.")
    by: Names = Field(min_length=1, description="Columns that make the key.")

    def output(self, given: Schema, say: Say) -> Schema:
        has_columns(self.by, given, say, "by")
        return given

    def state(self, given: tuple[Schema, ...]) -> State | None:
        return State(what=f"one counter per {', '.join(self.by)}", bound=None)

    def how(self, given: tuple[Schema, ...]) -> str:
        return "Python keyed state: Spark has no native limit per key"

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        from headrace.expressions.spark import spark_schema

        given = low.given[0]
        if low.streaming:
            counted = (
                frames[0]
                .groupBy(*self.by)
                .transformWithState(
                    statefulProcessor=_counter(self.rows),
                    outputStructType=spark_schema(given),
                    outputMode="Append",
                    timeMode="None",
                )
            )
            time = given.event_time
            return {"out": marked_again(counted, time, frames[0]) if time is not None else counted}
        first = Window.partitionBy(*self.by).orderBy("_headrace_arrival")
        numbered = frames[0].withColumn("_headrace_arrival", F.monotonically_increasing_id())
        numbered = numbered.withColumn("_headrace_number", F.row_number().over(first))
        return {"out": numbered.where(F.col("_headrace_number") <= self.rows).select(*given.names)}


def _counter(rows: int) -> StatefulProcessor:
    """A processor that counts per key; made inside a function because its base class is Spark's."""
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    class Counter(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._seen = handle.getValueState("seen", "seen BIGINT")

        def handleInputRows(self, key: Any, rows_: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
            kept = self._seen.get()
            seen = kept[0] if kept is not None else 0
            for row in rows_:
                if seen >= rows:
                    break
                seen += 1
                yield row
            self._seen.update((seen,))

        def close(self) -> None:
            pass

    return Counter()
