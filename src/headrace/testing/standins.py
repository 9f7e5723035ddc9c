"""What stands in for the outside world in a case: a source that gives the case's records, a sink that keeps rows.

Both are true implementations of our own interfaces: the flow between them is the real one.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from headrace.connectors.arrow import arrow_schema, arrow_type, fit_row
from headrace.connectors.base import Reading, ReplayableSource, SinkConnector
from headrace.connectors.indexed import Numbered, read_numbered
from headrace.connectors.memory import MemoryOptions, MemorySink
from headrace.model import Schema
from headrace.model.types import BINARY, Field
from headrace.options import Options
from headrace.testing.cases import Input

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Given(ReplayableSource[Options]):
    """The records of a case: rows as they are, or raw ones that the flow's format decodes."""

    def __init__(self, stands_for: Any, given: Input, clock: datetime) -> None:
        super().__init__(stands_for.options)
        self._real, self._given, self._clock = stands_for, given, clock
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
        stated = Schema((Field("value", BINARY),)) if self.carries == "bytes" else reading.schema
        assert stated is not None
        schema = Schema((*stated.fields, *self.metadata().fields))
        rows = [fit_row(self._row(record, index), schema) for index, record in enumerate(self._given.records)]
        columns = [[row[f.name] for row in rows] for f in schema]

        def made(first: int, end: int) -> pa.RecordBatch:
            import pyarrow as pa

            arrays = [pa.array(c[first:end], type=arrow_type(f.type)) for c, f in zip(columns, schema, strict=True)]
            return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))

        cuts, end = [], 0
        for batch in self._given.batches:
            end += len(batch)
            cuts.append(end)
        return read_numbered(Numbered(schema=schema, rows=made, total=len(rows), cuts=tuple(cuts)), reading)

    def _row(self, record: Any, index: int) -> dict[str, Any]:
        """The record as columns, with what its source would tell about it."""
        row = {"value": record} if isinstance(record, str) else dict(record)
        arrived = {
            "kafka_offset": index,
            "kafka_partition": 0,
            "kafka_timestamp": self._clock + timedelta(seconds=index),
        }
        told = {name: value for name, value in arrived.items() if name in self.metadata()}
        return told | row


def kept(sink: SinkConnector[Any], key: tuple[str, ...]) -> MemorySink:
    """A memory sink that keeps what the real one would hold: the last row of each key, or every row."""
    return MemorySink(MemoryOptions(key=sink.key() or key))
