"""`expect`: rules read from a flow file and from Python, checked with their places."""

from __future__ import annotations

from pathlib import Path

from headrace import Flow
from headrace.check import check
from headrace.compile.explain import text
from headrace.compile.planner import plan
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.declare.write import write
from headrace.model import Port

FLOW = """\
flow: rules
dead_letters: {per_minute: 50}
sources:
  orders:
    kafka: orders
    format: json
    schema: id BIGINT, user STRING, amount DOUBLE, at TIMESTAMP
    expect:
      rules:
        - {column: [id, user], not_null: true}
        - {column: amount, min: 0, max: 99.5, name: sane}
        - {column: user, matches: "\\\\p{Lower}+", in: [ann, bob], else: stop}
        - {column: at, min: "2024-01-01"}
        - amount > 0 OR id < 10
      else: drop
steps:
  large:
    from: orders
    filter: amount > 10
    expect: amount < 1000
sinks:
  out:
    from: large
    files: out
  bad:
    from: large.dead_letter
    files: bad
"""


def problems(text: str) -> list[tuple[str, int, int]]:
    found = check(resolve(flowfile.read(text, "flow.yaml"))).problems
    return [(p.code, p.location.line, p.location.column) for p in found]


def test_rules_mean_the_same_in_a_flow_file_and_in_python() -> None:
    flow = Flow("rules", dead_letters={"per_minute": 50})
    orders = flow.source(
        "orders",
        "kafka",
        topic="orders",
        format="json",
        schema="id BIGINT, user STRING, amount DOUBLE, at TIMESTAMP",
        expect={
            "rules": [
                {"column": ["id", "user"], "not_null": True},
                {"column": "amount", "min": 0, "max": 99.5, "name": "sane"},
                {"column": "user", "matches": "\\p{Lower}+", "in": ["ann", "bob"], "else": "stop"},
                {"column": "at", "min": "2024-01-01"},
                "amount > 0 OR id < 10",
            ],
            "else": "drop",
        },
    )
    large = orders.filter("large", "amount > 10").expect("amount < 1000")
    large.sink("out", "files", path="out")
    large.dead_letter.sink("bad", "files", path="bad")
    read = resolve(flowfile.read(FLOW))
    assert not check(read).errors
    assert flow.build() == read.flow
    assert resolve(flowfile.read(write(read.flow))).flow == read.flow


def test_rules_are_checked_with_their_places() -> None:
    assert problems(FLOW) == []
    assert problems(FLOW.replace("column: amount", "column: amounts")) == [("unknown-column", 11, 20)]
    assert problems(FLOW.replace("min: 0", "min: low")) == [("type-mismatch", 11, 33)]
    assert problems(FLOW.replace("in: [ann, bob]", "in: [1]")) == [("type-mismatch", 12, 54)]
    assert problems(FLOW.replace('"2024-01-01"', '"a while ago"')) == [("type-mismatch", 13, 30)]
    assert problems(FLOW.replace("OR id < 10", "OR ix < 10")) == [("unknown-column", 14, 25)]
    assert problems(FLOW.replace("amount < 1000", "amount + 1")) == [("type-mismatch", 20, 13)]
    assert problems(FLOW.replace("Lower}+", "Lower}+(")) == [("bad-option", 12, 11)]
    assert problems(FLOW.replace("else: stop", "else: explode")) == [("bad-option", 12, 72)]
    assert problems(FLOW.replace(", not_null: true", "")) == [("missing-option", 10, 11)]
    assert problems(FLOW.replace("per_minute: 50", "per_minutes: 50")) == [("unknown-option", 2, 16)]
    assert problems(FLOW.replace("from: large\n    files", "from: large.dead_letter\n    files"))[0][0] == "unused"


def test_rules_that_cannot_keep_letters_between_steps_that_remember_are_refused() -> None:
    behind = FLOW.replace(
        "sinks:",
        """  first:
    from: large
    distinct: id
    expect: id > 0
  second:
    from: first
    limit: {rows: 3, by: user}
sinks:
  more:
    from: second
    files: more
""",
    )
    assert [p[0] for p in problems(behind) if p[0] != "state-unbounded"] == ["unsupported"]
    assert [p[0] for p in problems(behind.replace("expect: id > 0", "expect: {rules: id > 0, else: drop}"))] == [
        "state-unbounded",
        "state-unbounded",
    ]


def test_the_plan_says_where_bad_records_go() -> None:
    made = plan(resolve(flowfile.read(FLOW)).flow)
    said = text(made)
    for line in (
        "rule     id, user: not null; else drop",
        "rule     amount: min 0; max 99.5 (sane); else drop",
        "rule     amount > 0 OR id < 10; else drop",
        "bad      records that cannot be read: the run's home",
        "bad      records that break a rule: sink bad and the run's home",
    ):
        assert line in said, said
    [query] = made.queries
    assert (query.sinks, query.letters, query.owned) == (("out",), ("bad",), ("orders", "large"))


def test_a_step_that_may_reject_behind_state_stays_out_of_the_stream() -> None:
    flow = FLOW.replace("filter: amount > 10", "distinct: id")
    [query] = plan(resolve(flowfile.read(flow)).flow).queries
    assert query.trunk == Port("large")
    behind = flow.replace("sinks:", "  small:\n    from: large\n    filter: amount < 5\nsinks:").replace(
        "from: large\n    files", "from: small\n    files"
    )
    [query] = plan(resolve(flowfile.read(behind)).flow).queries
    assert query.trunk == Port("large")
    [query] = plan(resolve(flowfile.read(behind.replace("    expect: amount < 1000\n", ""))).flow).queries
    assert query.trunk == Port("small")


def test_the_page_of_bad_inputs_is_what_the_list_says() -> None:
    from tests.bad_inputs import INPUTS, markdown

    page = Path(__file__).resolve().parents[2] / "docs" / "bad-inputs.md"
    assert page.read_text(encoding="utf-8") == markdown(), "python -m tests.bad_inputs docs/bad-inputs.md"
    assert sum(map(len, INPUTS.values())) >= 40
