"""The flow file and the Python API make the same value, and say the same things about mistakes."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from headrace import Flow, Stream, col, fn, hopping, tumbling
from headrace.catalogue import OPERATORS
from headrace.check import check, load
from headrace.declare import flowfile
from headrace.declare.load import declare
from headrace.declare.resolve import resolve
from headrace.declare.write import rewrite, write
from headrace.errors import FlowError, UsageError
from headrace.model import Flow as FlowValue
from headrace.model import Port
from headrace.operators.batches import complete
from headrace.operators.bolt import Counted
from headrace.processor import numbered

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

EVERYTHING = """\
flow: everything
description: Each operator once.
spark: {spark.sql.shuffle.partitions: 4}

sources:
  orders:  # comes from the shop
    kafka: {topic: orders, metadata: [key]}
    format: json
    schema: id BIGINT, user STRING, price DOUBLE, quantity INT, tags ARRAY<STRING>, at TIMESTAMP
    time: {column: at, watermark: 10 seconds}
  more:
    kafka: {topic: more, metadata: [key]}
    format: json
    schema: id BIGINT, user STRING, price DOUBLE, quantity INT, tags ARRAY<STRING>, at TIMESTAMP
    time: {column: at, watermark: 10 seconds}
  people:
    files: people
    format: json
    schema: user STRING, name STRING
    table: {refresh: 1 minute}

steps:
  all:
    from: [orders, more]
    union: {}
  priced:
    from: all
    with: {total: price * quantity}
  known:
    from: priced
    filter: user IS NOT NULL
  tagged:
    from: known
    explode: {each: tags, as: tag}
  renamed:
    from: tagged
    rename: {user: customer}
  slim:
    from: renamed
    drop: [price, quantity, tags, kafka_key]
  cleaned:
    from: slim
    map: {id: id, customer: lower(customer), tag: tag, total: total, at: at}
  once:
    from: cleaned
    distinct: [id, tag]
  few:
    from: once
    limit: {rows: 3, by: customer}
  sizes:
    from: few
    split: {large: total > 100, small: total > 0}
  per_tag:
    from: sizes.large
    aggregate:
      by: tag
      window: {hopping: 1 minute, every: 10 seconds}
      compute: {n: count(*), total: sum(total)}
  letters:
    from: sizes.small
    flat_map: {each: "split(tag, '')", as: letter}
  chosen:
    from: sizes.otherwise
    select: [id, upper(tag) AS tag]
  people_again:
    from: orders
    select: user
  per_user:
    from: people_again
    bolt:
      python: headrace.operators.bolt:Counted
      grouping: {fields: user}
      parallelism: 2
  numbered:
    from: chosen
    process:
      python: headrace.processor:numbered
      by: tag
      state: n BIGINT
      returns: id BIGINT, tag STRING, number BIGINT
      ttl: 1 day
  whole:
    from: numbered
    map_batches:
      python: headrace.operators.batches:complete
      returns: id BIGINT, tag STRING, number BIGINT
      as: arrow
  pairs:
    from: [orders, more]
    join: {on: id, within: {before: 5 seconds, after: 10 minutes}, kind: left, prefix: second_}
  last:
    from: [orders, more]
    as_of: {on: {user: user, id: quantity}, tolerance: 5 seconds, prefix: second_}
  named:
    from: [pairs, people]
    join: {on: user, kind: left}
  found:
    from: last
    lookup:
      sqlite: {path: shop.db, table: products}
      on: {id: nr}
      take: name STRING
      cache: {rows: 10, age: 1 second}

sinks:
  users:
    from: per_user
    console: {}
  names:
    from: named
    console: {}
  rows:
    from: found
    console: {}
  table:
    from: per_tag
    sqlite: {path: out.db, table: tags, key: [window_start, tag]}
  screen:
    from: letters
    console: {}
  archive:
    from: whole
    files: {path: out}
    format: json
    delivery: exactly-once
"""


def in_python() -> Flow:
    flow = Flow("everything", description="Each operator once.", spark={"spark.sql.shuffle.partitions": 4})
    schema = "id BIGINT, user STRING, price DOUBLE, quantity INT, tags ARRAY<STRING>, at TIMESTAMP"
    time = {"column": "at", "watermark": "10 s"}
    orders, more = (
        flow.source(topic, "kafka", topic=topic, metadata=["key"], format="json", schema=schema, time=time)
        for topic in ("orders", "more")
    )
    people = flow.source(
        "people",
        "files",
        path="people",
        format="json",
        schema="user STRING, name STRING",
        table={"refresh": "60 s"},
    )
    cleaned = (
        orders.union("all", more)
        .with_("priced", total=col("price") * col("quantity"))
        .filter("known", col("user").is_not_null())
        .explode("tagged", "tags", as_="tag")
        .rename("renamed", user="customer")
        .drop("slim", "price", "quantity", "tags", "kafka_key")
        .map("cleaned", id=col("id"), customer=fn.lower(col("customer")), tag="tag", total="total", at="at")
    )
    sizes = (
        cleaned.distinct("once", "id", "tag")
        .limit("few", 3, by="customer")
        .split("sizes", large="total > 100", small="total > 0")
    )
    per_tag = sizes.large.aggregate(
        "per_tag", by="tag", window=hopping("1 minute", every="10 seconds"), n="count(*)", total="sum(total)"
    )
    letters = sizes.small.flat_map("letters", each=fn.split(col("tag"), ""), as_="letter")
    chosen = sizes["otherwise"].select("chosen", "id", "upper(tag) AS tag")
    returns = "id BIGINT, tag STRING, number BIGINT"
    users = orders.select("people_again", "user")
    users.bolt("per_user", Counted, grouping={"fields": "user"}, parallelism=2).sink("users", "console")
    counted = chosen.process("numbered", numbered, by="tag", state="n BIGINT", returns=returns, ttl="1 day")
    whole = counted.map_batches("whole", complete, returns=returns, as_="arrow")
    interval = {"before": "5 s", "after": "10 min"}
    pairs = orders.join("pairs", more, on="id", within=interval, kind="left", prefix="second_")
    on = {"user": "user", "id": "quantity"}
    last = orders.as_of("last", more, on=on, tolerance="5 s", prefix="second_")
    pairs.join("named", people, on=["user"], kind="left").sink("names", "console")
    last.lookup(
        "found",
        sqlite={"path": "shop.db", "table": "products"},
        on={"id": "nr"},
        take="name STRING",
        cache={"rows": 10, "age": "1 s"},
    ).sink("rows", "console")
    per_tag.sink("table", "sqlite", path="out.db", table="tags", key=["window_start", "tag"])
    letters.sink("screen", "console")
    whole.sink("archive", "files", path="out", format="json", delivery="exactly-once")
    return flow


def from_text(text: str) -> FlowValue:
    declared = resolve(flowfile.read(text, "flow.yaml"))
    assert declared.problems == ()
    return declared.flow


def test_a_flow_file_and_python_calls_give_equal_flows() -> None:
    assert from_text(EVERYTHING) == in_python().build()


def test_every_operator_is_in_the_flow_that_is_compared() -> None:
    from headrace.catalogue import OPERATORS

    assert {step.operator for step in from_text(EVERYTHING).steps} == set(OPERATORS)


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_and_every_option_of_it_is_in_the_python_api(name: str) -> None:
    method = getattr(Stream, {"with": "with_"}.get(name, name), None)
    assert method is not None, f"Stream has no method {name!r}"
    assert (method.__doc__ or "").strip(), "completion shows what it is"
    signature = inspect.signature(method)
    assert all(p.annotation is not p.empty for p in list(signature.parameters.values())[1:])
    free = {p.kind for p in signature.parameters.values()} & {
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    }
    spelled = {"python": "function", "as": "as_", "other": "others"}
    for option, field in OPERATORS[name].model_fields.items():
        word = field.alias or option
        given = spelled.get(word, word) in signature.parameters
        assert given or (free and (word == OPERATORS[name].shorthand or word in ("by", "columns", "into"))), word


def test_a_stream_by_key_and_a_part_by_its_name() -> None:
    def totals(spelled: str) -> FlowValue:
        flow = Flow("f")
        orders = flow.source("orders", "generator", kind="orders", time={"column": "at", "watermark": "1 s"})
        if spelled == "plain":
            orders.aggregate("n", by=["customer"], window=tumbling("1 minute"), n="count(*)").sink("s", "console")
            orders.limit("few", 2, by="customer").sink("t", "console")
        else:
            keyed = getattr(flow["orders"], spelled)("customer")
            keyed.window(tumbling("1 minute")).agg("n", n="count(*)").sink("s", "console")
            keyed.limit("few", 2).sink("t", "console")
        return flow.build()

    assert totals("key_by") == totals("group_by") == totals("plain")
    flow = Flow("f")
    orders = flow.source("orders", "generator", kind="orders")
    with pytest.raises(UsageError, match='has no source or step "order"'):
        flow["order"]
    with pytest.raises(UsageError, match="does not go by windows"):
        orders.key_by("customer").window(tumbling("1 s")).limit("few", 2)


def test_a_sub_flow_can_be_used_twice_and_within_another() -> None:
    def large(stream: Stream, least: int) -> Stream:
        return stream.filter("large", f"amount > {least}")

    def known(stream: Stream, *, least: int = 1) -> tuple[Stream, Stream]:
        sizes = stream.filter("known", "customer IS NOT NULL").split("sizes", big="amount > 50")
        return sizes.big.through(large, "inner", least), sizes.otherwise

    flow = Flow("f")
    orders = flow.source("orders", "generator", kind="orders")
    big, rest = orders.through(known, "web", least=70)
    orders.through(large, "shop", 5).sink("one", "console")
    big.sink("two", "console")
    rest.sink("three", "console")

    made = flow.build()

    assert [step.name for step in made.steps] == ["web_known", "web_sizes", "web_inner_large", "shop_large"]
    assert [str(port) for port in made["three"].inputs] == ["web_sizes.otherwise"]
    assert [str(port) for port in made["web_inner_large"].inputs] == ["web_sizes.big"]
    assert check(made).errors == ()


def test_a_flow_written_out_and_read_again_is_equal() -> None:
    flow = from_text(EVERYTHING)
    assert from_text(write(flow)) == flow


def test_a_rewrite_keeps_comments_and_changes_only_what_differs() -> None:
    flow = from_text(EVERYTHING)
    few = from_text(EVERYTHING.replace("rows: 3", "rows: 5"))
    rewritten = rewrite(few, EVERYTHING)
    changed = [(a, b) for a, b in zip(EVERYTHING.splitlines(), rewritten.splitlines(), strict=True) if a != b]
    assert changed == [("    limit: {rows: 3, by: customer}", "    limit: {rows: 5, by: customer}")]
    assert from_text(rewritten) == few
    assert rewrite(flow, EVERYTHING) == EVERYTHING


def test_a_rewrite_adds_and_removes_entries() -> None:
    small = replace(from_text(EVERYTHING), steps=(), sinks=(), description="")
    rewritten = rewrite(small, EVERYTHING)
    assert "# comes from the shop" in rewritten
    assert from_text(rewritten) == small
    assert from_text(rewrite(from_text(EVERYTHING), rewritten)) == from_text(EVERYTHING)


@pytest.mark.parametrize(
    ("yaml", "python"),
    [
        ("drivers-hours/flow.yaml", "drivers-hours/in_python.py"),
        ("word-count/from-file.yaml", "word-count/from_file.py"),
        ("word-count/from-topic.yaml", "word-count/from_topic.py"),
        ("tweets-last-ten-seconds/flow.yaml", "tweets-last-ten-seconds/in_python.py"),
        ("web-sessions/flow.yaml", "web-sessions/in_python.py"),
    ],
)
def test_the_two_forms_of_an_example_are_equal(yaml: str, python: str) -> None:
    assert load(EXAMPLES / yaml) == load(EXAMPLES / python)


def test_a_problem_of_a_call_is_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(
        "from headrace import Flow\n"
        "flow = Flow('wrong')\n"
        "orders = flow.source('orders', 'generator', kind='orders')\n"
        "(\n"
        "    orders.filter('large', 'amuont > 3')\n"
        "    .sink('screen', 'console', colour='red')\n"
        ")\n"
    )
    problems = check(declare(file, shown="wrong.py")).problems
    assert [(p.code, str(p.location)) for p in problems] == [
        ("unknown-column", "wrong.py:5"),
        ("unknown-option", "wrong.py:6"),
    ]


def test_python_that_fails_is_a_problem_at_the_line_that_failed(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("x = 1\ny = x / 0\n")
    with pytest.raises(FlowError) as raised:
        load(file, shown="broken.py")
    problem = raised.value.problems[0]
    assert (problem.code, str(problem.location)) == ("bad-python", "broken.py:2")


def test_ports_are_read_by_name() -> None:
    flow = from_text(EVERYTHING)
    assert flow["per_tag"].inputs == (Port("sizes", "large"),)


def test_windows_can_be_written_as_values() -> None:
    flow = Flow("w")
    source = flow.source("s", "generator", kind="orders", time="at")
    source.aggregate("a", window=tumbling("90 s"), n="count(*)").sink("out", "console")
    other = Flow("w")
    source = other.source("s", "generator", kind="orders", time={"column": "at"})
    source.aggregate("a", window={"tumbling": "1m 30s"}, compute={"n": "count( * )"}).sink("out", "console")
    assert flow.build() == other.build()
