"""The ledger over a real Kafka: offsets that hold no record, and records that were deleted before they were read."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from headrace.check import load
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.errors import DataError
from headrace.log import topics
from headrace.observe import events
from headrace.project import Project
from headrace.run import audits, driver
from headrace.run.expiring import expiring
from headrace.run.home import Asked, Home, Record
from headrace.run.prepare import text_hash
from headrace.run.queries import Stopping, Watch, start_query
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = """\
flow: kept
sources:
  orders:
    kafka: {topic: TOPIC, on_lost: ON_LOST}
    format: json
    schema: id BIGINT
steps:
  odd: {from: orders, filter: id % 2 = 1}
sinks:
  out: {from: odd, sqlite: {path: out.db, table: rows}}
"""


class Kept:
    """A run without a supervisor, in the tests' own Spark."""

    def __init__(self, spark: SparkSession, bootstrap: str, root: Path) -> None:
        self.spark, self.root, self.client = spark, root, {"bootstrap.servers": bootstrap}
        self.topic, self.sent = f"kept-{uuid4().hex[:8]}", 0
        (root / "headrace.toml").touch()
        self.project, self.home = Project.find(root), Home(root / ".headrace" / "runs" / "kept")
        self.home.make()
        topics.create(self.client, self.topic, partitions=1)

    def send(self, count: int, *, commit: bool | None = None) -> None:
        """Records in a transaction that is committed or undone; in none if `commit` is not told."""
        from confluent_kafka import Producer

        settings: dict[str, Any] = {} if commit is None else {"transactional.id": uuid4().hex}
        producer = Producer({**self.client, **settings})
        if commit is not None:
            producer.init_transactions(30)
            producer.begin_transaction()
        for _ in range(count):
            producer.produce(self.topic, json.dumps({"id": self.sent}))
            self.sent += 1
        producer.flush()
        if commit is not None:
            producer.commit_transaction(30) if commit else producer.abort_transaction(30)

    def delete(self, before: int) -> None:
        """What retention does, at once."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(self.client)  # held on to: its answers come only as long as it lives
        for answer in admin.delete_records([TopicPartition(self.topic, 0, before)]).values():
            answer.result(30)

    def run(self, on_lost: str = "stop") -> None:
        file = self.root / "kept.yaml"
        file.write_text(FLOW.replace("TOPIC", self.topic).replace("ON_LOST", on_lost))
        made = plan(load(file))
        self.home.write(
            Record(
                name="kept",
                file=str(file),
                root=str(self.root),
                hash=text_hash(file.read_bytes()),
                mode="micro-batch",
                asked=Asked(bootstrap=self.client["bootstrap.servers"]),
                queries={query.name: {} for query in made.queries},
            )
        )
        driver._look_for_lost(self.home, made, self.client)
        where = Where(session=self.spark, streaming=True, home=self.home.path, base=self.root, kafka=self.client)
        [query] = made.queries
        watch = Watch(self.home, made.queries, lambda _: None)
        running = start_query(self.home, made, query, where, Stopping(), watch, until_done=True)
        eventually(lambda: not running.active, 120, diagnose=lambda: str(running.spark.lastProgress))
        running.check()

    def numbers(self, part: str) -> dict[str, int]:
        return dict(next(t.numbers for t in audits.of_run(self.project, self.home).totals if t.part == part))


def test_a_run_that_is_behind_is_warned_of_what_is_deleted_soon(broker: str) -> None:
    from confluent_kafka import Producer

    client, topic = {"bootstrap.servers": broker}, f"old-{uuid4().hex[:8]}"
    topics.create(client, topic, partitions=1, keeping=topics.Keeping(retention=timedelta(hours=1)))
    producer = Producer(client)
    for age in (3300, 60):
        producer.produce(topic, b"x", timestamp=round((time.time() - age) * 1000))
    producer.flush()

    [left] = expiring(client, [(topic, 0, 0)])
    assert (left.topic, left.partition, left.offset) == (topic, 0, 0)
    assert 200 < left.seconds < 300
    assert expiring(client, [(topic, 0, 1)]) == []
    assert expiring(client, [(topic, 0, 2)]) == []


@pytest.fixture
def kept(spark: SparkSession, broker: str, tmp_path: Path) -> Kept:
    return Kept(spark, broker, tmp_path)


def test_offsets_are_accounted_for_record_by_record_and_what_is_lost_is_said(kept: Kept) -> None:
    # 11 offsets with 10 records, 6 with none that counts, 5 plain ones.
    kept.send(10, commit=True)
    kept.send(5, commit=False)
    kept.send(5)
    kept.run()

    found = audits.of_run(kept.project, kept.home)
    assert found.findings == ()
    assert found.gaps == {"orders": 7}
    assert kept.numbers("orders") == {"offsets": 22, "read": 15, "emitted": 15, "dead": 0}
    assert kept.numbers("odd") == {"read": 15, "emitted": 8, "filtered": 7, "dead": 0}
    assert kept.numbers("out") == {"given": 8, "written": 8, "skipped": 0}

    # Offsets 22 to 41; those before 34 are deleted.
    kept.send(20)
    kept.delete(34)
    with pytest.raises(DataError) as stopped:
        kept.run()
    assert "12 records" in stopped.value.message
    assert stopped.value.detail == f"{kept.topic}, partition 0: offsets 22 to 33"
    assert "on_lost: continue" in stopped.value.hint

    kept.run(on_lost="continue")
    found = audits.of_run(kept.project, kept.home)
    assert found.findings == ()
    assert [(lost.start, lost.end) for lost in found.lost] == [(22, 34)]
    assert kept.numbers("orders") == {"offsets": 42, "read": 23, "emitted": 23, "dead": 0}
    said = [e for e in events.read(kept.home.events) if e["event"] == "lost"]
    assert {(e["records"], e["source"]) for e in said} == {(12, "orders")}
