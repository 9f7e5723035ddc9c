"""Dead letters without Spark: which way each can be put through again, what is shown, how many are allowed."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from headrace.check import check
from headrace.cli.letters import safe
from headrace.compile.again import way
from headrace.compile.explain import explain, text
from headrace.compile.letters import Rate, Recent, file_of
from headrace.compile.planner import plan
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.errors import DataError, UsageError
from headrace.observe.progress import Totals, show
from headrace.operators.calls import Note, _Gathering, once_more
from headrace.run import letters
from headrace.run.home import Home

FLOW = """\
flow: ways
sources:
  orders:
    kafka: orders
    format: json
    schema: id BIGINT, user STRING, tags ARRAY<STRING>
steps:
  known:
    from: orders
    filter: id IS NOT NULL
  counted:
    from: known
    aggregate: {by: user, compute: {n: count(*)}}
  named:
    from: counted
    filter: user IS NOT NULL
  tags:
    from: known
    explode: {each: tags, as: tag}
  words:
    from: tags
    filter: tag <> ''
sinks:
  table:
    from: named
    sqlite: {path: out.db, table: t, key: user}
  OTHER
  bad:
    from: orders.dead_letter
    files: bad
"""
ALONE = plan(resolve(flowfile.read(FLOW.replace("  OTHER\n", ""))).flow)
SHARED = plan(resolve(flowfile.read(FLOW.replace("OTHER", "spoken:\n    from: words\n    files: words"))).flow)


def test_a_letter_goes_on_where_it_failed_or_to_its_topic_or_is_left() -> None:
    assert way(ALONE, "named", function=True, topic=False, value=False).sinks == ("table",)
    assert way(ALONE, "counted", function=False, topic=False, value=False).kind == "step"  # it broke a rule behind it
    assert way(ALONE, "orders", function=False, topic=True, value=True).kind == "topic"
    assert way(ALONE, "known", function=True, topic=True, value=True).kind == "topic"
    assert way(SHARED, "words", function=True, topic=True, value=True).sinks == ("spoken",)
    assert way(SHARED, "counted", function=True, topic=True, value=True).kind == "none"  # "spoken" had the record
    left = way(ALONE, "known", function=True, topic=False, value=True)
    assert (left.kind, "counted" in left.why) == ("none", True)
    assert way(ALONE, "gone", function=True, topic=True, value=True).why == 'the flow has no "gone" any more'


def test_more_than_so_many_in_a_minute_are_too_many() -> None:
    rate = Rate(3)
    rate.check(3, "flow")
    rate.add(2)
    rate.check(1, "flow")
    with pytest.raises(DataError, match="more than 3 dead letters in a minute"):
        rate.check(2, "flow")


def test_all_queries_of_a_flow_count_towards_one_bound() -> None:
    recent = Recent()
    one, other = Rate(3, recent), Rate(3, recent)
    one.add(2)
    assert other.allows(1)
    assert not other.allows(2)


def test_notes_of_calls_come_together_up_to_a_bound_and_decide_what_a_second_call_tells() -> None:
    gathering = _Gathering(2)
    kept: dict[tuple[str, str], Note] = {}
    for towards, call in (("a", "x"), ("a", "x"), ("b", "x"), ("a", "y")):
        kept = gathering.addInPlace(kept, {(towards, call): Note("step", "why", "f", "f.py:1", None)})
    assert {key: note.times for key, note in kept.items()} == {("a", "x"): 2, ("b", "x"): 1}
    again = once_more({"x": Note("step", "why", "f", "f.py:1", None)})
    told = again.before("x")
    assert told is not None
    assert (told["reason"], told["call"]) == ("why", "x")
    assert again.before("z") is None
    only_now = again.raised("z", "step", {"reason": "now", "function": "f", "place": "p", "record": "{}"}, whole=True)
    assert only_now["reason"] is None, "its row is in the sinks"


def test_letters_in_a_home_are_counted_and_a_plan_takes_each_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    kept = file_of(tmp_path, "orders", 3)
    kept.parent.mkdir(parents=True)
    told = [
        {"id": f"orders/3/{n}", "step": "orders", "reason": why, "value": base64.b64encode(b"\xff\x00").decode()}
        for n, why in enumerate(("cut", "cut", "late"))
    ]
    kept.write_text("".join(json.dumps(one) + "\n" for one in told))
    assert [(k["reason"], k["letters"], k["example"]) for k in letters.summary(home)] == [
        ("cut", 2, "orders/3/0"),
        ("late", 1, "orders/3/2"),
    ]
    assert next(letters.letters(home)).bytes_of("value") == b"\xff\x00"
    (letters.folder(home) / "replays").mkdir()
    assert list(letters._plan(home, ALONE, 1, ["orders/3/1"]).values()) == [1]  # it came from no topic: it is left
    assert letters.replayed(home) == frozenset()
    with pytest.raises(UsageError, match="no dead letter"):
        letters._plan(home, ALONE, 2, ["orders/9/9"])


def test_bytes_are_shown_so_that_a_terminal_is_not_harmed() -> None:
    assert safe(b"a\x1b[2J\xff\n") == "a\\x1b[2J\\xff\\n"
    assert safe(None) == ""
    assert len(safe(b"x" * 10_000)) == 2001


def test_progress_counts_the_letters_of_a_repeated_batch_once() -> None:
    event = {"query": "q", "batch": 4, "steps": {"a": 2, "b": 1}}
    totals = Totals().add_letters(event).add_letters(event).add_letters({**event, "batch": 6})
    assert totals.dead_letters == 6
    assert "dead letters 6" in show(totals, now=0.0)


STOPPING = """\
flow: stopping
sources:
  orders:
    kafka: orders
    format: json
    schema: id BIGINT, user STRING, at TIMESTAMP
    time: {column: at, watermark: 1 second}
steps:
  seconds:
    from: orders
    aggregate:
      by: {who: {python: "tests.spark.letters_functions:initial"}}
      window: {tumbling: 1 second}
      compute: {n: count(*), all: {python: "tests.unit.test_letters:joined"}}
  named:
    from: seconds
    with: {name: {python: "tests.unit.test_letters:shorter"}}
  minutes:
    from: named
    aggregate: {by: name, window: {tumbling: 1 minute}, compute: {n: sum(n)}}
  loud:
    from: minutes
    with: {shout: {python: "tests.unit.test_letters:shout"}}
sinks:
  table: {from: loud, sqlite: {path: out.db, table: t}}
"""


def joined(user: list[str]) -> str:
    return ",".join(user)


def shorter(who: str) -> str:
    print(end="")
    return who[:1]


def shout(name: str) -> str:
    print(end="")
    return name.upper()


def test_functions_that_stop_the_flow_are_named_and_all_others_give_letters() -> None:
    report = check(resolve(flowfile.read(STOPPING)))
    assert report.errors == ()
    told = [(p.code, p.step) for p in report.problems if p.warning]
    assert told == [("unsupported", "named")]
    made = plan(report.flow)
    steps = {one["name"]: one for one in explain(made)["steps"]}
    assert {name: one.get("stops") for name, one in steps.items() if one.get("stops")} == {
        "seconds": f"{__name__}:joined: it takes all values of a window, so there is no one record to put aside",
        "named": "its function: the record cannot be found again between seconds and minutes",
    }
    causes = {name: one["rejects"]["when"] for name, one in steps.items() if one.get("rejects")}
    raises = "make a Python function raise"
    assert causes == {"orders": ["cannot be read"], "seconds": [raises], "loud": [raises]}
    assert "raising  stops the flow in its function" in text(made)
