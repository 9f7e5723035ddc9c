"""Rows that are taken back: two sessions become one, and no sink keeps the row of the later."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headrace.check import check
from headrace.compile.lower import lower
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.run.audit import audit
from headrace.run.inline import run_to_end
from headrace.run.ledger import Ledger

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

FLOW = """
flow: visits
sources:
  clicks:
    files: {path: clicks, per_batch: 1}
    format: json
    schema: user STRING, x BIGINT, at TIMESTAMP
    time: {column: at, watermark: 10 seconds}
steps:
  visits:
    from: clicks
    aggregate: {by: user, window: {session: 6 seconds}, emit: changes, compute: {n: count(*), total: sum(x)}}
  known: {from: visits, filter: user <> 'nobody'}
  named: {from: known, with: {id: "concat_ws('|', user, window_start)"}}
  doubled:
    from: named
    map: {python: "tests.connectors.test_removed:doubled", returns: "id STRING, n BIGINT"}
sinks:
  screen: {from: visits, console: {style: json}}
  table: {from: known, sqlite: {path: out.db, table: visits, key: [window_start, user]}}
  lake: {from: known, delta: {path: lake, key: [window_start, user]}}
  topic: {from: named, kafka: {topic: TOPIC, key: id, partitions: 2}}
  made: {from: doubled, memory: {key: id}}
"""
FIRST = ('{"user": "ann", "x": 1, "at": "%s:00Z"}', '{"user": "ann", "x": 2, "at": "%s:10Z"}')
NOBODY = '{"user": "nobody", "x": 2, "at": "%s:00Z"}'
BETWEEN = '{"user": "ann", "x": 3, "at": "%s:05Z"}'


def doubled(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["id"], "n": 2 * row["n"]}


def test_the_row_of_a_session_that_is_no_more_leaves_every_sink(
    spark: SparkSession, tmp_path: Path, broker: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "clicks").mkdir()
    for number, lines in enumerate([(*FIRST, NOBODY), (BETWEEN,)]):
        file = tmp_path / "clicks" / f"{number}.json"
        file.write_text("".join(line % "2026-01-01T00:00" + "\n" for line in lines))
        os.utime(file, (1_700_000_000 + number,) * 2)
    report = check(resolve(flowfile.read(FLOW.replace("TOPIC", f"visits-{uuid4().hex[:8]}"))))
    assert report.errors == (), "\n".join(map(str, report.errors))
    made, ledger = plan(report.flow), Ledger(tmp_path / "ledger.db")
    where = Where(
        session=spark,
        streaming=True,
        home=tmp_path,
        base=tmp_path,
        kafka={"bootstrap.servers": broker},
        counted=True,
    )
    (query,) = made.queries

    run_to_end(made, query, where, tmp_path / "checkpoint", ledger=ledger)

    assert audit(ledger.entries(), {query.name: 1}).findings == ()
    held = lower(made, query, where)
    rows = {s.name: held.holds(s) for s in report.flow.sinks if s.name != "screen"}
    found = {name: [row.asDict() for row in frame.collect()] for name, frame in rows.items() if frame is not None}
    assert {name: [(r.get("n"), r.get("total")) for r in some] for name, some in found.items()} == {
        "table": [(3, 6)],
        "lake": [(3, 6)],
        "topic": [(3, 6)],
        "made": [(6, None)],
    }
    assert '"n": 1, "total": 2, "removed": true' in capfd.readouterr().out
