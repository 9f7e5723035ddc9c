"""Answers that are replaced by newer ones: the key a sink needs, and what may not be left out on the way."""

from __future__ import annotations

import pytest

from headrace.check import check
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.errors import Problem

FLOW = """\
flow: changing
sources:
  rows:
    kafka: {{topic: rows}}
    format: json
    schema: k STRING, name STRING, x BIGINT, at TIMESTAMP
    time: {{column: at, watermark: 5 s}}
steps:
  counted:
    from: rows
    aggregate: {{by: {by}, {window} compute: {{n: count(*), mean: avg(x), least: min(x)}}}}
  behind: {{from: counted, {behind}}}
sinks:
  out: {{from: behind, {sink}}}
"""
CHANGES, CORRECT = (
    "window: {tumbling: 10 s}, emit: changes,",
    "window: {hopping: 10 s, every: 5 s}, emit: changes, late: correct, allowance: 1 h,",
)
FINAL = "window: {tumbling: 10 s},"


def problems(window: str, sink: str, *, by: str = "k", behind: str = "drop: least") -> list[Problem]:
    text = FLOW.format(window=window, sink=sink, by=by, behind=behind)
    return [p for p in check(resolve(flowfile.read(text, "flow.yaml"))).problems if p.code != "state-unbounded"]


def table(key: str, more: str = "") -> str:
    return f"sqlite: {{path: t.db, table: t, key: {key}{more}}}"


@pytest.mark.parametrize(
    ("window", "sink", "more", "missing"),
    [
        (CHANGES, table("k"), {}, "window_start"),
        (CORRECT, table("[k, n]"), {}, "window_start"),
        (CHANGES, table("window_end"), {}, "k"),
        (CHANGES, table("k"), {"behind": "select: [k, n]"}, "window_start"),
        (CHANGES, table("key"), {"behind": "rename: {window_start: since, k: key}"}, "since"),
        ("", table("n"), {}, "k"),
    ],
)
def test_a_table_whose_key_lets_rows_replace_each_other_is_refused(
    window: str, sink: str, more: dict[str, str], missing: str
) -> None:
    found = problems(window, sink, **more)
    assert [(p.code, p.warning, p.step) for p in found] == [("bad-option", False, "out")]
    assert f'a key without "{missing}"' in found[0].message
    assert missing in found[0].hint


@pytest.mark.parametrize(
    ("window", "sink", "more"),
    [
        (CHANGES, table("[window_start, k]"), {}),
        (CHANGES, table("[k, window_end]"), {}),
        (CHANGES, table("id"), {"behind": "with: {id: \"concat_ws('|', k, window_start)\"}"}),
        (CHANGES, table("k", ", latest_by: window_start"), {}),
        (CHANGES, "console: {key: k}", {}),
        (CHANGES, table("[since, key]"), {"behind": "rename: {window_start: since, k: key}"}),
        (FINAL, table("k"), {}),
        ("", table("k"), {}),
        ("", table("[name, k]"), {"by": "[k, name]"}),
    ],
)
def test_a_key_that_tells_rows_apart_is_taken(window: str, sink: str, more: dict[str, str]) -> None:
    assert problems(window, sink, **more) == []


@pytest.mark.parametrize(
    ("window", "sink", "more"),
    [
        ("", table("k"), {"by": "[k, name]"}),  # a name may follow from a number
        (CHANGES, "kafka: {topic: t, key: k}", {}),  # a log keeps all
        (CHANGES, "kafka: {topic: t, key: k}", {"behind": "filter: mean > 3"}),
    ],
)
def test_what_may_be_meant_is_only_warned_of(window: str, sink: str, more: dict[str, str]) -> None:
    found = problems(window, sink, **more)
    assert found != []
    assert all(p.warning and p.hint for p in found)


@pytest.mark.parametrize(
    "behind",
    [
        "filter: mean > 5",
        "filter: n < 5",
        "filter: n > 5 AND mean > 3",
        "filter: least > 5",
        "explode: {each: 'sequence(1, n)', as: i}",
        "lookup: {sqlite: {path: p.db, table: p}, on: {n: id}, take: name STRING, kind: inner}",
    ],
)
def test_a_row_that_changes_may_not_be_left_out_behind_a_table(behind: str) -> None:
    for window in ("", CHANGES):
        found = problems(window, table("[window_start, k]" if window else "k"), behind=behind)
        assert [(p.code, p.step) for p in found] == [("unsupported", "behind")], behind
        assert "would keep the row as it was" in found[0].message


def test_a_row_that_changes_may_not_go_to_another_port() -> None:
    text = FLOW.format(window="", by="k", behind="split: {large: n > 3}", sink="console: {}")
    text = text.replace("from: behind", "from: behind.otherwise")
    text += f"  large: {{from: behind.large, {table('k')}}}\n"
    found = check(resolve(flowfile.read(text, "flow.yaml"))).errors
    assert [(p.code, p.step) for p in found] == [("unsupported", "behind")]


@pytest.mark.parametrize(
    ("window", "behind"),
    [
        ("", "filter: k <> 'x'"),
        ("", "filter: n > 3 AND k LIKE 'a%'"),  # a count only grows
        ("", "filter: 3 <= n OR least < 7"),
        (CHANGES, "filter: year(window_start) > 2000"),
        (FINAL, "filter: mean > 5"),
    ],
)
def test_a_row_that_stays_once_it_is_there_may_be_chosen(window: str, behind: str) -> None:
    assert problems(window, table("[window_start, k]" if window else "k"), behind=behind) == []
