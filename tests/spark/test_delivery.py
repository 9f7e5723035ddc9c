"""What a sink is asked to give is what it gives when a batch is repeated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.check import check
from headrace.compile.lower import lower
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.connectors.base import AppendSink, Batch, Written
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLOW = """\
flow: delivered
sources:
  rows:
    values: {rows: [{id: 1}, {id: 2}]}
    schema: id BIGINT
sinks:
  out:
    from: rows
    console: {}
    delivery: DELIVERY
"""


class Noted(AppendSink[Options]):
    """Keeps what it is given, and fails once it has taken it, if it is told to."""

    def __init__(self) -> None:
        super().__init__(Options())
        self.batches: list[tuple[int, int]] = []
        self.failing = False

    def write(self, frame: DataFrame, batch: Batch) -> Written:
        if self.failing:
            raise ConnectionError("went away before anything was written")
        rows = frame.count()
        self.batches.append((batch.id, rows))
        return Written(written=rows)


def attempts(session: SparkSession, delivery: str, home: Path) -> list[tuple[int, int]]:
    """Batch 0 is written; batch 1 fails before it writes and is repeated; batch 2 is written, then repeated."""
    made = plan(check(resolve(flowfile.read(FLOW.replace("DELIVERY", delivery)))).flow)
    sink = Noted()
    where = Where(session=session, streaming=False, home=home, base=home, sinks={"out": sink})
    lowered = lower(made, made.queries[0], where)

    def write(batch_id: int) -> None:
        lowered.write(lowered.trunk, batch_id)

    write(0)
    sink.failing = True
    with pytest.raises(ConnectionError):
        write(1)
    sink.failing = False
    write(1)
    write(2)
    write(2)
    return sink.batches


def test_at_most_once_never_begins_a_batch_twice(spark: SparkSession, tmp_path: Path) -> None:
    assert attempts(spark, "at-most-once", tmp_path) == [(0, 2), (2, 2)]


def test_at_least_once_writes_a_repeated_batch_again(spark: SparkSession, tmp_path: Path) -> None:
    assert attempts(spark, "at-least-once", tmp_path) == [(0, 2), (1, 2), (2, 2), (2, 2)]


def test_explain_tells_what_was_asked_for_and_what_could_be_had() -> None:
    from headrace.compile.explain import text

    made: Any = plan(check(resolve(flowfile.read(FLOW.replace("DELIVERY", "at-most-once")))).flow)
    assert "out: at-most-once, because it asks for no more; its path can give at-least-once" in text(made)
