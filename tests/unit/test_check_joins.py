"""What `check` says about joins, tables and bounds, and what the planner makes of them."""

from __future__ import annotations

import pytest

from headrace.check import check
from headrace.compile.planner import plan
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.errors import Problem
from headrace.model import Delivery, Port

FLOW = """\
flow: joins
sources:
  orders:
    values: {{rows: []}}
    schema: id BIGINT, product STRING, amount DOUBLE, at TIMESTAMP
    time: {{column: at, watermark: 10 seconds}}
  payments:
    values: {{rows: []}}
    schema: order_id BIGINT, amount DOUBLE, at TIMESTAMP
    time: {{column: at, watermark: 10 seconds}}
  untimed:
    values: {{rows: []}}
    schema: order_id BIGINT, fee DOUBLE
  products:
    values: {{rows: []}}
    schema: product STRING, name STRING
    table: {table}
steps:
  made:
    from: {inputs}
    {step}
{more}
sinks:
  out: {{from: {last}, console: {{}}}}
"""


def text_of(
    step: str, inputs: str = "[orders, payments]", more: str = "", last: str = "made", table: str = "true"
) -> str:
    return FLOW.format(step=step, inputs=inputs, more=more, last=last, table=table)


def problems(text: str) -> list[Problem]:
    found = check(resolve(flowfile.read(text, "flow.yaml"))).problems
    return [p for p in found if p.code != "unused"]


@pytest.mark.parametrize(
    ("step", "inputs", "code", "words"),
    [
        ("join: {on: {id: order_id}, prefix: p_}", "[orders, payments]", "state-unbounded", "without `within`"),
        ("join: {on: {id: order_id}, within: 1 m}", "[orders, payments]", "duplicate-name", '"amount"'),
        ("join: {on: {nr: order_id}, within: 1 m, prefix: p_}", "[orders, payments]", "unknown-column", '"nr"'),
        ("join: {on: {product: order_id}, within: 1 m, prefix: p_}", "[orders, payments]", "type-mismatch", "bigint"),
        ("join: {on: {id: order_id}, within: 1 m}", "[orders, untimed]", "no-watermark", "second input"),
        ("join: {on: product, within: 1 m}", "[orders, products]", "bad-option", "table has no time"),
        ("join: {on: product, kind: full}", "[orders, products]", "bad-option", "full join"),
        ("join: {on: product}", "[products, orders]", "unsupported", "first input is a table"),
        ("join: {on: []}", "[orders, payments]", "bad-option", "no columns"),
        ("join: {on: id}", "orders", "bad-option", "takes 2"),
        ("as_of: {on: product}", "[orders, products]", "unsupported", "no time"),
        ("as_of: {on: {id: order_id}, prefix: p_}", "[orders, payments]", "state-unbounded", "for ever"),
        ("union: {}", "[orders, products]", "unsupported", "is a table"),
        ("distinct: {by: order_id, within: 1 m}", "untimed", "no-watermark", "event time"),
        ("distinct: {by: id, within: 0 s}", "orders", "bad-option", "longer than nothing"),
        ("lookup: {on: id, take: name STRING}", "orders", "bad-option", "either sqlite or postgresql"),
        ("lookup: {sqlite: {path: a, table: t}, on: amount, take: n INT}", "orders", "type-mismatch", "looked up"),
        ("lookup: {sqlite: {path: a, table: t}, on: id, take: 'at INT'}", "orders", "duplicate-name", '"at"'),
        ("lookup: {sqlite: {path: a, table: t}, on: id, take: 'a ARRAY<INT>'}", "orders", "unsupported", "array"),
        ("lookup: {sqlite: {path: a, table: t}, on: id, take: 'name'}", "orders", "bad-schema", "name"),
    ],
)
def test_what_cannot_work_is_named(step: str, inputs: str, code: str, words: str) -> None:
    found = problems(text_of(step, inputs))
    assert [p for p in found if p.code == code and words in str(p)], "\n".join(map(str, found))


@pytest.mark.parametrize(
    ("step", "inputs"),
    [
        ("join: {on: {id: order_id}, within: 1 m, prefix: p_}", "[orders, payments]"),
        ("join: {on: product}", "[orders, products]"),
        ("as_of: {on: {id: order_id}, tolerance: 5 s, prefix: p_}", "[orders, payments]"),
        ("distinct: {by: id, within: 10 minutes}", "orders"),
        ("lookup: {sqlite: {path: a, table: t}, on: {id: nr}, take: name STRING}", "orders"),
    ],
)
def test_what_is_bounded_needs_no_warning(step: str, inputs: str) -> None:
    assert problems(text_of(step, inputs)) == []


def test_a_table_alone_brings_nothing() -> None:
    found = problems(text_of("filter: name IS NOT NULL", "products"))
    assert [(p.code, p.step) for p in found] == [("unsupported", "out")]


def test_a_table_that_is_read_again_stays_out_of_the_streaming_part() -> None:
    text = text_of("join: {on: product}", "[orders, products]", table="{refresh: 1 minute}")
    (query,) = plan(resolve(flowfile.read(text)).flow).queries
    assert (query.trunk, query.sources) == (Port("orders"), ("orders",))


def test_a_table_that_is_read_again_cannot_stand_before_a_step_that_remembers() -> None:
    more = "  counted: {from: made, aggregate: {by: name, window: {tumbling: 1 m}, compute: {n: count(*)}}}"
    text = text_of("join: {on: product}", "[orders, products]", more, "counted", "{refresh: 1 minute}")
    (problem,) = problems(text)
    assert (problem.code, problem.step) == ("unsupported", "made")
    assert "lookup" in problem.hint
    assert problems(text.replace("{refresh: 1 minute}", "true")) == []


def test_a_table_has_no_watermark_and_only_columns_it_has() -> None:
    text = text_of("join: {on: product}", "[orders, products]", table="{key: product, latest_by: version}")
    assert [p.code for p in problems(text)] == ["unknown-column"]
    text = text_of("join: {on: product}", "[orders, products]", table="{key: product}")
    assert "missing-option" in [p.code for p in problems(text)]


@pytest.mark.parametrize(
    ("step", "inputs", "products", "meets"),
    [
        ("join: {on: product}", "[orders, products]", "files: {path: products}", 'table "products"'),
        ("lookup: {sqlite: {path: a, table: t}, on: id, take: n INT}", "orders", "", 'what step "made" looks up'),
        ("join: {on: product}", "[orders, products]", "", ""),
    ],
)
def test_exactly_once_says_what_a_repeated_batch_may_find_changed(
    step: str, inputs: str, products: str, meets: str
) -> None:
    text = text_of(step, inputs).replace("console: {}", "sqlite: {path: out.db, table: t}")
    if products:
        text = text.replace("  products:\n    values: {rows: []}", f"  products:\n    {products}\n    format: json")

    (promise,) = plan(check(resolve(flowfile.read(text, "flow.yaml"))).flow).promises

    assert promise.delivery is Delivery.EXACTLY_ONCE
    assert promise.because.endswith(f"meets {meets} as it is then" if meets else "is recognised")
