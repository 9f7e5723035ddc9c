"""Each operator lowered and run on Spark: its example, empty input, nulls, repeated records, all types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.check import check
from headrace.check.wires import wires
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.model import Flow
from headrace.testing.cases import Case, Input
from headrace.testing.compare import difference
from headrace.testing.run_cases import outputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "id BIGINT, user STRING, amount DOUBLE, tags ARRAY<STRING>, facts MAP<STRING,INT>, at TIMESTAMP"
ROWS: list[dict[str, Any]] = [
    {"id": 1, "user": "ann", "amount": 10.0, "tags": ["a", "b"], "facts": {"x": 1}, "at": "2026-01-01T00:00:01Z"},
    {"id": 2, "user": "bob", "amount": 200.0, "tags": [], "facts": {}, "at": "2026-01-01T00:00:02Z"},
    {"id": 3, "user": None, "amount": None, "tags": None, "facts": None, "at": "2026-01-01T00:00:11Z"},
    {"id": 1, "user": "ann", "amount": 10.0, "tags": ["a", "b"], "facts": {"x": 1}, "at": "2026-01-01T00:00:01Z"},
    {
        "id": 4,
        "user": "ann",
        "amount": -5.5,
        "tags": ["c", None],
        "facts": {"y": 2, "z": 3},
        "at": "2026-01-01T00:00:15Z",
    },
]


def flow_of(step: str, sink: str = "console: {}", source: str = "") -> Flow:
    text = f"""\
flow: operators
sources:
  rows:
    values: {{rows: []}}
    schema: {COLUMNS}
    time: {{column: at, watermark: 1 minute}}
{source}
steps:
  {step}
sinks:
  out:
    from: {"step" if "split" not in step else "step.large"}
    {sink}
"""
    report = check(resolve(flowfile.read(text)))
    assert report.errors == (), "\n".join(map(str, report.errors))
    return report.flow


def result(session: SparkSession, flow: Flow, rows: list[dict[str, Any]], mode: str, batches: int = 1) -> Any:
    size = max(1, -(-len(rows) // batches))
    cut = tuple(tuple(rows[i : i + size]) for i in range(0, len(rows), size))
    case = Case(name="case", given={}, expect={}, mode=mode)
    return outputs(flow, {"rows": Input(batches=cut or ((),))}, case, session)["out"]


STATELESS = [
    (
        "step: {from: rows, select: [id, amount * 2 AS twice, {who: 'upper(user)'}]}",
        [
            {"id": 1, "twice": 20.0, "who": "ANN"},
            {"id": 2, "twice": 400.0, "who": "BOB"},
            {"id": 3, "twice": None, "who": None},
            {"id": 1, "twice": 20.0, "who": "ANN"},
            {"id": 4, "twice": -11.0, "who": "ANN"},
        ],
    ),
    (
        "step: {from: rows, with: {amount: 'coalesce(amount, 0)', large: amount > 100}}",
        [
            {"id": 1, "amount": 10.0, "large": False},
            {"id": 2, "amount": 200.0, "large": True},
            {"id": 3, "amount": 0.0, "large": None},
            {"id": 1, "amount": 10.0, "large": False},
            {"id": 4, "amount": -5.5, "large": False},
        ],
    ),
    ("step: {from: rows, drop: [tags, facts, at, user, amount]}", [{"id": i} for i in (1, 2, 3, 1, 4)]),
    (
        "step: {from: rows, rename: {user: customer}}",
        [{"id": i, "customer": u} for i, u in [(1, "ann"), (2, "bob"), (3, None), (1, "ann"), (4, "ann")]],
    ),
    ("step: {from: rows, filter: amount > 0}", [{"id": i} for i in (1, 2, 1)]),
    ("step: {from: rows, map: {n: size(tags), at: at}}", [{"n": n} for n in (2, 0, None, 2, 2)]),
    ("step: {from: rows, flat_map: {each: tags, as: tag}}", [{"tag": t} for t in ("a", "b", "a", "b", "c", None)]),
    (
        "step: {from: rows, flat_map: {each: 'transform(tags, t -> struct(t AS tag, id AS nr))'}}",
        [{"tag": t, "nr": n} for t, n in (("a", 1), ("b", 1), ("a", 1), ("b", 1), ("c", 4), (None, 4))],
    ),
    (
        "step: {from: rows, explode: {each: tags, as: tag}}",
        [{"id": n, "tag": t} for t, n in (("a", 1), ("b", 1), ("a", 1), ("b", 1), ("c", 4), (None, 4))],
    ),
    (
        "step: {from: rows, explode: {each: tags, as: tag, outer: true}}",
        [
            {"id": n, "tag": t}
            for t, n in (("a", 1), ("b", 1), (None, 2), (None, 3), ("a", 1), ("b", 1), ("c", 4), (None, 4))
        ],
    ),
    (
        "step: {from: rows, explode: {each: facts, as: fact}}",
        [{"id": n, "fact": {"key": k, "value": v}} for n, k, v in ((1, "x", 1), (1, "x", 1), (4, "y", 2), (4, "z", 3))],
    ),
    ("step: {from: rows, split: {large: amount > 100}}", [{"id": 2}]),
    ("step: {from: [rows, rows], union: {}}", [{"id": i} for i in (1, 2, 3, 1, 4) * 2]),
]

STATEFUL = [
    ("step: {from: rows, distinct: id}", [{"id": i} for i in (1, 2, 3, 4)]),
    ("step: {from: rows, limit: {rows: 2, by: user}}", [{"id": i} for i in (1, 1, 2, 3)]),
    (
        "step: {from: rows, aggregate: {by: user, compute: {n: count(*), total: sum(amount)}}}",
        [
            {"user": "ann", "n": 3, "total": 14.5},
            {"user": "bob", "n": 1, "total": 200.0},
            {"user": None, "n": 1, "total": None},
        ],
    ),
    (
        "step: {from: rows, aggregate: {window: {tumbling: 10 s}, compute: {n: count(*), most: max(amount)}}}",
        [
            {"window_start": "2026-01-01T00:00:00Z", "window_end": "2026-01-01T00:00:10Z", "n": 3, "most": 200.0},
            {"window_start": "2026-01-01T00:00:10Z", "window_end": "2026-01-01T00:00:20Z", "n": 2, "most": -5.5},
        ],
    ),
    (
        "step: {from: rows, aggregate: {window: {hopping: 10 s, every: 5 s}, emit: changes, compute: {n: count(*)}}}",
        [
            {"window_start": "2025-12-31T23:59:55Z", "n": 3},
            {"window_start": "2026-01-01T00:00:00Z", "n": 3},
            {"window_start": "2026-01-01T00:00:05Z", "n": 1},
            {"window_start": "2026-01-01T00:00:10Z", "n": 2},
            {"window_start": "2026-01-01T00:00:15Z", "n": 1},
        ],
    ),
]


def agree(found: Any, expected: list[dict[str, Any]], flow: Flow) -> None:
    wrong = difference(expected, found, wires(flow).schemas[flow.sinks[0].inputs[0]])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("step", "expected"), STATELESS + STATEFUL, ids=lambda v: v[12:60] if isinstance(v, str) else ""
)
def test_an_operator_over_a_batch(step: str, expected: list[dict[str, Any]], spark: SparkSession) -> None:
    flow = flow_of(step)
    agree(result(spark, flow, ROWS, "batch"), expected, flow)


@pytest.mark.parametrize(
    ("step", "expected"), STATELESS + STATEFUL, ids=lambda v: v[12:60] if isinstance(v, str) else ""
)
def test_an_operator_over_nothing_gives_nothing(step: str, expected: object, spark: SparkSession) -> None:
    flow = flow_of(step)
    agree(result(spark, flow, [], "batch"), [], flow)


@pytest.mark.parametrize(("step", "expected"), STATEFUL, ids=lambda v: v[12:60] if isinstance(v, str) else "")
def test_an_operator_that_remembers_gives_the_same_over_a_stream(
    step: str, expected: list[dict[str, Any]], spark: SparkSession
) -> None:
    flow = flow_of(step)
    agree(result(spark, flow, ROWS, "micro-batch", batches=3), expected, flow)


def test_stateless_operators_give_the_same_over_a_stream(spark: SparkSession) -> None:
    """All of them as branches of one flow, so that Spark starts one query."""
    steps = "\n  ".join(f"s{i}: {step[6:]}" for i, (step, _) in enumerate(STATELESS))
    ports = {i: f"s{i}.large" if "split" in step else f"s{i}" for i, (step, _) in enumerate(STATELESS)}
    sinks = "\n  ".join(f"o{i}: {{from: {port}, console: {{}}}}" for i, port in ports.items())
    text = (
        f"flow: branches\nsources:\n  rows:\n    values: {{rows: []}}\n    schema: {COLUMNS}\n"
        f"steps:\n  {steps}\nsinks:\n  {sinks}\n"
    )
    report = check(resolve(flowfile.read(text)))
    assert report.errors == ()
    case = Case(name="case", given={}, expect={})
    given = {"rows": Input(batches=(tuple(ROWS[:2]), tuple(ROWS[2:])))}
    found = outputs(report.flow, given, case, spark)
    for i, (_, expected) in enumerate(STATELESS):
        wrong = difference(expected, found[f"o{i}"], wires(report.flow).schemas[report.flow.sinks[i].inputs[0]])
        assert not wrong, f"{STATELESS[i][0]}\n" + "\n".join(wrong)


def twice(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [record, record] if record["id"] > 1 else []


def clean(record: dict[str, Any]) -> dict[str, Any] | None:
    return None if record["user"] is None else {"who": record["user"].title(), "at": record["at"]}


def rough(amount: float) -> int:
    return int(amount // 1)


def given_null(user: str | None) -> str:
    return "nobody" if user is None else str(user).title()


@pytest.mark.parametrize("mode", ["batch", "micro-batch"])
def test_python_functions_run_as_rows_and_records(mode: str, spark: SparkSession) -> None:
    from headrace import Flow as Builder

    made = Builder("functions")
    rows = made.source("rows", "values", rows=[], schema=COLUMNS, time={"column": "at", "watermark": "1 minute"})
    doubled = rows.flat_map("doubled", twice, returns=COLUMNS)
    doubled.with_("rough", rough=rough, who=given_null).select("some", "id", "rough", "who").sink("many", "console")
    rows.map("clean", clean, returns="who STRING, at TIMESTAMP").aggregate(
        "windows", by="who", window={"tumbling": "10 s"}, n="count(*)"
    ).sink("windows_out", "console")
    flow = made.build()
    case = Case(name="case", given={}, expect={}, mode=mode)
    found = outputs(flow, {"rows": Input(batches=(tuple(ROWS),))}, case, spark)
    schemas = wires(flow).schemas
    many = [
        {"id": i, "rough": r, "who": w}
        for i, r, w in ((2, 200, "Bob"), (3, None, "nobody"), (4, -6, "Ann"))
        for _ in "ab"
    ]
    assert not difference(many, found["many"], schemas[flow["many"].inputs[0]])
    windows = [
        {"window_start": "2026-01-01T00:00:00Z", "who": "Ann", "n": 2},
        {"window_start": "2026-01-01T00:00:00Z", "who": "Bob", "n": 1},
        {"window_start": "2026-01-01T00:00:10Z", "who": "Ann", "n": 1},
    ]
    assert not difference(windows, found["windows_out"], schemas[flow["windows_out"].inputs[0]])
