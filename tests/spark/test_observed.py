"""What was counted on the way can be read before the batch is committed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.compile.counting import Counts, Stream
from headrace.compile.observed import Counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_counts_of_a_batch_are_there_once_it_is_computed(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    data = tmp_path / "in"
    data.mkdir()
    (data / "a.txt").write_text("1\n2\n3\n4\n", encoding="utf-8")
    seen: list[Any] = []

    def write(frame: DataFrame, number: int) -> None:
        counted = Counted(spark)
        odd = counted.observe(frame.where("value % 2 = 1"), "odd", F.count(F.lit(1)).alias("rows"))
        never = counted.observe(frame, "never", F.count(F.lit(1)).alias("rows"))
        assert never.columns == ["value"]
        seen.append((wires.read().rows, dict(counted.read())))
        odd.collect()
        seen.append((wires.read().rows, counted.read(), wires.read().taken))

    stream = spark.readStream.schema("value STRING").text(str(data))
    wires = Stream(spark)
    counting = wires.kept(wires.wire(stream, "all"), "large", "filtered", F.col("value") > 1)
    query = (
        counting.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.exception() is None
    assert seen == [({"all": 0}, {}), ({"all": 4}, {"odd": {"rows": 1}}, {"large": {"filtered": 1}})]
    assert wires.read() == Counts()
