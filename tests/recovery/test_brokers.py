"""Three brokers, every record on each; one is killed while a producer and a flow are at work, nothing is lost, and it
comes back alone."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.check import load
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.log import broker, topics
from headrace.log.consume import consume
from headrace.log.produce import Record, produce
from headrace.project import Project
from headrace.run.audit import audit
from headrace.run.checkpoint import last_committed
from headrace.run.home import Home
from headrace.run.ledger import Ledger
from headrace.run.queries import Stopping, Watch, start_query
from tests.brokers import OUTAGE, running_cluster
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACE = 0.002
"""Seconds from one record to the next."""
FLOW = """\
flow: copied
sources:
  numbers: {kafka: {topic: given}, format: json, schema: n BIGINT}
steps:
  even: {from: numbers, filter: n % 2 = 0}
sinks:
  out: {from: even, kafka: {topic: taken}, format: json}
"""


def test_a_producer_and_a_flow_go_on_when_one_of_three_brokers_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    with running_cluster(tmp_path / "cluster", 3) as info:
        client = {"bootstrap.servers": info.bootstrap}
        for topic in ("given", "taken"):
            topics.create(client, topic, partitions=3)
            found = topics.describe(client, topic)
            assert [len(p.replicas) for p in found.partitions] == [3, 3, 3]
            assert {p.leader for p in found.partitions} == {1, 2, 3}
        (tmp_path / "copied.yaml").write_text(FLOW)
        made, home = plan(load(tmp_path / "copied.yaml")), Home(tmp_path / "home")
        home.make()
        where = Where(session=spark, streaming=True, home=home.path, base=tmp_path, kafka=client)
        watch = Watch(home, made.queries, lambda _: None)
        running = start_query(home, made, made.queries[0], where, Stopping(), watch, until_done=False)
        victim = info.nodes[0].process
        assert victim is not None
        enough = threading.Event()

        def records() -> Iterator[Record]:
            for number in count():
                yield None, f'{{"n": {number}}}'.encode()
                if enough.wait(PACE):
                    return

        sent: list[int] = []
        sending = threading.Thread(
            target=lambda: sent.append(produce(client, "given", records(), spread="round-robin").records)
        )
        sending.start()
        try:
            eventually(lambda: _written(home) > 0, 120, diagnose=lambda: str(running.spark.lastProgress))
            before = _written(home)
            os.kill(victim.pid, signal.SIGKILL)
            time.sleep(OUTAGE)  # two of three brokers, under load, for so long
            eventually(lambda: _written(home) > before, 240, diagnose=lambda: str(running.spark.lastProgress))
            enough.set()
            sending.join(120)
            [records_sent] = sent
            eventually(
                lambda: _written(home) == (records_sent + 1) // 2,
                240,
                diagnose=lambda: f"{_written(home)} written; {running.spark.lastProgress}",
            )
            running.check()
            assert not victim.alive()
            assert {p.leader for p in topics.describe(client, "given").partitions} <= {2, 3}
        finally:
            enough.set()
            running.stop(30)

        taken = Counter(record.value for record in consume(client, "taken", until_end=True))
        assert taken == Counter(f'{{"n":{n}}}'.encode() for n in range(0, records_sent, 2)), (
            "every record, and each once"
        )
        everything = Counter(record.value for record in consume(client, "given", until_end=True))
        assert everything == Counter(f'{{"n": {n}}}'.encode() for n in range(records_sent)), "of the producer's too"
        print(f"one of three brokers away for {OUTAGE:g} s: {before} rows before, {taken.total()} in the end")
        balance = audit(Ledger(home.ledger).entries(), {"numbers": last_committed(home.checkpoint("numbers"))})
        assert balance.findings == ()

        healed = broker.start(Project(root=tmp_path / "cluster"))  # brings back only the one that is missing
        assert [n.process for n in healed.nodes[1:]] == [n.process for n in info.nodes[1:]]
        eventually(lambda: all(len(p.in_sync) == 3 for p in topics.describe(client, "given").partitions), 60)
    assert not any(node.alive() for node in (*info.nodes, *healed.nodes))


def _written(home: Home) -> int:
    """Rows that the sink says it has written."""
    entries = Ledger(home.ledger).entries()
    return sum(line.numbers["written"] for entry in entries for line in entry.lines if line.part == "out")
