"""Parameters: declared with a type, given in several ways, told apart when they are wrong, kept through every form."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace import Flow, col
from headrace.check import check
from headrace.declare import flowfile
from headrace.declare.load import declare
from headrace.declare.parameters import Values
from headrace.declare.resolve import Declared, resolve
from headrace.declare.write import rewrite, write
from headrace.errors import FlowError, UsageError
from headrace.model import Step
from headrace.project import Project
from headrace.run.home import Asked, home_of
from headrace.run.prepare import prepare

TEXT = """\
flow: large
parameters:
  limit: {type: int, default: 10, description: Above it is large.}
  user: {type: string, default: o'hara}
  rows: 3
  pause: {type: duration, default: 10 seconds}
  shuffle: {type: int, default: 2, choices: [2, 4]}
  bad: {type: int, default: 10000}
spark: {spark.sql.shuffle.partitions: "${param:shuffle}"}
dead_letters: {per_minute: "${param:bad}"}

sources:
  orders:  # from the shop
    kafka: {topic: "orders-${param:shuffle}"}
    format: json
    schema: user STRING, amount INT, at TIMESTAMP
    time: {column: at, watermark: "${param:pause}"}
steps:
  large:
    from: orders
    filter: amount > ${param:limit} AND user <> '${param:user}'
  few:
    from: large
    limit: {rows: "${param:rows}", by: user}
sinks:
  screen: {from: few, console: {}}
"""


def declared(text: str = TEXT, **given: Any) -> Declared:
    return resolve(flowfile.read(text, "flow.yaml"), Values(**given))


def python() -> Flow:
    flow = Flow("large", dead_letters={"per_minute": "${param:bad}"})
    limit = flow.param("limit", int, default=10, description="Above it is large.")
    user = flow.param("user", str, default="o'hara")
    rows = flow.param("rows", default=3)
    pause = flow.param("pause", timedelta, default="10 seconds")
    shuffle = flow.param("shuffle", int, default=2, choices=[2, 4])
    flow.param("bad", int, default=10_000)
    flow.settings({"spark.sql.shuffle.partitions": shuffle})
    orders = flow.source(
        "orders",
        "kafka",
        topic=f"orders-{shuffle}",
        format="json",
        schema="user STRING, amount INT, at TIMESTAMP",
        time={"column": "at", "watermark": pause},
    )
    large = orders.filter("large", (col("amount") > limit) & (col("user") != user))
    large.limit("few", rows, by="user").sink("screen", "console")
    return flow


def test_a_value_is_put_in_by_its_type_as_a_whole_and_as_text_within_one() -> None:
    found = declared(asked={"limit": "20"})

    assert found.problems == ()
    few, large = found.flow["few"], found.flow["large"]
    assert isinstance(few, Step)
    assert isinstance(large, Step)
    assert (few.options.rows, large.uses) == (3, ("limit", "user"))
    assert str(large.options.where) == "amount > 20 AND `user` <> 'o\\'hara'"
    assert found.flow.sources[0].options.topic == ("orders-2",)
    assert found.flow.sources[0].time.watermark == timedelta(seconds=10)
    assert dict(found.flow.spark) == {"spark.sql.shuffle.partitions": "2"}
    assert found.flow.values == {
        "limit": 20,
        "user": "o'hara",
        "rows": 3,
        "pause": timedelta(seconds=10),
        "shuffle": 2,
        "bad": 10_000,
    }
    assert found.flow.dead_letters is None, "that is the default"
    assert declared(asked={"bad": "7"}).flow.dead_letters.per_minute == 7
    told = declared(asked={"bad": "-1"}).problems
    assert [(p.code, p.location.line) for p in told] == [("bad-option", 10)]


def test_the_python_form_and_the_flow_file_are_the_same_flow_and_stay_so_when_written() -> None:
    flow = python().build()

    assert flow == declared().flow
    assert resolve(flowfile.read(write(flow))).flow == flow == resolve(flowfile.read(write(declared().flow))).flow
    other = resolve(flowfile.read(write(flow)), Values(asked={"limit": 99, "shuffle": 4, "bad": 3})).flow
    assert other.dead_letters.per_minute == 3
    assert str(other["large"].options.where).startswith("amount > 99")  # type: ignore[union-attr]
    assert dict(other.spark) == {"spark.sql.shuffle.partitions": "4"}
    assert rewrite(declared().flow, TEXT) == TEXT, "nothing is changed that means the same"
    assert "# from the shop" in rewrite(declared(asked={"limit": 30}).flow, TEXT)
    fixed = declared(TEXT.replace('"${param:rows}"', "3")).flow
    assert fixed != declared().flow, "a value that is fixed is not one that is open"


def test_where_a_value_comes_from_the_strongest_first() -> None:
    layers: dict[str, Any] = {
        "project": lambda: {"limit": 1, "rows": 1, "pause": "1 s", "shuffle": 4, "large": {"rows": 2}},
        "environment": {"HEADRACE_PARAM_LIMIT": "3", "HEADRACE_PARAM_PAUSE": "3 s"},
        "remembered": {"limit": 4},
        "asked": {},
    }

    assert declared(**layers).flow.values == {
        "limit": 4,
        "user": "o'hara",
        "rows": 2,
        "pause": timedelta(seconds=3),
        "shuffle": 4,
        "bad": 10_000,
    }
    assert declared(**layers | {"asked": {"limit": "5"}}).flow.values["limit"] == 5


@pytest.mark.parametrize(
    ("change", "given", "expected"),
    [
        ((), {"limt": "1"}, '--param: flow "large" has no parameter "limt" [unknown-parameter]'),
        ((), {"limit": "many"}, "--param limit: parameter \"limit\" is int, not 'many' [bad-parameter]"),
        ((), {"shuffle": "3"}, "--param shuffle: parameter \"shuffle\" cannot be '3' [bad-parameter]"),
        (("rows: 3", "rows: [3]"), {}, 'flow.yaml:5:9: parameter "rows" has no type [bad-parameter]'),
        (("rows: 3", "9x: 3"), {}, "flow.yaml:5:7: a parameter cannot be named '9x' [bad-parameter]"),
        (("{type: int, default: 10,", "{type: integer,"), {}, 'flow.yaml:3:17: parameter "limit" option "type"'),
        (("default: 10,", "defalt: 10,"), {}, 'flow.yaml:3:30: parameter "limit" has no option "defalt"'),
        (("default: 10,", ""), {}, 'flow.yaml:3:10: parameter "limit" of flow "large" is not given'),
        (("> ${param:limit}", "> ${param:size}"), {}, 'flow.yaml:21:22: the flow has no parameter "size"'),
        (("> ${param:limit}", "> 10"), {}, 'flow.yaml:3:10: warning: parameter "limit" is not used [unused]'),
    ],
)
def test_what_is_wrong_is_told_at_its_place(
    change: tuple[str, str] | tuple[()], given: dict[str, str], expected: str
) -> None:
    text = TEXT.replace(*change) if change else TEXT
    assert not change or text != TEXT

    problems = check(declared(text, asked=given)).problems

    wrong = [p for p in problems if p.code != "state-unbounded"]
    assert str(wrong[0]).startswith(expected), [str(p) for p in wrong]


def test_a_secret_cannot_come_from_a_parameter() -> None:
    flow = Flow("f")
    word = flow.param("password", str, default="postgresql://h/db")
    source = flow.source("one", "values", rows=[[1]], schema="a INT")
    source.sink("table", "postgresql", url=word, table="t")

    problems = [str(p) for p in flow.declared().problems]

    assert any("from a parameter, and parameters are shown" in p for p in problems), problems


def project(folder: Path) -> Project:
    (folder / "flow.yaml").write_text(
        "flow: f\n"
        "parameters: {limit: 10, note: {type: string, default: a}}\n"
        "sources: {one: {values: [{a: 1, n: '${param:note}'}], schema: 'a INT, n STRING'}}\n"
        "steps: {few: {from: one, limit: {rows: '${param:limit}', by: a}}}\n"
        "sinks: {screen: {from: few, console: {}}}\n",
        encoding="utf-8",
    )
    return Project(root=folder)


def start(here: Project, fresh: bool = False, **parameters: str) -> tuple[str, ...]:
    ready = prepare(here, here.root / "flow.yaml", Asked(parameters=parameters), fresh=fresh)
    ready.lock.close()
    return ready.notes


def test_a_run_remembers_what_it_was_given_and_tells_what_has_changed(tmp_path: Path) -> None:
    here = project(tmp_path)
    home = home_of(here.home, "f")

    start(here, limit="20")
    assert (home.read().parameters, home.read().asked.parameters) == ({"limit": 20, "note": "a"}, {"limit": "20"})
    again = start(here)
    assert not any("parameter" in note for note in again)
    assert home.read().parameters["limit"] == 20

    told = start(here, note="b")
    assert 'parameter "note" was a and is now b' in told
    assert home.read().parameters == {"limit": 20, "note": "b"}

    with pytest.raises(UsageError) as refused:
        start(here, limit="5")
    assert 'parameter "limit" was 20 and is now 5' in refused.value.detail
    assert 'step "few" means something else' in refused.value.detail
    start(here, fresh=True)
    assert home.read().parameters == {"limit": 10, "note": "a"}, "a fresh start remembers nothing"
    with pytest.raises(FlowError, match="unknown-parameter"):
        start(here, limits="5")


def test_the_driver_reads_the_flow_with_the_values_of_its_run(tmp_path: Path) -> None:
    from headrace.run.driver import load_flow

    here = project(tmp_path)
    start(here, limit="7")
    home = home_of(here.home, "f")

    flow = load_flow(home, home.read())
    gone = load_flow(home, replace(home.read(), parameters={**home.read().parameters, "other": 1}))

    assert flow["few"].options.rows == 7  # type: ignore[union-attr]
    assert gone == flow


def test_a_python_file_is_given_its_values(tmp_path: Path) -> None:
    file = tmp_path / "flow.py"
    file.write_text(
        "from headrace import Flow\n"
        'flow = Flow("f")\n'
        'n = flow.param("n", int)\n'
        'one = flow.source("one", "values", rows=[[1]], schema="a INT")\n'
        'one.limit("few", n, by="a").sink("screen", "console")\n',
        encoding="utf-8",
    )

    missing = declare(file, shown="flow.py").problems
    given = declare(file, given=Values(asked={"n": "4"}))

    assert [str(p).partition("\n")[0] for p in missing] == [
        'flow.py:3: parameter "n" of flow "f" is not given [missing-parameter]'
    ]
    assert given.flow["few"].options.rows == 4  # type: ignore[union-attr]
