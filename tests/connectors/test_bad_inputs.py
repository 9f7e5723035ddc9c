"""Every bad input ends where the list says, through a real topic or from a folder; the flow goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.check import check
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.run.inline import run_to_end
from tests.bad_inputs import CSV_SCHEMA, FILE_SCHEMA, FILES, INPUTS, NO_ROWS, ROW, ROWS, SCHEMA
from tests.recovery.test_letters import committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def flow_text() -> str:
    schemas = {"json": SCHEMA, "csv": CSV_SCHEMA}
    lines = ["flow: bad-inputs", "sources:"]
    for name in INPUTS:
        lines += [f"  {name}:", f"    kafka: {{topic: bad-inputs-{name}, metadata: [offset]}}", f"    format: {name}"]
        lines += [f"    schema: {schemas[name]}"] if name in schemas else []
    lines += ["sinks:"]
    for name in INPUTS:
        lines += [f"  {name}_rows:", f"    from: {name}", f"    files: {{path: out/{name}}}", "    format: json"]
    lines += ["  json_bad:", "    from: json.dead_letter", "    kafka: {topic: bad-inputs-letters, partitions: 1}"]
    return "\n".join(lines) + "\n"


def fill(broker: str) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker})
    topics = [NewTopic(f"bad-inputs-{n}", 1, 1, config={"max.message.bytes": "30000000"}) for n in INPUTS]
    for made in admin.create_topics(topics).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": broker, "message.max.bytes": 30_000_000})
    for name, inputs in INPUTS.items():
        for bad in inputs:
            producer.produce(f"bad-inputs-{name}", value=bad.value)
            producer.flush(60)


def lines(folder: Path, pattern: str) -> list[dict[str, Any]]:
    texts = [file.read_text(encoding="utf-8") for file in folder.glob(pattern)]
    return [json.loads(line) for text in texts for line in text.split("\n") if line]


def test_each_bad_input_ends_where_the_list_says(spark: SparkSession, broker: str, tmp_path: Path) -> None:
    fill(broker)
    report = check(resolve(flowfile.read(flow_text())))
    assert not report.errors, report.errors
    made = plan(report.flow)
    where = Where(
        session=spark, streaming=True, home=tmp_path / "home", base=tmp_path, kafka={"bootstrap.servers": broker}
    )
    for query in made.queries:
        run_to_end(made, query, where, tmp_path / "checkpoints" / query.name)
    wrong = []
    for name, inputs in INPUTS.items():
        rows = lines(tmp_path / "out" / name, "part-*")
        ends = {row["kafka_offset"]: ROW for row in rows}
        assert len(ends) == len(rows)
        for letter in lines(tmp_path / "home" / "dead-letters" / name, "*.jsonl"):
            assert letter["offset"] not in ends, letter["offset"]
            ends[letter["offset"]] = letter["reason"]
        wrong += [f"{name}: {bad.what}: {ends.get(n)}" for n, bad in enumerate(inputs) if ends.get(n) != bad.ends]
    assert not wrong, "\n".join(wrong)
    sent = {letter["offset"]: letter for letter in committed(broker, "bad-inputs-letters")}
    kept = {letter["offset"]: letter for letter in lines(tmp_path / "home" / "dead-letters" / "json", "*.jsonl")}
    assert sent.keys() == kept.keys()
    large = {number for number, letter in kept.items() if len(letter.get("value", "")) > 1_000_000}
    assert large, "one is larger than a message may be"
    for number, letter in sent.items():
        assert letter["reason"].startswith(kept[number]["reason"])
        assert (letter["value"] is not None) == ("value" in kept[number] and number not in large)
        assert ("bytes is only in dead-letters/json/" in letter["reason"]) == (number in large)


def test_each_bad_file_ends_where_the_list_says(spark: SparkSession, tmp_path: Path) -> None:
    text = f"""\
flow: bad-files
sources:
  parquet: {{files: {{path: in}}, format: parquet, schema: "{FILE_SCHEMA}"}}
sinks:
  rows: {{from: parquet, files: {{path: out}}, format: json}}
"""
    report = check(resolve(flowfile.read(text)))
    assert not report.errors, report.errors
    files = FILES["parquet"]
    (tmp_path / "in").mkdir()
    for number, bad in enumerate(files):
        (tmp_path / "in" / f"{number}.parquet").write_bytes(bad.make(number * 1000))
    made = plan(report.flow)
    where = Where(session=spark, streaming=True, home=tmp_path / "home", base=tmp_path)
    run_to_end(made, made.queries[0], where, tmp_path / "checkpoint")
    ends = {row["id"] // 1000: ROWS for row in lines(tmp_path / "out", "part-*")}
    for letter in lines(tmp_path / "home" / "dead-letters" / "parquet", "*.jsonl"):
        number = int(Path(letter["file"]).stem)
        assert number not in ends, letter
        ends[number] = letter["reason"]
    found = {bad.what: ends.get(number, NO_ROWS) for number, bad in enumerate(files)}
    assert found == {bad.what: bad.ends for bad in files}
