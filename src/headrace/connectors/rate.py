"""Rate: numbered rows at a steady pace, for trying things out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field as Option

from headrace.connectors.base import Between, Reading, ReplayableSource, connector
from headrace.errors import FlowError, Problem
from headrace.model import Schema
from headrace.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RateOptions(Options):
    """How fast rows come."""

    shorthand = "rows_per_second"

    rows_per_second: int = Option(1, ge=1, le=10**9, description="Rows in each second.", examples=[100])
    partitions: int | None = Option(
        None, ge=1, le=10_000, description="In how many pieces each batch is made; unset: as many as Spark has cores."
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
        if reading.between is not None:
            return self._again(reading, reading.between)
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

    def _again(self, reading: Reading, between: Between) -> DataFrame:
        """The rows of some whole seconds, from the moment the run first began, as Spark has it in the checkpoint."""
        from pyspark.sql import functions as F

        from headrace.connectors.folder import Folder

        pace = self.options.rows_per_second
        first, behind = (int(text) if text else 0 for text in (between.start, between.end))
        began = 0
        if between.kept is not None and between.end is not None:
            began = int(Folder(reading.session, between.kept).read(f"{between.kept}/0").split("\n")[-1])
        numbers = reading.session.range(first * pace, max(first, behind) * pace, 1, self.options.partitions)
        past = F.floor((F.col("id") - first * pace) * F.lit(1000.0 / pace) + 0.5)  # rounded as Spark does
        return numbers.select(
            F.timestamp_millis(past + (began + first * 1000)).alias("timestamp"), F.col("id").alias("value")
        )
