"""A flow over a real topic with and without the vectorised stage: answers, ledger, dead letters, watermarks agree."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.check import check
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.run.inline import run_to_end
from headrace.run.ledger import Ledger, as_dict
from tests.bad_inputs import INPUTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "vectorised"
FLOW = f"""
flow: vectorised
goal: throughput
sources:
  events:
    kafka: {{topic: {TOPIC}, per_batch: 120, metadata: [partition]}}
    format: json
    schema: a BIGINT, b DOUBLE, s STRING, t TIMESTAMP
    time: {{column: t, watermark: 5 seconds}}
steps:
  named: {{from: events, with: {{kind: lower(s), twice: b * 2}}}}
  shown: {{from: named, filter: kind <> 'view'}}
  large: {{from: shown, filter: "twice > 20 or a % 7 = 0"}}
  priced: {{from: large, select: [kind, kafka_partition, t, abs(twice) AS price], expect: price < 190}}
  per_kind:
    from: priced
    aggregate:
      by: [kind, kafka_partition]
      window: {{tumbling: 10 seconds}}
      compute: {{n: count(*), most: max(price)}}
sinks:
  out: {{from: per_kind, files: {{path: out}}, format: json}}
"""


def values() -> list[bytes | None]:
    """Records of every kind: plain, odd, bad, without a time, late, and from a time that nobody believes."""
    draw = random.Random(3)
    bad = [b.value for b in INPUTS["json"] if len(b.value or b"") < 10_000]
    made: list[bytes | None] = []
    for n in range(600):
        second = n // 10 - (30 if n % 97 == 0 else 0)
        record: dict[str, Any] = {
            "a": n,
            "b": round(draw.random() * 100, 2),
            "s": draw.choice(["view", "View", "buy", "é"]),
        }
        record["t"] = f"2024-01-01T00:{second // 60 % 60:02d}:{second % 60:02d}.{n % 1000:03d}Z" if n % 31 else None
        if n % 53 == 0:
            record["t"] = "2150-01-01T00:00:00Z"
        if n % 41 == 0:
            record["b"] = str(record["b"])
        if n % 43 == 0:
            record = dict(reversed(record.items()))
        text = json.dumps(record, ensure_ascii=n % 2 == 0)
        made.append((text[:-1] + ', "a": 7}').encode() if n % 47 == 0 else text.encode())
        if n % 13 == 0:
            made.append(bad[n // 13 % len(bad)])
    return made


@pytest.fixture(scope="module")
def filled(broker: str) -> str:
    from confluent_kafka import Producer

    from headrace.log import topics

    client = {"bootstrap.servers": broker}
    topics.create(client, TOPIC, partitions=2)
    producer = Producer(client)
    for n, value in enumerate(values()):
        producer.produce(TOPIC, value=value, partition=n % 2)
    producer.flush(60)
    return broker


def ran(spark: SparkSession, broker: str, folder: Path, *, vectorised: bool, streaming: bool) -> dict[str, Any]:
    """Everything a run leaves behind, but for what tells when it was."""
    report = check(resolve(flowfile.read(FLOW)))
    assert not report.errors, report.errors
    made = plan(report.flow, vectorised=vectorised)
    (query,) = made.queries
    drops = {stage.drops for stage in made.stages}
    assert drops == ({("shown", "large")} if vectorised else {()})
    ledger, checkpoint, told = Ledger(folder / "ledger.db"), folder / "checkpoint", list[Any]()
    kafka = {"bootstrap.servers": broker}
    where = Where(session=spark, streaming=streaming, home=folder / "home", base=folder, kafka=kafka, counted=True)
    run_to_end(made, query, replace(where, note=told.append), checkpoint, ledger=ledger)
    letters = [
        {k: v for k, v in json.loads(line).items() if k not in ("at", "timestamp")}
        for file in sorted((folder / "home" / "dead-letters" / query.name).glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    rows = [line for file in (folder / "out").glob("part-*") for line in file.read_text(encoding="utf-8").splitlines()]
    offsets = [(checkpoint / "offsets" / str(n)) for n in range(20)] if streaming else []
    return {
        "rows": sorted(rows),
        "ledger": [{**as_dict(entry), "at": ""} for entry in ledger.entries()],
        "letters": letters,
        "told": told,
        "watermarks": [json.loads(f.read_text().splitlines()[1])["batchWatermarkMs"] for f in offsets if f.exists()],
    }


@pytest.mark.parametrize("streaming", [True, False])
def test_a_run_is_the_same_with_and_without_the_stage(
    spark: SparkSession, filled: str, tmp_path: Path, streaming: bool
) -> None:
    found = [
        ran(spark, filled, tmp_path / str(vectorised), vectorised=vectorised, streaming=streaming)
        for vectorised in (True, False)
    ]
    for name, expected in found[1].items():
        assert found[0][name] == expected, name
    assert len(found[0]["rows"]) > 10
    reasons = {letter["step"] for letter in found[0]["letters"]}
    assert reasons == {"events", "priced"}
    if streaming:
        assert len(set(found[0]["watermarks"])) > 2
