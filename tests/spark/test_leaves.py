"""Which line of a checkpoint's offsets is of which source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.compile.leaves import Leaf, leaves, tagged
from headrace.run.checkpoint import planned
from headrace.run.journal import Entry, betweens

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_offsets_are_told_apart_also_where_a_source_is_read_twice(spark: SparkSession, tmp_path: Path) -> None:
    def files(name: str, count: int) -> DataFrame:
        folder = tmp_path / name
        folder.mkdir()
        for number in range(count):
            file = folder / f"{number}.txt"
            file.write_text(f"{name}{number}\n")
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # read in the order of their times
        frame = spark.readStream.schema("value STRING").option("maxFilesPerTrigger", 1).text(str(folder))
        return tagged(frame, name)

    few, many, none = files("few", 1), files("many", 3), files("none", 0)
    table = spark.createDataFrame([("few0",)], "word STRING")
    joined = many.join(table, many.value == table.word, "left").select("value")
    again = few.alias("a").join(few.alias("b"), "value").select("value")
    trunk = joined.union(few).union(none).union(joined).union(again)
    order = leaves(trunk)
    assert [leaf.source for leaf in order] == ["many", "few", "none", "many", "few", "few"]
    assert order[0] == order[3] == Leaf("many", 0)

    checkpoint = tmp_path / "checkpoint"
    query = trunk.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query.start().awaitTermination()
    entries = {n: Entry.of(n, planned(checkpoint, n), order) for n in range(3)}

    found = betweens(entries, str(checkpoint), 1, 2)
    assert (found["many"].start, found["many"].end) == ('{"logOffset":0}', '{"logOffset":2}')
    assert found["few"].end == '{"logOffset":0}'
    assert found["none"].end is None
    assert "many0.txt" not in (Path(found["many"].kept or "") / "1").read_text()
    for name, word in (("many", "many"), ("few", "few")):
        assert f"{word}/0.txt" in (Path(found[name].kept or "") / "0").read_text()
