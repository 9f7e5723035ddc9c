"""Topologies: spouts that land what they give, bolts in tasks, wired by name; all of it without Spark."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from headrace import Bolt, Flow, Spout, Store, Task, Topology, ValueState
from headrace.author.topology import Out
from headrace.check import check
from headrace.compile.planner import plan
from headrace.connectors.landing import Landing
from headrace.connectors.spout import Asking, Numbers
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.declare.write import write
from headrace.model import Delivery, Schema
from headrace.operators.bolt import Counted
from headrace.operators.keyed import Engine, Memory

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "word-count"


class Queue(Spout):
    """Hands over what an outside system holds, and lets go of what is acknowledged."""

    returns = "n BIGINT"
    held: dict[str, int]
    told: list[tuple[str, str]]

    def __init__(self, held: dict[str, int], told: list[tuple[str, str]]) -> None:
        self.held, self.told = held, told

    def open(self) -> None:
        self.given = iter(list(self.held.items()))

    def next(self) -> tuple[dict[str, int], str] | None:
        for name, n in self.given:
            return {"n": n}, name
        return None

    def ack(self, id: str) -> None:
        self.told.append(("ack", id))
        self.held.pop(id, None)

    def fail(self, id: str) -> None:
        self.told.append(("fail", id))


def rows(landing: Landing, start: int, end: int) -> list[int]:
    return [n for batch in landing.read(start, end) for n in batch.column("n").to_pylist()]


def test_records_are_landed_before_they_are_used_acknowledged_when_all_queries_are_done_and_then_removed(
    tmp_path: Path,
) -> None:
    schema, told = Schema.parse("n BIGINT"), list[tuple[str, str]]()
    held = {"a": 1, "b": 2, "c": 3}
    landing = Landing(tmp_path / "landed", ("one", "other"))
    asking = Asking(Queue(held, told), schema, landing)

    asking.advance(2)
    asking.advance(2)

    assert (landing.end(), rows(landing, 0, 3), rows(landing, 1, 3)) == (3, [1, 2, 3], [2, 3])
    landing.commit("one", 3)
    asking.advance(2)
    assert told == [], "the other query has not committed anything"
    landing.commit("other", 2)
    asking.advance(2)
    assert told == [("ack", "a"), ("ack", "b")]
    assert held == {"c": 3}
    assert rows(landing, 2, 3) == [3], "what is not done with is still there"
    landing.commit("other", 3)
    asking.advance(2)
    assert not list((tmp_path / "landed").glob("*.arrow")), "nobody will read it again"
    held["d"] = 4
    asking._spout.open()
    asking.advance(2)
    assert (landing.end(), rows(landing, 3, 4)) == (4, [4]), "numbers go on"
    asking.close()


def test_after_a_crash_what_is_landed_is_not_taken_twice_and_what_was_not_committed_is_told(tmp_path: Path) -> None:
    schema, told = Schema.parse("n BIGINT"), list[tuple[str, str]]()
    held = {"a": 1, "b": 2}
    first = Landing(tmp_path / "landed", ("q",))
    before = Asking(Queue(held, told), schema, first)
    before.advance(10)
    first.commit("q", 1)
    first.release()  # the process died: neither was acknowledged, one was committed

    held["c"] = 3
    landing = Landing(tmp_path / "landed", ("q",))
    asking = Asking(Queue(held, told), schema, landing)
    asking.advance(10)

    assert told == [("fail", "b"), ("ack", "a")]
    assert rows(landing, 1, landing.end()) == [2, 3], "the outside gave b again, and it was recognised"
    other = Landing(tmp_path / "landed", ("q",))
    assert not other.take(), "one process asks"
    asking.close()
    assert other.take()
    other.release()


def test_a_spout_that_can_seek_goes_on_behind_what_is_landed(tmp_path: Path) -> None:
    landing = Landing(tmp_path, ("q",))
    first = Asking(Numbers(5), Schema.parse("n BIGINT"), landing)
    first.advance(3)
    first.close()

    second = Asking(Numbers(5), Schema.parse("n BIGINT"), landing)
    second.advance(10)
    second.advance(10)

    assert rows(landing, 0, 5) == [0, 1, 2, 3, 4]
    assert landing.end() == 5
    second.close()


class Unlucky(Spout):
    returns = "n BIGINT"


class Split(Bolt):
    returns = "word STRING"

    def execute(self, record: Any, out: Out) -> None:
        for word in record["sentence"].split():
            out.emit(word)


class Latest(Task):
    returns = "word STRING, n BIGINT, source STRING"
    store = Store("word STRING", "n BIGINT")
    seen = ValueState("n BIGINT")

    def __init__(self, step: int = 1) -> None:
        self.step = step

    def init(self, store: Any) -> None:
        self.begun = len(store)

    def process(self, record: Any, store: Any, out: Out) -> None:
        n = store.get(record["word"], 0) + self.step
        store.put(record["word"], n)
        self.seen.set(n)  # type: ignore[attr-defined]
        out.send(record["word"], n, source=record.source)


def topology() -> Topology:
    made = Topology("t")
    made.spout("numbers", Numbers, up_to=3)
    made.source("lines", "values", rows=[["a b"]], schema="sentence STRING")
    made.bolt("split", Split, parallelism=2).shuffle("lines")
    made.source("control", "values", rows=[["x"]], schema="word STRING")
    made.task("latest", Latest, parallelism=3, step=2).fields("split", "word").all("control").global_("split")
    made["latest"].sink("screen", "console")
    made["numbers"].sink("other", "console")
    return made


def test_a_topology_is_a_flow_that_a_flow_file_can_say() -> None:
    text = """\
flow: t
sources:
  numbers:
    spout: {python: "headrace.connectors.spout:Numbers", arguments: {up_to: 3}}
  lines: {values: [[a b]], schema: sentence STRING}
  control: {values: [[x]], schema: word STRING}
steps:
  split:
    from: lines
    bolt: {python: "tests.unit.test_topology:Split", parallelism: 2}
  latest:
    from: [split, control, split]
    bolt:
      python: tests.unit.test_topology:Latest
      grouping: [{fields: word}, all, global]
      parallelism: 3
      arguments: {step: 2}
sinks:
  screen: {from: latest, console: {}}
  other: {from: numbers, console: {}}
"""
    flow = topology().build()

    assert flow == resolve(flowfile.read(text)).flow
    assert resolve(flowfile.read(write(flow))).flow == flow
    assert check(flow).errors == ()
    assert [q.name for q in plan(flow).queries] == ["latest", "numbers"]


def test_the_states_of_a_task_are_its_own_and_survive_in_the_store() -> None:
    flow = topology().build()
    step: Any = flow["latest"]
    merged = Schema.parse("word STRING")

    class Low:
        step, schema, failures = "latest", {"out": Schema.parse(Latest.returns)}, None

    work = step.options._work(merged, Low)
    kept = Memory()
    records = [{"word": w, "_from": "split", "_task": 0} for w in "aba"]

    def handle(given: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        engine = Engine(work, kept)
        engine.begin(None, 0)
        return [tuple(r.values()) for r in engine.records({"_task": 0}, given)]

    assert handle(records) == [("a", 2, "split"), ("b", 2, "split"), ("a", 4, "split")]
    assert handle(records[:1]) == [("a", 6, "split")], "another instance, the same state"
    assert sorted(kept.maps["store"].items()) == [(("a",), (6,)), (("b",), (2,))]


@pytest.mark.parametrize(
    ("spout", "expected"),
    [(Numbers, Delivery.EXACTLY_ONCE), (Queue, Delivery.AT_LEAST_ONCE), (Unlucky, Delivery.AT_MOST_ONCE)],
)
def test_what_a_spout_can_do_is_what_its_flow_promises(spout: type[Spout], expected: Delivery) -> None:
    made = Topology("t")
    made.spout("s", spout)
    made["s"].sink("table", "sqlite", path="x.db", table="t")

    promise = plan(made.build()).promises[0]

    assert promise.delivery is expected
    assert expected is Delivery.EXACTLY_ONCE or "seek" in promise.because


def test_what_is_wrong_with_a_topology_is_told() -> None:
    made = Topology("t")
    made.spout("s", Split)  # type: ignore[arg-type]
    made.source("lines", "values", rows=[], schema="sentence STRING")
    made.bolt("unwired", Split)
    made.bolt("wrong", Counted).fields("lines", "usr")
    made.bolt("not_one", Numbers).shuffle("lines")  # type: ignore[arg-type]
    made["wrong"].sink("screen", "console")

    said = "\n".join(str(p) for p in check(made.declared()).problems)

    assert "Split is not a Spout [bad-function]" in said
    assert 'step "unwired" reads from []' in said
    assert 'there is no column "usr" [unknown-column]' in said
    assert "Numbers is not a Bolt [bad-function]" in said


def test_out_takes_values_names_and_mappings() -> None:
    out = Out(("a", "b"))
    out.emit(1, 2)
    out.emit({"b": 3})
    out.send(1, b=4)

    assert out.rows == [{"a": 1, "b": 2}, {"a": None, "b": 3}, {"a": 1, "b": 4}]
    with pytest.raises(TypeError, match="3 values for 2 columns"):
        out.emit(1, 2, 3)
    with pytest.raises(KeyError, match="there is no column 'c'"):
        out.emit(c=1)


@pytest.mark.parametrize("name", ["storm_style", "samza_style"])
def test_the_classic_word_counts_have_no_problems(name: str) -> None:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    flow = next(v for v in vars(module).values() if isinstance(v, Flow))

    assert check(flow.declared()).errors == ()
    assert [p.delivery for p in plan(flow.build()).promises] == [Delivery.EXACTLY_ONCE]
