"""process before anything runs: what is wrong with it, what it remembers, and what explain says."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from headrace import Flow, ListState, Processor, ValueState
from headrace.check import check
from headrace.compile.explain import text
from headrace.compile.planner import plan
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.declare.write import write
from headrace.processor import numbered
from headrace.run.change import compare, describe

SCHEMA = "user STRING, n BIGINT, at TIMESTAMP"
TIME = {"column": "at", "watermark": "10 seconds"}
KEPT: dict[str, Any] = {"by": "user", "state": "n BIGINT", "returns": "user STRING, number BIGINT"}


class Waits(Processor):
    returns = "user STRING, at TIMESTAMP"
    last = ValueState("at TIMESTAMP")
    seen = ListState("n BIGINT", ttl="1 hour")

    def on_record(self, record: dict[str, Any], state: Any, timers: Any) -> Any: ...

    def on_timer(self, when: datetime, key: dict[str, Any], state: Any, timers: Any) -> Any: ...


class Clocked(Waits):
    clock = "processing"
    bound = "cleared by a timer"


class Unreadable(Processor):
    returns = "user STRING"
    last = ValueState("at TIMESTAMPS", ttl="1 hour")
    odd = ValueState("n BIGINT", ttl="soon")
    none = ValueState("")


def one(record: dict[str, Any]) -> None: ...


def flow_of(function: Any, time: Any = TIME, **options: Any) -> Flow:
    flow = Flow("f")
    rows = flow.source("rows", "values", rows=[], schema=SCHEMA, time=time)
    rows.process("step", function, **{"by": "user", **options}).sink("out", "console")
    return flow


def problems(flow: Flow) -> list[str]:
    return [str(p).partition(": ")[2] for p in check(flow.declared()).problems]


def test_state_that_nothing_bounds_is_named_with_what_grows() -> None:
    assert problems(flow_of(numbered, **KEPT)) == [
        'warning: step "step" keeps a state (n BIGINT) per user for ever [state-unbounded]\n'
        "  hint: that is fine for a bounded set of keys; else add `ttl`, or say with `bound` what clears it"
    ]
    assert problems(flow_of(Waits))[0].startswith('warning: step "step" keeps last per user for ever')
    assert problems(flow_of(numbered, **KEPT, ttl="1 day")) == []
    assert problems(flow_of(numbered, **KEPT, bound="ten users")) == []
    assert problems(flow_of(Clocked)) == []


@pytest.mark.parametrize(
    ("function", "options", "said"),
    [
        (numbered, {**KEPT, "by": "usr", "bound": "b"}, 'there is no column "usr" [unknown-column]'),
        (numbered, {"returns": "n BIGINT"}, 'needs "state"'),
        (numbered, {"state": "n BIGINT"}, 'needs "returns"'),
        (numbered, {**KEPT, "state": "n BIGINTS", "ttl": "1 day"}, "the columns of state: "),
        (numbered, {**KEPT, "state": "", "ttl": "1 day"}, "state has no columns [bad-schema]"),
        (numbered, {**KEPT, "ttl": "0 s"}, "longer than nothing"),
        (one, KEPT, "does not take a record and a state [bad-function]"),
        (Clocked, {"state": "n BIGINT"}, "declares its states itself"),
        (Waits, {"bound": "b", "time": None}, "timers and lifetimes on the event clock need an event time"),
        (numbered, {**KEPT, "bound": "b", "order": "time", "time": None}, "`order: time` needs an event time"),
        (Unreadable, {}, 'the columns of state "last" of '),
        (Unreadable, {}, 'state "odd" of '),
        (Unreadable, {}, 'state "none" of '),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(function: Any, options: dict[str, Any], said: str) -> None:
    assert said in "\n".join(problems(flow_of(function, **options)))


def test_without_an_event_time_a_time_to_live_runs_on_the_processing_clock() -> None:
    made = plan(flow_of(numbered, None, **KEPT, ttl="1 day").build())
    assert "records handled as they come, processing clock" in text(made)
    assert "bounded by: dropped 1 day after it was written" in text(made)
    assert "each batch by time, event clock" in text(plan(flow_of(numbered, **KEPT, ttl="1 day").build()))


def test_a_second_input_must_be_a_table_with_the_key_and_the_state() -> None:
    def begun(schema: str, **more: Any) -> str:
        flow = Flow("f")
        known = flow.source("known", "values", rows=[], schema=schema, **more)
        rows = flow.source("rows", "values", rows=[], schema=SCHEMA, time=TIME)
        rows.process("step", numbered, **KEPT, ttl="1 day", initial=known).sink("out", "console")
        return "\n".join(problems(flow))

    assert begun("user STRING, n BIGINT", table=True) == ""
    assert "takes one stream, and a table for its initial state" in begun("user STRING, n BIGINT")
    assert 'the initial table has no column "user", which is the key' in begun("name STRING, n BIGINT", table=True)
    assert '"user" is string, but bigint in the initial table' in begun("user BIGINT, n BIGINT", table=True)
    assert 'the initial table has no column "n" of the state' in begun("user STRING", table=True)


def test_the_store_is_chosen_by_the_flow_and_python_state_needs_rocksdb() -> None:
    def stored(state: str | None, python: bool = False) -> Flow:
        flow = Flow("f", state=state)
        rows = flow.source("rows", "values", rows=[], schema=SCHEMA)
        step = (
            rows.process("step", numbered, **KEPT, bound="few")
            if python
            else rows.aggregate("step", compute={"n": "count(*)"})
        )
        step.sink("out", "console")
        return flow

    name = "spark.sql.streaming.stateStore.providerClass"
    assert plan(stored(None).build()).spark[name].endswith("RocksDBStateStoreProvider")
    assert plan(stored(None).build()).spark["spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage"] == "true"
    assert plan(stored("memory").build()).spark[name].endswith("HDFSBackedStateStoreProvider")
    assert "state: memory, asked for" in text(plan(stored("memory").build()))
    assert problems(stored("memory")) == []
    assert "handles its state in Python, which cannot be done in memory" in problems(stored("memory", True))[0]
    assert "state cannot be held in 'memry'" in problems(stored("memry"))[0]

    built = stored("memory").build()
    assert "state: memory\n" in write(built)
    assert resolve(flowfile.read(write(built))).flow == built


def test_another_layout_of_a_processors_state_stands_in_the_way_of_resuming(monkeypatch: pytest.MonkeyPatch) -> None:
    before = describe(plan(flow_of(Clocked).build()))
    assert compare(before, describe(plan(flow_of(Clocked).build()))).in_the_way == ()
    monkeypatch.setattr(Clocked, "last", ValueState("at TIMESTAMP, n BIGINT"), raising=False)
    assert 'step "step" means something else' in compare(before, describe(plan(flow_of(Clocked).build()))).in_the_way[0]
