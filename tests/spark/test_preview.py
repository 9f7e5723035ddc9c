"""A preview gives the records of a step: of rows, of a generator without an end, of what a topic has newest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace import Flow, interactive, tumbling
from headrace.kafka_settings import ClientSettings
from headrace.log import topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_preview_is_computed_from_what_there_is(
    spark: SparkSession, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka import Producer

    monkeypatch.setattr(interactive, "SAMPLE", 5)
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", broker)
    topics.create(ClientSettings({"bootstrap.servers": broker}), "previewed", 1)
    producer = Producer({"bootstrap.servers": broker})
    for number in range(20):
        producer.produce("previewed", value=f'{{"n": {number}}}')
    producer.flush(60)
    flow = Flow("seen")
    least = flow.param("least", int, default=3)
    rows = flow.source("rows", "values", rows=[{"a": n} for n in range(6)], schema="a INT")
    rows.filter("some", f"a >= {least}").split("odd", odd="a % 2 = 1")
    endless = flow.source("endless", "generator", kind="orders", time={"column": "at", "watermark": "1 s"})
    endless.aggregate("n", window=tumbling("1 hour"), n="count(*)")
    flow.source("topic", "kafka", topic="previewed", format="json", schema="n INT")

    assert [row["a"] for row in flow["some"].preview()] == [3, 4, 5]
    assert [row["a"] for row in flow["some"].preview(1, least=5)] == [5]
    assert [row["a"] for row in flow["odd.odd"].preview()] == [3, 5]
    counted = flow["n"].preview()
    assert sum(row["n"] for row in counted) == 5
    assert [name for name, _ in counted.columns] == ["window_start", "window_end", "n"]
    assert sorted(row["n"] for row in flow["topic"].preview(100)) == [15, 16, 17, 18, 19]
