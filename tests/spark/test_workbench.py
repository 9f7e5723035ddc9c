"""Queries of the prompt on a real session: live with a limit, to the end with windows closed, stopped by hand."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from headrace.run.workbench import Workbench

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
