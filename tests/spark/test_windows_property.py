"""Windows on Spark against the oracle: hundreds of small random streams in a few queries.

Each stream is a key of its own, so that one run holds many: they share the batches and the watermark, and the
oracle is told the same. `make windows` runs each kind with every policy.
"""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace.check import check
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.testing.cases import Case, Input
from headrace.testing.run_cases import outputs
from tests.oracles.windows import (
    SECOND,
    Answer,
    Days,
    InOrder,
    Outcome,
    Record,
    Session,
    Tumbling,
    fixed,
    in_order,
    sessions,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BEGINNING = round(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * SECOND
STREAMS, BATCHES, DELAY = 150, 6, 20
HOUR = 3600
ZONE = "Europe/Berlin"
BEFORE_SUMMER = round(datetime(2026, 3, 27, tzinfo=UTC).timestamp()) * SECOND
"""Two days before the clock is changed there."""

FLOW = f"""\
flow: property
sources:
  rows:
    values: {{rows: []}}
    schema: stream INT, k STRING, x BIGINT, at TIMESTAMP
    time: {{column: at, watermark: {DELAY} seconds}}
steps:
  windows:
    from: rows
    aggregate: {{by: [stream, k], window: %s, compute: {{n: count(*), total: sum(x), most: max(x)}}%s}}
sinks:
  out: {{from: windows, console: {{}}}}
"""
LATE = "  late: {from: windows.late, console: {}}\n"


def draw(seed: int) -> list[list[Record]]:
    """Batches of records of many streams, each with its own disorder, gaps, repetitions, ties and nulls."""
    chance = random.Random(seed)
    batches: list[list[Record]] = [[] for _ in range(BATCHES)]
    for stream in range(STREAMS):
        disorder, pace = chance.choice([0, 3, 30, 90]), chance.choice([0.5, 3, 15])
        at, moments = 0.0, []
        for _ in range(chance.randrange(0, 14)):
            at += chance.choice([0, pace, pace * chance.random(), pace * 8])
            moments.append(max(0.0, at - disorder * chance.random()))
        for moment in moments:
            # About as far in the run as in time, but cut anywhere; the unit makes ties and ends of windows likely.
            batch = min(BATCHES - 1, max(0, int(moment / 25) + chance.choice([0, 0, 0, 1, 2, -1])))
            time = round(moment) * SECOND if chance.random() < 0.7 else round(moment * 1000) * 1000 + 7
            key = (stream, chance.choice(["a", "a", "b", None]))
            at_ = None if chance.random() < 0.03 else BEGINNING + time  # without a time it is in no window
            record = Record(key, at_, chance.choice([None, -1, 0, 5, 7]))
            batches[batch] += [record] * chance.choice([1, 1, 1, 2])
    newest = 0
    for number, batch in enumerate(batches):
        if newest:  # keys of one record each, that comes a millisecond before the watermark would have passed it
            mark = newest // 1000 * 1000 - DELAY * SECOND
            batch += [Record((STREAMS + number * 10 + extra, "a"), mark + 1000, 5) for extra in range(10)]
        newest = max([newest, *(record.at or 0 for record in batch)])
        chance.shuffle(batch)
    return [batch or [Record((0, "a"), BEGINNING, 1)] for batch in batches]


def slowly(batches: list[list[Record]], hours: int) -> list[list[Record]]:
    """The same with some hours for each second, over the days around a change of the clock."""
    return [
        [r._replace(at=r.at and BEFORE_SUMMER + (r.at - BEGINNING) * hours * HOUR) for r in batch] for batch in batches
    ]


def row(record: Record) -> dict[str, Any]:
    stream, k = record.key
    at = None if record.at is None else EPOCH + timedelta(microseconds=record.at)
    return {"stream": stream, "k": k, "x": record.x, "at": at}


def micros(at: datetime) -> int:
    return (at.replace(tzinfo=at.tzinfo or UTC) - EPOCH) // timedelta(microseconds=1)


def answers(rows: Any) -> list[Answer]:
    return [
        Answer((r["stream"], r["k"]), micros(r["window_start"]), micros(r["window_end"]), r["n"], r["total"], r["most"])
        for r in rows
    ]


def expected(kind: str, batches: list[list[Record]], allowance: int = 0, *, changes: bool = False) -> Outcome:
    match kind:
        case "tumbling":
            return fixed(batches, Tumbling(length=10 * SECOND), DELAY * SECOND, allowance)
        case "hopping":
            return fixed(batches, Tumbling(length=10 * SECOND, every=4 * SECOND), DELAY * SECOND, allowance)
        case "days":
            return fixed(batches, Days(zone=ZONE), DELAY * HOUR * SECOND, allowance)
        case "count, one":
            return in_order(batches, InOrder(count=1), DELAY * SECOND, allowance)
        case "count":
            return in_order(batches, InOrder(count=3, partial=changes), DELAY * SECOND, allowance)
        case "count, each":
            return in_order(batches, InOrder(count=4, each=2, partial=changes), DELAY * SECOND, allowance)
        case "sliding":
            return in_order(batches, InOrder(sliding=10 * SECOND), DELAY * SECOND, allowance)
        case "session, at most":
            return in_order(batches, InOrder(gap=6 * SECOND, at_most=15 * SECOND), DELAY * SECOND, allowance)
        case "hopping days":
            return fixed(batches, Days(zone=ZONE, length=3, every=2), DELAY * HOUR * SECOND, allowance)
    return sessions(batches, Session(gap=6 * SECOND), DELAY * SECOND, allowance)


KINDS = {"tumbling": "{tumbling: 10 s}", "hopping": "{hopping: 10 s, every: 4 s}", "session": "{session: 6 s}"}
IN_ORDER = {
    "count": "{count: 3}",
    "count, one": "{count: 1}",
    "count, each": "{count: 4, each: 2}",
    "sliding": "{sliding: 10 s}",
    "session, at most": "{session: 6 s, at_most: 15 s}",
}
DAYS = {
    "days": f"{{tumbling: 1 day, zone: {ZONE}}}",
    "hopping days": f"{{hopping: 3 days, every: 2 days, zone: {ZONE}}}",
}
POLICIES = {
    "final, drop": "",
    "final, port": ", late: port",
    "changes, drop": ", emit: changes",
    "changes, port": ", emit: changes, late: port",
    "early, drop": ", emit: {early: 1 millisecond}",
    "changes, correct": ", emit: changes, late: correct, allowance: 8 s",
}
RUNS = [
    (kind, policy)
    for kind, policies in {
        "tumbling": ("final, drop", "final, port", "changes, port", "early, drop", "changes, correct"),
        "hopping": ("final, port", "changes, drop", "early, drop", "changes, correct"),
        "session": ("final, drop", "final, port", "changes, port", "early, drop", "changes, correct"),
        "session, at most": ("final, port", "changes, drop", "changes, correct"),
        "count": ("final, port", "changes, drop", "changes, correct"),
        "count, one": ("final, drop", "changes, port"),
        "count, each": ("final, port", "changes, port", "changes, correct"),
        "sliding": ("final, port", "changes, drop", "changes, correct"),
        "days": ("final, port", "changes, correct"),
        "hopping days": ("final, port", "changes, correct"),
    }.items()
    for policy in policies
]
"""Each kind with each emission and each policy; `early` is `changes` at a slower pace, on the same way for all."""
if os.environ.get("HEADRACE_WINDOWS") == "all":
    RUNS += [(kind, policy) for kind in KINDS | IN_ORDER | DAYS for policy in POLICIES if (kind, policy) not in RUNS]


@pytest.mark.parametrize(("kind", "policy"), RUNS)
def test_the_answer_of_a_stream_is_the_oracles(kind: str, policy: str, spark: SparkSession) -> None:
    port = "port" in policy
    text = FLOW % ((KINDS | IN_ORDER | DAYS)[kind], POLICIES[policy]) + (LATE if port else "")
    text = text.replace("seconds}", "hours}") if kind in DAYS else text
    report = check(resolve(flowfile.read(text)))
    assert report.errors == (), "\n".join(map(str, report.errors))
    batches = draw(RUNS.index((kind, policy)))
    batches = slowly(batches, 1 if kind == "days" else 4) if kind in DAYS else batches
    case = Case(name="case", given={}, expect={})
    given = {"rows": Input(batches=tuple(tuple(row(r) for r in batch) for batch in batches))}
    found = outputs(report.flow, given, case, spark)
    assert len(expected(kind, batches).late) > 20, "the streams must have late records, or nothing is shown"
    wanted = expected(kind, batches, 8 * SECOND if "correct" in policy else 0, changes="final" not in policy)
    assert sorted(answers(found["out"]), key=str) == sorted(wanted.answers, key=str)
    if port:
        late = [((r["stream"], r["k"]), micros(r["at"]), r["x"], round(r["late_by"] * SECOND)) for r in found["late"]]
        behind = [(r.key, r.at, r.x, mark - (r.at or 0)) for r, mark in wanted.late]
        assert sorted(late, key=str) == sorted(behind, key=str)
