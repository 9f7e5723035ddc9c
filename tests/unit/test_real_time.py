"""Real-time mode where no Spark is needed: what its reports say, and when an audit waits for one."""

from __future__ import annotations

from headrace.compile.counting import Counts, Observed
from headrace.compile.lower import Outcome
from headrace.compile.planner import plan
from headrace.connectors.base import Written
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.run.audit import audit
from headrace.run.ledger import entry

FLOW = """\
flow: odd
goal: latency
sources:
  orders: {kafka: orders, format: json, schema: id BIGINT}
steps:
  odd: {from: orders, filter: id % 2 = 1}
sinks:
  out: {from: odd, kafka: {topic: out}}
"""
REPORT = {
    "observedMetrics": {
        "wire 1 orders:read": {"rows": 10},
        "wire 1 orders": {"rows": 9},
        "wire 2 orders": {"rows": 9},
        "wire 1 odd": {"rows": 5},
        "kept 1 odd.out:filtered": {"filtered": 4},
        "kept 1 orders.read": {"unreadable": 1},
    },
    "stateOperators": [{"numRowsTotal": 3, "numRowsDroppedByWatermark": 2}],
}


def test_counts_come_from_the_report_of_a_batch() -> None:
    counts = Observed.read(REPORT)
    assert counts.rows == {"orders:read": 10, "orders": 9, "odd": 5}
    assert counts.taken == {"odd.out:filtered": {"filtered": 4}, "orders.read": {"unreadable": 1}}
    assert (counts.held, counts.refused) == (3, 2)
    assert Observed.read({}) == Counts()


def test_the_ledger_of_a_report_adds_up_and_a_row_that_was_not_written_is_missed() -> None:
    made = plan(resolve(flowfile.read(FLOW)).flow)
    (query,) = made.queries

    def findings(written: int) -> list[str]:
        sinks = {"out": Written(written=written)}
        outcome = Outcome(trunk=Observed.read(REPORT), behind=Counts(), branches={"out": Counts()}, sinks=sinks)
        found = audit([entry(made, query, 0, outcome, {"orders": 10})], {query.name: 0})
        return [finding.says for finding in found.findings]

    assert findings(5) == []
    assert findings(4) == ["given 5 = written 4 does not hold: 1 is missing"]


def test_a_batch_that_was_counted_anew_claims_nothing_of_its_sink() -> None:
    made = plan(resolve(flowfile.read(FLOW)).flow)
    (query,) = made.queries
    outcome = Outcome(trunk=Observed.read(REPORT), behind=Counts(), branches={}, sinks={})
    lines = {line.part for line in entry(made, query, 0, outcome).lines}
    assert lines == {"orders", "odd"}
