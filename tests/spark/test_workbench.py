"""Queries of the prompt on a real session: live with a limit, to the end with windows closed, stopped by hand."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from headrace.cli.sql import Shell
from headrace.errors import FlowError
from headrace.log import topics
from headrace.log.produce import produce
from headrace.run.workbench import Workbench
from tests.commands import place_of_work
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [{"user": u, "at": f"2026-01-01T00:00:0{s}Z"} for s, u in enumerate(["ann", "bob", "ann", "ann", "bob"])]


@pytest.fixture
def bench(spark: SparkSession) -> Workbench:
    made = Workbench(session=lambda: spark, kafka=dict)
    rows = ", ".join(f"{{user: '{row['user']}', at: '{row['at']}'}}" for row in ROWS)
    made.define(
        "CREATE STREAM visits (user STRING, at TIMESTAMP, EVENT TIME at WATERMARK '1 second') "
        f"WITH (connector = 'values', rows = [{rows}], per_batch = 2)"
    )
    made.define("CREATE STREAM ticks WITH (connector = 'rate', rows_per_second = 50)")
    made.define("CREATE VIEW of_ann AS SELECT * FROM visits WHERE user = 'ann'")
    return made


def test_queries_are_answered_live_to_the_end_and_until_they_are_stopped(bench: Workbench) -> None:
    live = [row for rows in bench.ask("SELECT value * 2 AS twice FROM ticks LIMIT 5") for row in rows]
    assert len({row["twice"] for row in live}) == 5
    assert all(row["twice"] % 2 == 0 for row in live)

    query = "SELECT window_start, window_end, count(*) AS n FROM of_ann GROUP BY tumble(at, '2 seconds')"
    whole = [row["n"] for rows in bench.ask(query, until_done=True) for row in rows]
    assert sorted(whole) == [1, 2]

    stop = threading.Event()
    heard = 0
    for rows in bench.ask("SELECT * FROM ticks", stop=stop):
        heard += len(rows)
        stop.set()
    assert heard
    assert bench.session().streams.active == []


@pytest.mark.slow
def test_a_topic_is_sampled_asked_while_it_grows_and_read_by_a_flow_that_was_typed(
    spark: SparkSession,
    broker: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, topic = {"bootstrap.servers": broker}, f"typed-{uuid4().hex[:8]}"
    topics.create(client, topic, partitions=1)
    produce(client, topic, [(None, b'{"id": %d}' % n) for n in range(3)])
    shell = Shell(
        Workbench(session=lambda: spark, kafka=lambda: client), bootstrap=broker, until_done=False, as_json=True
    )
    shell.obey(f".sample {topic} 2")
    assert capfd.readouterr().out.splitlines() == ['0:0  {"id": 0}', '0:1  {"id": 1}']

    shell.obey(f"CREATE STREAM t (id BIGINT) WITH (connector = 'kafka', topic = '{topic}', format = 'json')")
    more = threading.Timer(3, lambda: produce(client, topic, [(None, b'{"id": %d}' % n) for n in range(3, 6)]))
    more.start()
    shell.obey("SELECT id * 10 AS ten FROM t LIMIT 5")
    more.join()
    said = capfd.readouterr()
    heard = [json.loads(line)["ten"] for line in said.out.splitlines()]
    assert said.err == "ok\n5 rows\n", "and nothing of Spark's"
    assert heard == [0, 10, 20, 30, 40], "what was there, and what came while it was asked"

    with place_of_work(tmp_path / "typed") as place:
        monkeypatch.setenv(place.mark, "1")
        monkeypatch.chdir(place.root)
        with pytest.raises(FlowError) as refused:
            shell.obey(".run flow.sql")
        assert [p.code for p in refused.value.problems] == ["no-sink", "unused"]
        assert not (place.root / "flow.sql").exists()
        shell.obey("CREATE SINK kept WITH (connector = 'files', path = 'kept', format = 'json')")
        shell.obey("INSERT INTO kept FROM t")
        shell.obey(".run flow.sql")
        try:
            eventually(lambda: len(_lines(place.root / "kept")) == 6, 120, diagnose=place.logs)
        finally:
            place.run("stop", "flow")
    assert sorted(json.loads(line)["id"] for line in _lines(tmp_path / "typed" / "kept")) == list(range(6))


def _lines(folder: Path) -> list[str]:
    return [line for file in folder.glob("*.json") for line in file.read_text().splitlines()]
