"""From raw records to columns: only what is needed is parsed, what cannot be read is left out and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.check import check
from headrace.check.wires import wires
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.testing.cases import Case, Input
from headrace.testing.compare import difference
from headrace.testing.run_cases import outputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = """\
flow: decoded
sources:
  records:
    kafka: {topic: t, metadata: [offset, timestamp]}
    format: FORMAT
    schema: id BIGINT, user STRING, amount DOUBLE
steps:
  some:
    from: records
    select: [amount, kafka_offset, kafka_timestamp]
sinks:
  out:
    from: some
    console: {}
"""


@pytest.mark.parametrize(
    ("form", "records"),
    [
        ("json", ['{"id": 1, "amount": 1.5}', "not json", '{"amount": 2}', '{"amount": "x"}', "[1]", ""]),
        ("csv", ["1,ann,1.5", "1,ann", "3,bob,2.0", "4,cyd,x", '5,"a', ""]),
    ],
)
def test_readable_records_come_through_with_what_came_with_them(
    form: str, records: list[str], spark: SparkSession
) -> None:
    flow = check(resolve(flowfile.read(FLOW.replace("FORMAT", form)))).flow
    case = Case(name="case", given={}, expect={})
    found = outputs(flow, {"records": Input(batches=(tuple(records),))}, case, spark)["out"]
    expected = [
        {"amount": 1.5, "kafka_offset": 0, "kafka_timestamp": "2026-01-01T00:00:00Z"},
        {"amount": 2.0, "kafka_offset": 2, "kafka_timestamp": "2026-01-01T00:00:02Z"},
    ]
    assert difference(expected, found, wires(flow).schemas[flow.sinks[0].inputs[0]]) == []
