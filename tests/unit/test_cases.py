"""Cases as they are written: read with their problems, compared with a difference one can read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headrace.check import load
from headrace.declare.convert import convert
from headrace.errors import FlowError, UsageError
from headrace.model import Flow, Schema
from headrace.testing.cases import read_cases, read_input
from headrace.testing.compare import difference
from headrace.testing.find import cases_of, flows_at, flows_in

FLOW = """\
flow: small
sources:
  orders:
    generator: {kind: orders, limit: 10}
sinks:
  screen:
    from: orders
    console: {}
"""


@pytest.fixture
def flow(tmp_path: Path) -> tuple[Path, Flow]:
    file = tmp_path / "small.yaml"
    file.write_text(FLOW)
    return file, load(file)


def problems_of(file: Path, flow: Flow, text: str) -> list[str]:
    cases_of(file).write_text(text)
    with pytest.raises(FlowError) as raised:
        read_cases(cases_of(file), flow)
    assert {p.code for p in raised.value.problems} <= {"bad-case", "bad-yaml", "duplicate-name"}
    return [p.message for p in raised.value.problems]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cases: []", "cases"),
        ("cases:\n  - name: a", "cases.0.given"),
        ("cases:\n  - {name: a, given: {orders: []}, expect: {screen: []}, colour: red}", "cases.0.colour"),
        ("cases:\n  - {name: a, given: {oders: [], orders: []}, expect: {}}", 'no source "oders"'),
        ("cases:\n  - {name: a, given: {orders: []}, expect: {table: []}}", 'no sink "table"'),
        ("cases:\n  - {name: a, given: {}, expect: {}}", 'gives nothing to source "orders"'),
        ("cases:\n  - {name: a, given: {orders: []}, expect: {}, mode: slow}", "cases.0.mode"),
        ("cases: [", "YAML"),
    ],
)
def test_what_is_wrong_with_cases_is_said(flow: tuple[Path, Flow], text: str, said: str) -> None:
    assert any(said in message for message in problems_of(*flow, text))


def test_a_case_has_a_clock_and_a_mode(flow: tuple[Path, Flow]) -> None:
    file, value = flow
    cases_of(file).write_text(
        "cases:\n  - {name: a, given: {orders: []}, expect: {}, clock: 2026-02-03T04:05:06Z, mode: batch}\n"
    )
    [case] = read_cases(cases_of(file), value)
    assert (case.clock, case.mode) == (datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC), "batch")


def test_inputs_are_lists_batches_or_files(tmp_path: Path) -> None:
    cases = tmp_path / "f.cases.yaml"
    (tmp_path / "in.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    (tmp_path / "in.csv").write_text("id,user\n1,ann\n")
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    assert read_input([{"id": 1}], cases).records == ({"id": 1},)
    assert read_input({"batches": [[1], [2, 3]]}, cases).batches == ((1,), (2, 3))
    assert read_input({"file": "in.jsonl"}, cases).records == ({"id": 1}, {"id": 2})
    assert read_input({"file": "in.csv"}, cases).records == ({"id": "1", "user": "ann"},)
    assert read_input({"file": "in.txt"}, cases).raw
    (tmp_path / "cut.jsonl").write_text('{"id": ')
    (tmp_path / "one.json").write_text("3")
    (tmp_path / "latin.txt").write_bytes(b"\xe9")
    for wrong in ("text", {"fiel": "x"}, *({"file": f} for f in ("missing.txt", "cut.jsonl", "one.json", "latin.txt"))):
        with pytest.raises(FlowError):
            read_input(wrong, cases)


def test_a_difference_is_a_table_of_what_is_missing_and_what_is_too_much() -> None:
    schema = Schema.parse("user STRING, n BIGINT, at TIMESTAMP")
    expected = [{"user": "ann", "n": 2}, {"user": "bob", "n": 1}, {"user": "bob", "n": 1}]
    found = [{"user": "ann", "n": 3, "at": None}, {"user": "bob", "n": 1, "at": None}]
    assert difference(expected, found, schema) == [
        "  user n",
        "- ann  2",
        "+ ann  3",
        "- bob  1",
        "(2 expected but missing, 1 not expected)",
    ]


def test_expected_values_are_taken_as_their_columns_are() -> None:
    schema = Schema.parse("at TIMESTAMP, price DECIMAL(10,2), x DOUBLE, tags ARRAY<STRING>")
    found = [{"at": datetime(2026, 1, 1, tzinfo=UTC), "price": "1.50", "x": 0.1 + 0.2, "tags": ["a"]}]
    assert difference([{"at": "2026-01-01T00:00:00Z", "price": 1.5, "x": 0.3, "tags": ["a"]}], found, schema) == []
    assert "no column nr" in difference([{"nr": 1}], found, schema)[0]
    assert "does not fit" in difference([{"at": "soon"}], found, schema)[0]


def test_flows_are_found_and_cases_are_not_flows(flow: tuple[Path, Flow], tmp_path: Path) -> None:
    cases_of(flow[0]).write_text("cases: []")
    (tmp_path / "notes.yaml").write_text("a: 1")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "flow.yaml").write_text(FLOW)
    assert flows_in(tmp_path) == [flow[0]]


def test_cases_that_are_not_text_are_a_problem(flow: tuple[Path, Flow]) -> None:
    cases_of(flow[0]).write_bytes(b"cases: \xe9")
    with pytest.raises(FlowError, match="not UTF-8 text"):
        read_cases(cases_of(flow[0]), flow[1])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("misspelt.yaml", FLOW.replace("flow:", "flwo:")),
        ("marked.yaml", "\ufeff" + FLOW),
        ("unfinished.yaml", "name: 'x"),
        ("empty.yml", ""),
        ("braces.yaml", '{"sources": {}, "sinks": {}}'),
        ("cut.json", '{"description": "", "flow": "x", "sources": {'),
        ("lines.py", "from headrace import (\n    Flow,\n    col,\n)\n"),
        ("broken.py", "from headrace import Flow\nflow = Flow(\n"),
        ("remark.sql", "/* ours */ CREATE STREAM s WITH (connector = 'rate');"),
    ],
)
def test_a_flow_with_a_mistake_is_found_in_a_folder(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert flows_in(tmp_path) == [tmp_path / name]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("compose.yaml", "services: {web: {image: x}}\n"),
        ("two.yaml", "kind: Service\n---\nkind: Deployment\n"),
        ("dbt.yml", "version: 2\nsources: [{name: shop}]\n"),
        ("rows.json", '{"id": 1}\n{"id": 2}\n'),
        ("seed.sql", "CREATE TABLE orders (id INT);"),
        ("functions.py", "from headrace import Processor\n"),
    ],
)
def test_other_files_are_not_flows(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=f"no flow in {tmp_path}"):
        flows_at([tmp_path])


@pytest.mark.parametrize("name", ["f.yaml", "f.json", "f.sql", "f.py"])
def test_a_mark_at_the_beginning_of_a_file_does_not_matter(name: str, flow: tuple[Path, Flow], tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text("\ufeff" + convert(flow[0], name.partition(".")[2].replace("py", "python")), encoding="utf-8")
    assert load(file) == replace(flow[1], name=load(file).name)
