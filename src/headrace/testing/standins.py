"""What stands in for the outside world in a case: a source that gives the case's records, a sink that keeps rows.

Both are true implementations of our own interfaces: the flow between them is the real one.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from headrace.connectors.arrow import arrow_schema, fit_row
from headrace.connectors.base import ORIGIN, Reading, ReplayableSource, SinkConnector
from headrace.connectors.file_log import files_of
from headrace.connectors.memory import MemoryOptions, MemorySink
from headrace.connectors.time import ARRIVAL
from headrace.model import Schema
from headrace.model.types import BINARY, TIMESTAMP, Field
from headrace.options import Options
from headrace.testing.cases import Input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Given(ReplayableSource[Options]):
    """The records of a case: rows as they are, or raw ones that the flow's format decodes."""

    def __init__(self, stands_for: Any, given: Input, clock: datetime, *, arrives: bool = True) -> None:
        super().__init__(stands_for.options)
        self._real, self._given, self._clock, self._arrives = stands_for, given, clock, arrives
        self.arrival = stands_for.arrival  # type: ignore[misc]
        raw_possible = stands_for.carries == "bytes" and given.raw
        self.carries = "bytes" if raw_possible else "rows"  # type: ignore[misc]
        self.default_format = stands_for.default_format  # type: ignore[misc]

    def columns(self) -> Schema | None:
        found: Schema | None = self._real.columns()
        return found

    def metadata(self) -> Schema:
        found: Schema = self._real.metadata()
        return found

    def read(self, reading: Reading) -> DataFrame:
        from pyspark.sql import functions as F

        stated = Schema((Field("value", BINARY),)) if self.carries == "bytes" else reading.schema
        assert stated is not None
        asked = (Field(ARRIVAL, TIMESTAMP),) if reading.arrival else ()
        schema = Schema((*stated.fields, *self.metadata().fields, *asked))
        rows = [fit_row(self._row(record, index), schema) for index, record in enumerate(self._given.records)]
        frame = _from_files(rows, [len(batch) for batch in self._given.batches], schema, reading)
        if not reading.origin or self.carries != "bytes":
            return frame
        return frame.withColumn(ORIGIN, F.struct("value"))

    def _row(self, record: Any, index: int) -> dict[str, Any]:
        """The record as columns, with what its source would tell about it."""
        row = {"value": record} if isinstance(record, str) else dict(record)
        arrived = {
            "kafka_offset": index,
            "kafka_partition": 0,
            "kafka_timestamp": self._clock + timedelta(seconds=index),
        }
        if self._arrives:
            arrived[ARRIVAL] = arrived["kafka_timestamp"]
        told = {name: value for name, value in arrived.items() if name in self.metadata() or name == ARRIVAL}
        return told | row


def _from_files(rows: list[dict[str, Any]], sizes: list[int], schema: Schema, reading: Reading) -> DataFrame:
    """Rows by way of one Parquet file per batch, which Spark reads itself: no Python process to start for each case."""
    import pyarrow as pa
    from pyarrow import parquet

    folder = reading.place.home / "given"
    folder.mkdir(exist_ok=True)
    first = 0
    for number, size in enumerate(sizes):
        batch, first = rows[first : first + size], first + size
        if batch:
            file = folder / f"{number:06d}.parquet"
            parquet.write_table(pa.Table.from_pylist(batch, schema=arrow_schema(schema)), file)
            os.utime(file, (1_700_000_000 + number,) * 2)  # a stream takes files in the order of their times
    if reading.between is not None:
        files = files_of(reading.session, reading.between)
        again = reading.session.read.schema(schema.ddl())
        return again.parquet(*files) if files else reading.session.createDataFrame([], schema.ddl())
    if not reading.streaming:
        return reading.session.read.schema(schema.ddl()).parquet(str(folder))
    return reading.session.readStream.schema(schema.ddl()).option("maxFilesPerTrigger", 1).parquet(str(folder))


def kept(sink: SinkConnector[Any], key: tuple[str, ...]) -> MemorySink:
    """A memory sink that keeps what the real one would hold: the last row of each key, or every row."""
    return MemorySink(MemoryOptions(key=sink.key() or key))
