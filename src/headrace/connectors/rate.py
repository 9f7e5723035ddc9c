"""Rate: numbered rows at a steady pace, for trying things out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field as Option

from headrace.connectors.base import Reading, ReplayableSource, connector
from headrace.errors import FlowError, Problem
from headrace.model import Schema
from headrace.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RateOptions(Options):
    """How fast rows come."""

    shorthand = "rows_per_second"

    rows_per_second: int = Option(1, ge=1, description="Rows in each second.", examples=[100])
    partitions: int | None = Option(
        None, ge=1, description="In how many pieces each batch is made; unset: as many as Spark has cores."
    )


@connector(
    "rate",
    options=RateOptions,
    example="""
ticks:
  rate: {rows_per_second: 10}
""",
)
class RateSource(ReplayableSource[RateOptions]):
    """Rows 0, 1, 2, … each with the moment it was due.

    A repeated batch has the same rows: the moment the run first began is in its checkpoint. It never ends, so it
    cannot be read as a batch; `generator` with a `limit` can.
    """

    def columns(self) -> Schema:
        return Schema.parse("timestamp TIMESTAMP, value BIGINT")

    def read(self, reading: Reading) -> DataFrame:
        if not reading.streaming:
            raise FlowError(
                Problem(
                    code="unsupported",
                    message=f'source "{reading.place.step}" (rate) never ends, so it cannot be read as a batch',
                    step=reading.place.step,
                    hint="use `generator` with a `limit`, or run the flow as a stream",
                )
            )
        reader = reading.session.readStream.format("rate").option("rowsPerSecond", self.options.rows_per_second)
        if self.options.partitions is not None:
            reader = reader.option("numPartitions", self.options.partitions)
        return reader.load().select("timestamp", "value")
