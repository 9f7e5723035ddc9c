"""Late records put aside: those that no window takes any more, with how late they came.

Spark drops a record when all its windows have ended by the watermark of the batch before its own. That watermark
is on disk before the batch runs, in `offsets/N-1` of the checkpoint, and stays there; so which records are late
is the same when a batch is repeated. They are looked for on the way into the window, in Arrow batches that are
passed on as they are, and written to a file for each task; the driver hands the files of a batch to the sinks.

Spark counts what it drops behind the grouping within a task, several records of a window and key as one. So whole
records are dropped, and counted, before that, by the same watermark (`headrace.Watermark`, in Java).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.model import Schema
from headrace.model.types import DOUBLE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

LATE = "late"
"""The port of a window step."""
LATE_BY = "late_by"
"""How far the watermark was past a late record's time, in seconds."""
_CLOSES = "_headrace_closes"
_MICROS = 1_000_000
_TAIL = 64 * 1024
"""The batch before the one at hand is one of the last two in a journal."""


@dataclass(frozen=True, kw_only=True)
class Aside:
    """Where a step puts records aside, and where it learns the watermark. Workers must be able to reach both."""

    checkpoint: Path
    folder: Path
    journal: Path | None = None
    """Where the run notes the watermark of each batch, for checkpoints that workers cannot read."""

    def batch(self, number: int) -> Path:
        return self.folder / str(number)

    def watermark(self, batch: int) -> int | None:
        """The time in microseconds up to which windows are closed to the records of a batch; None: there is none."""
        return self.told(batch) or None

    def told(self, batch: int) -> int | None:
        """As Spark has it, which is zero before there is one; None: it is not to be found here."""
        if batch == 0:
            return 0
        if self.journal is not None:
            return _noted(self.journal, batch - 1)
        try:
            text = (self.checkpoint / "offsets" / str(batch - 1)).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        return int(json.loads(text.split("\n")[1])["batchWatermarkMs"]) * 1000


def _noted(journal: Path, batch: int) -> int | None:
    """The watermark of a batch among the last in a journal, in microseconds."""
    if not journal.exists():
        return None
    with journal.open("rb") as file:
        file.seek(max(0, journal.stat().st_size - _TAIL))
        lines = file.read().split(b"\n")
    start = b'{"batch":%d,' % batch
    for line in reversed(lines):
        if line.startswith(start):
            return int(json.loads(line)["watermark"]) * 1000
    return None


def before_batch(session: SparkSession, checkpoint: Path) -> Column:
    """The watermark by which a record is late, in microseconds: that of the batch before the one that is planned."""
    from pyspark.sql import Column

    java: Any = session._jvm
    return Column(java.headrace.Watermark.column(str(checkpoint.resolve())))


def late_schema(given: Schema) -> Schema:
    """The columns of the port: the record as it was, and how late it came."""
    return given.with_columns([(LATE_BY, DOUBLE)]).timed(None)


def watched(frame: DataFrame, time: str, closes: Column, aside: Aside) -> DataFrame:
    """The same rows; those that are late are put aside on the way. `closes` is when a row's last window ends."""
    from pyspark.sql import functions as F

    columns = frame.schema
    carried = frame.select("*", F.unix_micros(closes).alias(_CLOSES))
    return carried.mapInArrow(_putting_aside(aside, time), columns)


def late_under(frame: DataFrame, time: str, closes: Column, mark: int) -> DataFrame:
    """The rows that are late under a watermark (in microseconds), with how late: the same, said of a batch."""
    from pyspark.sql import functions as F

    behind = (F.lit(mark) - F.unix_micros(F.col(f"`{time}`"))) / F.lit(float(_MICROS))
    return frame.where(F.unix_micros(closes) <= F.lit(mark)).withColumn(LATE_BY, behind)


def _putting_aside(aside: Aside, time: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        number = int(task.getLocalProperty("streaming.sql.batchId") or 0)
        mark = aside.watermark(number)
        writer = _Writer(aside.batch(number) / f"{task.partitionId()}.parquet")
        for batch in batches:
            kept = batch.drop_columns([_CLOSES])
            if mark is not None:
                writer.add(kept, batch.column(_CLOSES), time, mark)
            yield kept
        writer.close()

    return look


class _Writer:
    """A Parquet file that appears whole when it is closed, and not at all if nothing was added."""

    def __init__(self, path: Path) -> None:
        self.path, self.draft = path, path.with_name(f".{path.name}.tmp")
        self.file: Any = None

    def add(self, batch: pa.RecordBatch, closes: pa.Array, time: str, mark: int) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        rows = batch.filter(pc.fill_null(pc.less_equal(closes, mark), False))
        if not rows.num_rows:
            return
        at = pc.cast(rows.column(time), pa.int64())
        behind = pc.divide(pc.cast(pc.subtract(pa.scalar(mark, pa.int64()), at), pa.float64()), float(_MICROS))
        table = pa.Table.from_batches([rows]).append_column(LATE_BY, behind)
        if self.file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file = pq.ParquetWriter(self.draft, table.schema)
        self.file.write_table(table)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.draft.replace(self.path)


def put_aside(session: SparkSession, aside: Aside | None, batch: int, schema: Schema) -> DataFrame:
    """What a step put aside in a batch."""
    from headrace.expressions.spark import spark_schema

    columns = spark_schema(schema)
    if aside is None or not aside.batch(batch).is_dir():
        return session.createDataFrame([], columns)
    return session.read.schema(columns).parquet(aside.batch(batch).resolve().as_uri())
