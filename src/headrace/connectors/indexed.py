"""Streams of rows known by their number: a Spark data source made from a function of a row's number.

The offset is the number of the next row, so any range of rows can be made again, on any machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.connectors.base import Between, Reading
from headrace.model import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_ROWS_PER_ARROW_BATCH = 10_000
_ROWS_PER_TASK = 20_000
FIRST, BEHIND = "first", "behind"


@dataclass(frozen=True, kw_only=True)
class Numbered:
    """Rows 0, 1, 2, … of one schema."""

    schema: Schema
    rows: Callable[[int, int], pa.RecordBatch]
    """The rows from a number up to, not including, another; called on the executors."""
    total: int | None = None
    """How many there are; None: they never end."""
    per_second: float | None = None
    """How many come due in each second of a stream; None: all are there from the beginning."""
    per_batch: int | None = None
    cuts: tuple[int, ...] = ()
    """Row numbers at which a batch ends, where batches are prescribed."""


def read_numbered(numbered: Numbered, reading: Reading) -> DataFrame:
    """A streaming or batch frame of the rows."""
    kind = _data_source(numbered, source_name(reading))
    reading.session.dataSource.register(kind)
    reader = reading.session.readStream if reading.streaming else reading.session.read
    reader = reader.format(kind.name()).schema(numbered.schema.ddl())
    if reading.between is not None:
        first, behind = rows_of(reading.between)
        reader = reader.option(FIRST, first).option(BEHIND, behind)
    return reader.load()


def rows_of(between: Between) -> tuple[int, int]:
    """The numbers of the first row and of the one behind the last.

    >>> rows_of(Between(start=None, end='{"row": 7}'))
    (0, 7)
    """
    start, end = (int(json.loads(text)["row"]) if text else 0 for text in (between.start, between.end))
    return start, max(start, end)


def source_name(reading: Reading) -> str:
    """The name a source of a flow has in Spark's registry of data sources."""
    return f"headrace_{_word(reading.place.flow)}_{_word(reading.place.step)}"


def _word(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _spans(start: int, end: int, size: int) -> list[tuple[int, int]]:
    """A range cut into pieces of at most that size.

    >>> _spans(5, 12, 4)
    [(5, 9), (9, 12)]
    """
    return [(at, min(at + size, end)) for at in range(start, end, size)]


class Pace:
    """Which rows are due: `per_second` of them from the moment it is first asked in this process.

    After a restart it goes on from the checkpoint at the same pace; it does not make up for the time in between.
    """

    def __init__(self, numbered: Numbered, clock: Callable[[], float]) -> None:
        self._numbered, self._clock = numbered, clock
        self._began: tuple[float, int] | None = None
        self._ends_at: int | None = None

    def finish(self) -> None:
        """The stream is to process all there is and end: what has an end is given up to it, regardless of pace."""
        self._ends_at = self._numbered.total

    def due(self, start: int, most: int | None) -> int:
        """The number of the first row that is not due yet."""
        given = self._numbered
        if given.cuts:
            return next((cut for cut in given.cuts if cut > start), given.total or start)
        if self._ends_at is not None:
            end = self._ends_at
        elif given.per_second is None:
            assert given.total is not None, "rows that never end need a pace"
            end = given.total
        else:
            now = self._clock()
            if self._began is None:
                self._began = now, start
            end = self._began[1] + int((now - self._began[0]) * given.per_second)
        if given.total is not None:
            end = min(end, given.total)
        return max(start, end if most is None else min(end, start + most))


def _data_source(numbered: Numbered, kind: str) -> Any:
    """A class for Spark's Python data source API; made here so that pyspark is imported only when it is needed."""
    import time

    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    def pieces(start: int, end: int) -> Sequence[InputPartition]:
        return [InputPartition(span) for span in _spans(start, end, _ROWS_PER_TASK)]

    def batches(partition: InputPartition) -> Iterator[pa.RecordBatch]:
        first, behind = partition.value
        for start, end in _spans(first, behind, _ROWS_PER_ARROW_BATCH):
            yield numbered.rows(start, end)

    class BatchReader(DataSourceReader):
        def __init__(self, first: int, behind: int) -> None:
            self.first, self.behind = first, behind

        def partitions(self) -> Sequence[InputPartition]:
            # Spark asks for one even if it is empty.
            return pieces(self.first, self.behind) or [InputPartition((0, 0))]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return batches(partition)

    class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        def __init__(self) -> None:
            self.pace = Pace(numbered, time.monotonic)

        def initialOffset(self) -> dict[str, int]:  # noqa: N802
            return {"row": 0}

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            return ReadMaxRows(numbered.per_batch) if numbered.per_batch else ReadAllAvailable()

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            self.pace.finish()

        def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            return {"row": self.pace.due(start["row"], most)}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
            return pieces(start["row"], end["row"])

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return batches(partition)

    class NumberedRows(DataSource):
        @classmethod
        def name(cls) -> str:
            return kind

        def schema(self) -> str:
            return numbered.schema.ddl()

        def reader(self, schema: Any) -> DataSourceReader:
            return BatchReader(int(self.options.get(FIRST, 0)), int(self.options.get(BEHIND, numbered.total or 0)))

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
            return StreamReader()

    return NumberedRows
