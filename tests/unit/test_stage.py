"""The vectorised stage without Spark: what is followed and why no more, and what a worker hands on."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from headrace.check import check
from headrace.compile import stage_work
from headrace.compile.explain import explain, text
from headrace.compile.plan import Plan
from headrace.compile.planner import plan
from headrace.compile.stage import Stage
from headrace.compile.stage_work import LEFT, SPILLED, Believed, Work, run
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.formats.json_native import Orders, decode
from headrace.formats.json_shape import other_than, shape

SOURCE = """
  events:
    kafka: {topic: events}
    format: json
    schema: page STRING, type STRING, amount DOUBLE, n BIGINT, ts TIMESTAMP, items ARRAY<INT>
    time: {column: ts, watermark: 5 seconds}
"""
FLAT = SOURCE.replace(", items ARRAY<INT>", "")
STEPS = """
  doubled: {from: events, with: {twice: amount * 2, kind: lower(type)}}
  renamed: {from: doubled, rename: {twice: double}}
  shown: {from: renamed, filter: kind <> 'view' and double > 1}
  large: {from: shown, filter: sqrt(double) > 2}
  per_page: {from: large, aggregate: {by: page, window: {tumbling: 10 seconds}, compute: {n: count(*)}}}
"""
SINK = "\n  out: {from: per_page, console: {}}\n"


def planned(
    steps: str = STEPS, source: str = SOURCE, sink: str = SINK, more: str = "", goal: str = "throughput"
) -> Plan:
    report = check(resolve(flowfile.read(f"flow: f\ngoal: {goal}\n{more}sources:{source}steps:{steps}sinks:{sink}")))
    assert report.errors == (), "\n".join(map(str, report.errors))
    return plan(report.flow)


def stage(**given: str) -> Stage:
    (made,) = planned(**given).stages
    return made


def test_filters_are_followed_through_the_columns_made_before_them() -> None:
    made = stage()
    assert made.columns == (("page", "string"), ("type", "string"), ("amount", "double"), ("ts", "timestamp"))
    assert made.drops == ("shown",)
    assert [link.step for link in made.links] == ["doubled", "renamed", "shown"]
    assert (made.border, made.why) == ("large", "sqrt is not among the functions that are moved")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"more": "spark: {spark.headrace.vectorised: 'false'}\n"}, "it is switched off"),
        ({"goal": "{latency: 10 s}"}, "its Python workers take time to start; `goal: throughput` asks for it"),
        (
            {"more": "spark: {spark.sql.session.timeZone: Europe/Paris}\n"},
            "times without a zone are not UTC here",
        ),
        ({"source": SOURCE.replace("format: json", "format: csv")}, "it is for json, not csv"),
        (
            {"steps": STEPS.replace("count(*)", "max(size(items))")},
            'column "items" is array<int>, which is not read natively',
        ),
    ],
)
def test_why_a_source_is_decoded_by_spark(given: dict[str, str], why: str) -> None:
    made = stage(**given)
    assert (made.columns, made.why) == ((), why)


def test_a_source_with_rules_is_decoded_natively_but_nothing_of_it_is_dropped() -> None:
    made = stage(source=SOURCE + "    expect: amount > 0\n")
    assert made.columns
    assert made.links == ()
    assert made.why == "the source has rules, which Spark holds against every record"


def test_what_two_steps_read_is_dropped_for_neither() -> None:
    two = """
  shown: {from: events, filter: type <> 'view'}
  hidden: {from: events, filter: type = 'view'}
  both: {from: [shown, hidden], union: {}}
"""
    made = stage(steps=two, sink="\n  out: {from: both, console: {}}\n", source=FLAT)
    assert (made.drops, made.why) == ((), '2 steps read "events"')


def test_a_filter_behind_what_each_batch_is_shared_at_stays() -> None:
    sinks = "\n  all: {from: events, console: {}}\n  some: {from: shown, console: {}}\n"
    made = stage(steps="\n  shown: {from: events, filter: n > 1}\n", sink=sinks, source=FLAT)
    assert made.columns
    assert (made.drops, made.border, made.why) == ((), "", "the sinks follow")


def test_explain_shows_the_border() -> None:
    made = planned()
    (said,) = explain(made)["stages"]
    assert said["engine"] == "polars"
    assert (said["drops"], said["border"]) == (["shown"], "large")
    assert "from large on, because sqrt is not among the functions that are moved" in text(made)


def batch(values: list[bytes | None], arrived: datetime) -> pa.RecordBatch:
    times = pa.array([arrived] * len(values), pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), "arrival": times})


def test_what_is_left_out_is_told_at_the_end_and_what_is_odd_goes_on() -> None:
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    stamp = pa.timestamp("us", "UTC")
    schema = pa.schema([("type", pa.string()), ("ts", stamp), ("value", pa.binary()), (SPILLED, pa.bool_())])
    schema = schema.append(pa.field("arrival", stamp)).append(pa.field(f"{LEFT}0", pa.int64()))
    todo = Work(
        columns=(("type", "string"), ("ts", "timestamp")),
        carried=("arrival",),
        links=(((), ("ne", ("column", "type"), ("literal", "string", "view"))),),
        believed=Believed(column="ts", arrival="arrival", ahead=3_600_000_000),
        newest="ts",
    )
    odd: list[bytes | None] = [b'{"type": 5}', None, b"", b'{"type": "view", "type": "buy"}']
    plain: list[bytes | None] = [
        json.dumps({"type": kind, "ts": ts}).encode()
        for kind, ts in [
            ("view", "2024-01-01T00:00:01Z"),
            ("buy", "2024-01-01T00:00:02Z"),
            ("view", "2024-01-01T00:00:03Z"),
            ("view", None),  # without a time it is a dead letter, whatever its type
            ("view", "2024-01-01T02:00:00Z"),  # too far ahead to be believed
            (None, "2024-01-01T00:00:02Z"),  # null is no
        ]
    ]
    made = pa.Table.from_batches(run(iter([batch(odd, moment), batch(plain, moment)]), todo, schema)).to_pylist()

    assert [row["value"] for row in made if row[SPILLED]] == odd
    kept = [(row["type"], row["value"]) for row in made if not row[SPILLED]]
    assert kept == [("buy", None), ("view", None), ("view", None), (None, None)]
    assert made[-1] == {
        "type": None,
        "ts": datetime(2024, 1, 1, 0, 0, 3, tzinfo=UTC),
        "value": None,
        SPILLED: False,
        "arrival": None,
        f"{LEFT}0": 3,
    }


def test_a_worker_without_the_engine_hands_on_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_work, "engine", lambda: None)
    schema = pa.schema([("type", pa.string()), ("value", pa.binary()), (SPILLED, pa.bool_())])
    todo = Work(columns=(("type", "string"),), carried=())
    values = [b'{"type": "view"}', None]
    made = pa.Table.from_batches(run(iter([batch(values, datetime.now(UTC))]), todo, schema)).to_pylist()
    assert made == [{"type": None, "value": value, SPILLED: True} for value in values]


def test_every_order_of_the_fields_is_learnt_up_to_a_few() -> None:
    columns = tuple((name, "int") for name in "abc")
    known = Orders(columns)
    assert known.learn('{"b": 1, "x": {"c": 1}, "a": 2}') is not None
    assert known.learn('{"b": 1, "a": 2}') is None
    assert list(known.shapes) == [("b", "a", "c")]
    assert known.learn("[1]") is None
    orders: list[Any] = [["c", "b"], ["a"], ["c", "a"], ["b", "c", "a"]]
    assert [known.learn(json.dumps(dict.fromkeys(o, 1))) is not None for o in orders] == [True, True, True, False]


def test_rows_of_several_orders_are_all_read() -> None:
    columns = (("a", "int"), ("b", "string"))
    values = [b'{"a":1,"b":"x"}', b'{"b":"y","a":2}', b'{"b":"z"}', b'{"a":"3"}', b"[]"]
    for _ in range(3):  # one order is learnt from each batch
        sure, frame = decode(pa.array(values), columns)
    assert sure.to_list() == [True, True, True, False, False]
    assert frame.rows() == [(1, "x"), (2, "y"), (None, "z"), (None, None), (None, None)]


def test_the_expression_of_a_shape_is_one_pythons_engine_reads_too() -> None:
    made = shape([("a.b", "int"), ("é", "string")])
    assert made is not None
    for value, fits in [
        ('{"a.b":1}', True),
        ('{"axb":{"y":[1]},"é":"\\n"}', True),
        ('{"a.b":1,"a.b":1}', False),
    ]:
        assert (re.search(made, value) is not None) is fits, value
    assert shape([(f"column_{n}", "timestamp") for n in range(200)]) is None
    assert re.fullmatch(other_than(["ab"]), "ab") is None
