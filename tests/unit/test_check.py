"""What `check` finds: everything at once, each at its place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headrace.check import check
from headrace.declare import flowfile
from headrace.declare.load import declare
from headrace.declare.resolve import resolve
from headrace.errors import CODES, Problem

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "errors"
ELSEWHERE = {
    "bad-python": "test_front_doors.py",
    "bad-sql": "test_sql.py",
    "bad-case": "test_cases.py",
    "file-not-found": "here",
    "missing-secret": "test_project.py",
}
"""Codes that do not come from the text of a flow file, and the test that has them."""


def problems_of(text: str) -> tuple[Problem, ...]:
    return check(resolve(flowfile.read(text, "flow.yaml"))).problems


TEN_MISTAKES = """\
flow: ten mistakes
sources:
  orders:
    kafka: {topik: orders}
    format: json
    schema: id BIGINT, amount DOUBLE, at TIMESTAMP
  visits:
    generator: {kind: clicks, rate: fast}
  events:
    generator: {kind: orders}
steps:
  large:
    from: events
    filter: amuont > 100
  shouting:
    from: events
    with: {loud: uper(category)}
  text:
    from: events
    filter: amount + 1
  lost:
    from: nowhere
    filter: "true"
  unread:
    from: events
    drop: [id]
  odd:
    from: events
    agregate: {by: category}
sinks:
  screen:
    from: large
    console: {}
  screen:
    from: shouting
    console: {}
  table:
    from: text
    sqlite: {path: t.db, table: t, key: nr}
"""


def test_ten_different_mistakes_are_ten_problems_in_one_go() -> None:
    found = [(p.code, p.location.line, p.location.column) for p in problems_of(TEN_MISTAKES)]
    assert {
        ("bad-name", 1, 7),
        ("unknown-option", 4, 13),
        ("bad-option", 8, 37),
        ("unknown-column", 14, 13),
        ("unknown-function", 17, 18),
        ("type-mismatch", 20, 13),
        ("unknown-input", 22, 11),
        ("duplicate-name", 34, 3),
        ("unknown-column", 39, 13),
        ("unknown-operator", 29, 5),
    } <= set(found)


def test_a_problem_has_place_code_and_hint() -> None:
    problem = next(p for p in problems_of(TEN_MISTAKES) if p.code == "unknown-option")
    assert str(problem).splitlines()[0] == (
        'flow.yaml:4:13: source "orders" (kafka) has no option "topik" [unknown-option]'
    )
    assert 'did you mean "topic"?' in problem.hint


def test_a_file_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    assert [p.code for p in check(declare(tmp_path / "missing.yaml")).problems] == ["file-not-found"]


def golden() -> list[Path]:
    return sorted(GOLDEN.glob("*.yaml"))


@pytest.mark.parametrize("file", golden(), ids=lambda file: file.stem)
def test_each_code_has_its_message(file: Path) -> None:
    text = file.read_text()
    wanted = text.splitlines()[0].removeprefix("# ")
    problems = check(resolve(flowfile.read(text, file.name))).problems
    assert wanted in [str(p).splitlines()[0] for p in problems]
    assert file.stem in [p.code for p in problems]


def test_every_code_has_an_example() -> None:
    assert {file.stem for file in golden()} | set(ELSEWHERE) == set(CODES)


def test_what_reads_from_a_broken_step_is_not_blamed() -> None:
    text = TEN_MISTAKES.replace("amuont > 100", "amount >")
    assert [p for p in problems_of(text) if p.step == "screen" and p.code == "unknown-input"] == []


def chain(steps: int, step: str) -> str:
    """A flow of that many steps, each reading from the one before."""
    lines = [f"  s{i}: {{from: s{i - 1}, {step}}}" for i in range(1, steps + 1)]
    return "\n".join(
        [
            "flow: long",
            "sources:",
            "  s0: {rate: {}}",
            "steps:",
            *lines,
            "sinks:",
            f"  o: {{from: s{steps}, console: {{}}}}",
        ]
    )


@pytest.mark.parametrize(
    "step", ["filter: value > 1", "filter: value > 1, expect: value > 2", "with: {value: value + 1}"]
)
def test_the_work_of_a_check_does_not_explode_with_the_number_of_steps(step: str) -> None:
    def calls(steps: int) -> int:
        declared = resolve(flowfile.read(chain(steps, step)))
        counted = 0

        def count(*_: object) -> None:
            nonlocal counted
            counted += 1

        sys.setprofile(count)
        try:
            check(declared)
        finally:
            sys.setprofile(None)
        return counted

    assert calls(10) > 0  # what is made once, such as models, is made
    assert calls(200) / calls(50) < 10


def test_every_cycle_is_said_and_hides_nothing() -> None:
    problems = problems_of(
        """\
flow: circles
goal: {latency: 20 ms}
sources:
  a: {rate: {}}
  unread: {rate: {}}
steps:
  s: {from: t, filter: value > 1}
  t: {from: [s, a], union: {}}
  behind: {from: t, filter: nope > 1}
  self: {from: self, filter: value > 1}
sinks:
  o: {from: behind, console: {}}
  p: {from: self, console: {}}
"""
    )
    assert [(p.code, p.location.line) for p in problems] == [
        ("unused", 5),
        ("cycle", 7),
        ("unknown-column", 9),
        ("cycle", 10),
    ]


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("|\n      value > 1\n\n      AND   nope = 3\n", (10, 13)),
        (">-\n      value > 1\n      AND value =\n        nope\n", (10, 9)),
        ("value > 1\n      AND nope = 3\n", (8, 11)),
        ('"value > 1\n      AND nope = 3"\n', (8, 11)),
        ("'value > 1 AND ''x'' = nope'\n", (7, 36)),
        ("\"value > 1 AND '\\u00e9\\n' = nope\"\n", (7, 41)),
    ],
)
def test_a_mistake_in_a_text_of_several_lines_is_placed_where_it_stands(written: str, place: tuple[int, int]) -> None:
    text = f"flow: f\nsources:\n  a: {{rate: {{}}}}\nsteps:\n  s:\n    from: a\n    filter: {written}"
    (problem,) = problems_of(text + "sinks:\n  o: {from: s, console: {}}\n")
    assert (problem.code, problem.location.line, problem.location.column) == ("unknown-column", *place)


def test_all_that_is_wrong_with_the_columns_of_a_step_is_said_each_at_its_place() -> None:
    problems = problems_of(
        """\
flow: f
sources:
  a: {rate: {}}
steps:
  s:
    from: a
    with:
      p: value +
      q: value
      r: "'abc"
  t:
    from: a
    select: [value, value +, {y: value AS}, 2, value AS Value]
  u:
    from: a
    aggregate:
      by: [value, value +]
      compute: {n: sum(value, m: "max(" }
  v:
    from: a
    select:
      - value
      - nope1 + 1 AS b
      - {c: nope2}
      - nope3
sinks:
  o: {from: [s, t, u, v], console: {}}
"""
    )
    assert [(p.code, p.location.line, p.location.column) for p in problems if p.step in "stuv"] == [
        ("bad-expression", 8, 17),
        ("bad-expression", 10, 11),
        ("bad-expression", 13, 28),
        ("bad-expression", 13, 40),
        ("bad-expression", 13, 45),
        ("duplicate-name", 13, 48),
        ("bad-expression", 17, 26),
        ("bad-expression", 18, 29),
        ("bad-expression", 18, 39),
        ("unknown-column", 23, 9),
        ("unknown-column", 24, 13),
        ("unknown-column", 25, 9),
    ]
    assert not any("{ }" in p.hint for p in problems)


def test_a_text_cut_off_at_a_comma_is_told_so() -> None:
    (problem, *_) = problems_of(
        "flow: f\nsources:\n  a: {rate: {}}\nsteps:\n  s: {from: a, with: {b: greatest(value, 1)}}\n"
        "sinks:\n  o: {from: s, console: {}}\n"
    )
    assert problem.hint == "put a text with commas inside { } in quotes"


def problem_lines(source: str, sink: str = "console: {}") -> list[str]:
    """What is said about a flow of one source and one sink."""
    text = f"flow: f\nsources:\n  a: {{{source}}}\nsinks:\n  o: {{from: a, {sink}}}\n"
    return [str(p).replace("\n", " ") for p in problems_of(text)]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("rate: {rows_per_second: true}", "rows_per_second is a number, not true"),
        ("rate: {rows_per_second: 99999999999999999999}", "rows_per_second cannot be so large a number"),
        (f"rate: {{rows_per_second: {'9' * 5000}}}", "a whole number is wanted"),
        ("generator: {kind: orders, rate: .inf}", "rate cannot be so large a number"),
        ("rate: {partitions: 100000000000}", '"partitions" cannot be 100000000000'),
        ('kafka: {topic: ""}, format: raw', "'' cannot name a topic"),
        ('kafka: {topic: [ok, "bad topic/name!"]}, format: raw', "'bad topic/name!' cannot name a topic"),
        ('files: {path: ""}, format: text', "\"path\" cannot be ''"),
        ("values: {rows: 3}, schema: id INT", '"rows" cannot be 3: a list is wanted'),
        ("values: {rows: [{at: 2026-02-30}]}, schema: at DATE", 'row 1: column "at"'),
        (f"rate: {{}}, schema: 'a {'ARRAY<' * 3000}'", "nested more than 100 deep"),
        (f"rate: {{}}, schema: 'a DECIMAL({'9' * 5000})'", "a number of 5000 digits is out of range"),
        ("rate: {}, schema: a BIGNT", 'did you mean "bigint"? The types are boolean,'),
        ("rate: &x {rows_per_second: *x}", "an alias stands within what it names"),
    ],
)
def test_a_value_that_makes_no_sense_is_one_problem_at_its_line(source: str, said: str) -> None:
    problems = [p for p in problem_lines(source) if "columns of its own" not in p]
    assert len(problems) == 1, problems
    assert said in problems[0]
    assert problems[0].startswith("flow.yaml:3:")


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ("postgresql: {url: nonsense, table: t}", "no address of a PostgreSQL database"),
        ('kafka: {topic: "no good"}, format: json', "'no good' cannot name a topic"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused(sink: str, said: str) -> None:
    (problem,) = problem_lines("rate: {}", sink)
    assert said in problem


def test_addresses_that_can_be_one_are_taken() -> None:
    for url in ("postgresql://u@h/db", "host=h dbname=d", "${env:DATABASE_URL}", "postgres://u:${env:PW}@h/db"):
        assert problem_lines("rate: {}", f'postgresql: {{url: "{url}", table: t}}') == []


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("aggregate: {window: {hopping: 10 s, evry: 5 s}, compute: {n: count(*)}}", 'did you mean "every"?'),
        ("aggregate: {by: value, emit: finl, compute: {n: count(*)}}", "should be 'final' or 'changes'"),
        ('map: {pyton: "m:f"}', 'did you mean "python"?'),
        ("select: []", "cannot be an empty list: at least 1 is wanted"),
        (f"filter: value > {'9' * 5000}", "a number of 5000 digits is too long"),
    ],
)
def test_a_slip_in_a_step_is_told_once_with_what_was_meant(step: str, said: str) -> None:
    text = f"flow: f\nsources: {{a: {{rate: {{}}}}}}\nsteps:\n  s: {{from: a, {step}}}\n"
    (problem,) = problems_of(text + "sinks: {o: {from: s, console: {}}}\n")
    assert said in str(problem)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("flow: x\nsources:\n  \0", "flow.yaml:3:3"),
        ("flow: x\nsources: " + "[" * 1200, "flow.yaml:2:310"),
        ("", "flow.yaml:1:1"),
        ("- a\n- b\n", "flow.yaml:1:1"),
        ("flwo: x\n", "flow.yaml:1:1"),
    ],
)
def test_of_a_file_that_cannot_be_read_one_thing_is_said_at_its_place(text: str, place: str) -> None:
    (problem,) = problems_of(text)
    assert str(problem.location) == place


def test_of_a_file_that_is_not_text_or_cut_off_one_thing_is_said(tmp_path: Path) -> None:
    for name, content in (
        ("a.yaml", b"\xff\xfef\0"),
        ("b.json", b'{"flow": '),
        ("c.json", b""),
        ("d.sql", b"CREATE S"),
    ):
        (tmp_path / name).write_bytes(content)
        assert len(check(declare(tmp_path / name)).problems) == 1, name
