"""The last windows of a bounded stream, closed on real checkpoints."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.run.checkpoint import last_committed
from headrace.run.flush import plan_flush

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def tumbling(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.groupBy(F.window("at", "1 minute"), "k").count()


def hopping(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.groupBy(F.window("at", "1 minute", "30 seconds"), "k").count()


def chained(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    inner = frame.groupBy(F.window("at", "1 minute"), "k").count()
    return inner.groupBy(F.window("window", "2 minutes")).agg(F.sum("count").alias("n"))


@pytest.mark.parametrize("windows", [tumbling, hopping, chained])
def test_every_window_is_emitted_once_and_as_in_batch(
    spark: SparkSession, tmp_path: Path, windows: Callable[[DataFrame], DataFrame]
) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    for number in range(3):
        file = folder / f"{number}.json"
        rows = [{"at": f"2024-01-01T00:0{number}:{s:02d}Z", "k": f"k{s % 2}"} for s in range(0, 60, 7)]
        file.write_text("\n".join(map(json.dumps, rows)))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    schema = "at timestamp, k string"
    seen: list[tuple[int, list[tuple[Any, ...]]]] = []

    def write(frame: DataFrame, batch: int) -> None:
        seen.append((batch, [tuple(row) for row in frame.collect()]))

    def stream(**trigger: Any) -> None:
        read = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))
        query = (
            windows(read.withWatermark("at", "30 seconds"))
            .writeStream.foreachBatch(write)
            .outputMode("append")
            .option("checkpointLocation", str(checkpoint))
            .trigger(**trigger)
            .start()
        )
        query.awaitTermination()

    stream(availableNow=True)
    held_back = {row for _, rows in seen for row in rows}
    number = plan_flush(checkpoint)
    (folder / "later.json").write_text('{"at": "2024-01-01T00:09:00Z", "k": "later"}')
    stream(once=True)

    emitted = [row for _, rows in seen for row in rows]
    (folder / "later.json").unlink()
    batch = {tuple(row) for row in windows(spark.read.schema(schema).json(str(folder))).collect()}
    assert held_back < batch, "without a flush the last windows stay open"
    assert set(emitted) == batch
    assert len(emitted) == len(batch), "no window twice"
    assert seen[-1][0] == number == last_committed(checkpoint)
    assert plan_flush(checkpoint) is None
