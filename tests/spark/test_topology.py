"""Spouts and bolts on Spark: landed, shared out among tasks, resumed; a stream and a batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace import Bolt, Spout, Store, Topology
from headrace.author.topology import Out
from headrace.check import check
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.connectors import memory
from headrace.model import Mode
from headrace.run.inline import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Numbers(Spout):
    """Numbers below one, with an id each; says on disk what it was told."""

    returns = "n BIGINT, word STRING"

    def __init__(self, up_to: int, told: str) -> None:
        self.up_to, self.told, self.at = up_to, Path(told), 0

    def seek(self, position: int) -> None:
        self.at = position

    def next(self) -> tuple[dict[str, Any], int]:
        if self.at == self.up_to:
            raise StopIteration
        self.at += 1
        return {"n": self.at - 1, "word": "odd" if self.at % 2 == 0 else "even"}, self.at - 1

    def ack(self, id: int) -> None:
        with self.told.open("a") as file:
            file.write(f"{id}\n")


class Twice(Bolt):
    returns = "n BIGINT, word STRING"

    def execute(self, record: Any, out: Out) -> None:
        out.emit(record)
        out.emit(n=record["n"], word=record["word"].upper())


class Count(Bolt):
    returns = "word STRING, task INT, seen BIGINT"
    counts = Store("word STRING", "n BIGINT")

    def prepare(self, task: int) -> None:
        self.task = task

    def execute(self, record: Any, out: Out) -> None:
        word = record["word"]
        self.counts[word] = self.counts.get(word, 0) + 1  # type: ignore[index,attr-defined]
        out.emit(word, self.task, self.counts[word])  # type: ignore[index]


def topology(up_to: int, told: Path) -> Topology:
    made = Topology("tasks")
    made.spout("numbers", Numbers, per_batch=20, up_to=up_to, told=str(told))
    made.bolt("twice", Twice, parallelism=2).shuffle("numbers")
    made.bolt("by_word", Count, parallelism=3).fields("twice", "word")
    made.bolt("everywhere", Count, parallelism=2).all("numbers").global_("numbers")
    made["by_word"].sink("words", "memory", key=["word", "task"])
    made["everywhere"].sink("tasks", "memory", key=["word", "task"])
    return made


def run(session: SparkSession, up_to: int, home: Path, mode: Mode) -> dict[str, dict[tuple[str, int], int]]:
    flow = topology(up_to, home / "told").build()
    assert check(flow).errors == ()
    made = plan(flow, mode=mode)
    for key, value in made.spark.items():
        session.conf.set(key, value)
    where = Where(session=session, streaming=mode is not Mode.BATCH, home=home, base=home)
    for query in made.queries:
        run_to_end(made, query, where, home / "checkpoints" / query.name)
    return {
        sink.name: {(r["word"], r["task"]): r["seen"] for r in memory.tables[flow.name, sink.name].rows}
        for sink in flow.sinks
    }


def by_word(found: dict[tuple[str, int], int]) -> dict[str, list[int]]:
    return {word: sorted(n for (w, _), n in found.items() if w == word) for word in {w for w, _ in found}}


@pytest.mark.parametrize("mode", [Mode.MICRO_BATCH, Mode.BATCH])
def test_records_reach_the_tasks_their_grouping_says_and_state_survives(
    mode: Mode, spark: SparkSession, tmp_path: Path
) -> None:
    for key in [key for key in memory.tables if key[0] == "tasks"]:
        del memory.tables[key]

    found = run(spark, 25, tmp_path, mode)

    assert by_word(found["words"]) == {"even": [13], "EVEN": [13], "odd": [12], "ODD": [12]}, "a key has one task"
    assert found["tasks"] == {("even", 0): 26, ("odd", 0): 24, ("even", 1): 13, ("odd", 1): 12}, "all, and the first"
    if mode is Mode.BATCH:
        return
    assert sorted(map(int, (tmp_path / "told").read_text().split())) == list(range(25)), "each acknowledged once"
    assert not list((tmp_path / "places" / "numbers" / "landed").glob("*.arrow")), "and removed"

    again = run(spark, 40, tmp_path, mode)

    assert by_word(again["words"]) == {"even": [20], "EVEN": [20], "odd": [20], "ODD": [20]}
    assert again["tasks"] == {("even", 0): 40, ("odd", 0): 40, ("even", 1): 20, ("odd", 1): 20}
