"""The engine of `process` without Spark: what it gives for a key is what a plain fold would."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model import Schema
from headrace.operators.functions import UserFunctionError
from headrace.operators.keyed import Engine, Memory, ShortForm, Work, short_states
from headrace.processor import ListState, MapState, Processor, ValueState, milliseconds, moment

START = datetime(2026, 1, 1, tzinfo=UTC)
GIVEN = Schema.parse("user STRING, n BIGINT, at TIMESTAMP").timed("at")


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def record(n: int, second: float | None = None) -> dict[str, Any]:
    return {"user": "ann", "n": n, "at": None if second is None else at(second)}


def work(processor: type[Processor], **more: Any) -> Work:
    timers = processor.uses_timers()
    clock = processor.clock if timers or any(s.ttl for s in processor.states().values()) else "none"
    known: dict[str, Any] = {"clock": clock, **more}
    return Work(
        step="step",
        make=processor,
        states=processor.states(),
        by=("user",),
        time="at",
        given=GIVEN,
        timers=timers,
        **known,
    )


class Live:
    """A stream of one key, as Spark would drive it: batches, each under a watermark, then the timers that are due."""

    def __init__(self, work: Work) -> None:
        self.kept = Memory()
        self.engine = Engine(work, self.kept)
        self.out: list[dict[str, Any]] = []
        self.watermark: int | None = None

    def batch(self, *records: dict[str, Any], watermark: float | None = None) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        if watermark is not None:
            self.watermark = milliseconds(at(watermark))
        self.engine.begin(self.watermark, 0)
        if records:
            made += self.engine.records({"user": "ann"}, records)
        for due in [t for t in self.kept.timers() if self.watermark is not None and t <= self.watermark]:
            made += self.engine.due({"user": "ann"}, due)
            self.kept.delete_timer(due)
        self.out += made
        return made


def folded(function: Any, ttl: timedelta | None = None) -> Work:
    return Work(
        step="step",
        make=partial(ShortForm, function),
        states=short_states("n BIGINT", ttl),
        by=("user",),
        time="at",
        given=GIVEN,
        clock="none" if ttl is None else "event",
        short=True,
    )


def running(record: dict[str, Any], state: dict[str, Any] | None) -> tuple[Any, Any]:
    total = (state["n"] if state else 0) + record["n"]
    return {"total": total}, None if total > 100 else {"n": total}


@given(st.lists(st.integers(0, 60)), st.data())
def test_a_function_gives_what_a_fold_gives_however_the_input_is_cut(numbers: list[int], data: st.DataObject) -> None:
    expected, total = [], 0
    for n in numbers:
        total += n
        expected.append({"total": total})
        total = 0 if total > 100 else total
    live = Live(folded(running))
    rest = [record(n, i) for i, n in enumerate(numbers)]
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        live.batch(*rest[:size])
        rest = rest[size:]

    assert live.out == expected


def test_records_of_a_batch_are_handled_by_time_and_those_of_one_time_as_they_came() -> None:
    class Seen(Processor):
        def on_record(self, record: dict[str, Any], state: Any, timers: Any) -> Any:
            return {"n": record["n"]}

    live = Live(work(Seen))
    live.batch(record(1, 5), record(2, 3), record(3, 3), record(4))

    assert [r["n"] for r in live.out] == [4, 2, 3, 1]


class Every(Processor):
    """All kinds of state and timers at once."""

    total = ValueState("n BIGINT")
    seen = ListState("n BIGINT, at TIMESTAMP")
    days = MapState("day INT", "n BIGINT")

    def on_record(self, record: dict[str, Any], state: Any, timers: Any) -> Any:
        n = record["n"]
        state.total.set(state.total.get(0) + n)
        state.seen.append({"n": n, "at": record["at"]})
        state.days[n % 3] = state.days.get(n % 3, 0) + 1
        if n == 7:
            state.seen.clear()
            del state.days[1]
        timers.at(record["at"] + timedelta(seconds=10))
        yield {"total": state.total.get(), "seen": [s["n"] for s in state.seen], "days": state.days.items()}

    def on_timer(self, when: datetime, key: dict[str, Any], state: Any, timers: Any) -> Any:
        return {"user": key["user"], "when": when, "total": state.total.get(), "left": len(timers.all())}


def oracle(events: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """`Every` over one key in strict order of time: records and timers interleaved."""
    total = 0
    seen: list[int] = []
    days: dict[int, int] = {}
    due: set[int] = set()
    out: list[dict[str, Any]] = []

    def fire(until: float) -> None:
        for when in sorted(t for t in due if t <= until):
            due.discard(when)
            out.append({"user": "ann", "when": at(when), "total": total, "left": len(due)})

    for second, n in sorted(events, key=lambda e: e[0]):
        fire(second)
        total += n
        seen.append(n)
        days[n % 3] = days.get(n % 3, 0) + 1
        if n == 7:
            seen = []
            days.pop(1, None)
        due.add(second + 10)
        out.append({"total": total, "seen": list(seen), "days": sorted(days.items())})
    fire(float("inf"))
    return out


events = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), max_size=12)


@given(events)
def test_batch_mode_handles_records_and_timers_in_order_of_time(given_: list[tuple[int, int]]) -> None:
    engine = Engine(work(Every), Memory())
    engine.begin(None, 0)

    assert list(engine.whole({"user": "ann"}, [record(n, s) for s, n in given_])) == oracle(given_)


@given(events, st.data())
def test_order_by_time_gives_the_batch_answer_whatever_the_cuts_and_the_disorder(
    given_: list[tuple[int, int]], data: st.DataObject
) -> None:
    live = Live(work(Every, ordered=True))
    # Records of one time keep the order they arrive in, so only others are shuffled against each other.
    arriving = sorted(given_, key=lambda e: e[0] + data.draw(st.integers(0, 6)))
    arriving_of = {s: [n for t, n in arriving if t == s] for s, _ in given_}
    newest = -1000
    rest = arriving
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        now, rest = rest[:size], rest[size:]
        live.batch(*(record(n, s) for s, n in now), watermark=newest - 7 if newest >= 7 else None)
        newest = max(newest, *(s for s, _ in now))
    live.batch(watermark=10_000)

    assert live.out == oracle([(s, n) for s in sorted(arriving_of) for n in arriving_of[s]])
    assert live.kept.lists.get("_waiting", []) == []


@given(st.lists(st.integers(0, 60), max_size=10), st.data())
def test_a_time_to_live_ends_by_event_time_however_the_input_is_cut(seconds: list[int], data: st.DataObject) -> None:
    expected, last, n = [], None, 0
    for second in sorted(seconds):
        n = 1 if last is None or second - last >= 10 else n + 1
        last = second
        expected.append({"n": n})

    def count(record: dict[str, Any], state: dict[str, Any] | None) -> tuple[Any, Any]:
        n = (state["n"] if state else 0) + 1
        return {"n": n}, {"n": n}

    live = Live(folded(count, timedelta(seconds=10)))
    rest, newest = [record(1, s) for s in sorted(seconds)], None
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        live.batch(*rest[:size], watermark=newest)
        newest = (rest[size - 1]["at"] - START).total_seconds()
        rest = rest[size:]
    live.batch(watermark=1000)
    live.batch(watermark=1000)

    assert live.out == expected
    assert live.kept.values == {}, "what is over is removed once the watermark has passed"
    assert live.kept.timers() == []


class Lived(Processor):
    """Lists and maps whose entries end one by one."""

    seen = ListState("n BIGINT", ttl="10 seconds")
    days = MapState("n BIGINT", "at TIMESTAMP", ttl="20 seconds")

    def on_record(self, record: dict[str, Any], state: Any, timers: Any) -> Any:
        state.seen.append(record["n"])
        state.days[record["n"]] = record["at"]
        return {"seen": list(state.seen), "days": state.days.keys()}


@given(events, st.data())
def test_entries_of_lists_and_maps_end_one_by_one(given_: list[tuple[int, int]], data: st.DataObject) -> None:
    ordered = sorted(given_, key=lambda e: e[0])
    expected = []
    for i, (second, _) in enumerate(ordered):
        seen = [n for s, n in ordered[: i + 1] if second - s < 10]
        days = sorted({n for s, n in ordered[: i + 1] if second - s < 20})
        expected.append({"seen": seen, "days": days})
    live = Live(work(Lived))
    rest, newest = ordered, None
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        live.batch(*(record(n, s) for s, n in rest[:size]), watermark=newest)
        newest = rest[size - 1][0] if data.draw(st.booleans()) else newest
        rest = rest[size:]
    for _ in range(30):
        live.batch(watermark=1000)

    assert live.out == expected
    assert not live.kept.lists.get("seen")
    assert not live.kept.maps.get("days")
    assert live.kept.timers() == []


def test_a_timer_the_watermark_has_passed_fires_before_the_records_of_the_batch() -> None:
    live = Live(work(Every))
    live.batch(record(1, 0))
    made = live.batch(record(2, 60), watermark=30)

    assert [r.get("when", r["total"]) for r in made] == [at(10), 3]


def test_a_deleted_timer_does_not_fire_and_one_set_in_a_timer_does() -> None:
    class Once(Processor):
        def on_record(self, record: dict[str, Any], state: Any, timers: Any) -> Any:
            for old in timers.all():
                timers.delete(old)
            timers.at(record["at"] + timedelta(seconds=record["n"]))

        def on_timer(self, when: datetime, key: dict[str, Any], state: Any, timers: Any) -> Any:
            if when < at(20):
                timers.at(at(25))
            return {"when": when}

    live = Live(work(Once))
    live.batch(record(10, 0), record(12, 3))
    live.batch(watermark=22)
    live.batch(watermark=30)

    assert [r["when"] for r in live.out] == [at(15), at(25)]


def test_what_an_author_gets_wrong_is_told_with_the_step_the_line_and_the_record() -> None:
    class Wrong(Processor):
        pair = ValueState("a BIGINT, b BIGINT")

        def on_record(self, record: dict[str, Any], state: Any, timers: Any) -> Any:
            if record["n"] == 1:
                state.pair.set(3)
            if record["n"] == 2:
                state.pair.set({"a": 1, "c": 2})
            if record["n"] == 3:
                timers.at(at(3))
            return "text" if record["n"] == 4 else ["text"]

    for n, message in (
        (1, "holds dicts, not 3"),
        (2, "no column 'c'"),
        (3, "needs an on_timer"),
        (4, "it gave 'text'"),
        (5, "a record is a dict"),
    ):
        with pytest.raises(UserFunctionError) as failed:
            Live(work(Wrong)).batch(record(n, 1))
        assert message in str(failed.value)
        assert '"step": "step"' in str(failed.value)
        if n <= 3:
            assert "test_keyed.py" in str(failed.value)

    with pytest.raises(UserFunctionError, match="two things"):
        Live(folded(lambda record, state: state)).batch(record(1, 1))


def test_times_are_rounded_up_so_that_nothing_is_due_early() -> None:
    assert moment(milliseconds(datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC))) == datetime(
        2026, 1, 1, 0, 0, 0, 1000, tzinfo=UTC
    )
    assert milliseconds(datetime(1970, 1, 1, 0, 0, 1)) == 1000


def test_a_call_that_raises_leaves_no_trace_in_state_timers_or_outputs() -> None:
    class Careless(Processor):
        total = ValueState("total BIGINT")
        seen = ListState("n BIGINT")
        returns = "n BIGINT, total BIGINT"

        def on_record(self, record: dict[str, Any], state: Any, timers: Any) -> Any:
            state.seen.append(record["n"])
            state.total.set(state.total.get(0) + record["n"])
            timers.at(at(record["n"]))
            record["n"] += 100  # what it is given is its own
            if record["n"] == 103:
                timers.delete(at(2))
                raise ValueError("three")
            yield {"n": record["n"], "total": state.total.get()}

        def on_timer(self, when: Any, key: Any, state: Any, timers: Any) -> Any:
            return {"n": -len(list(state.seen)), "total": state.total.get()}

    rejected: list[dict[str, str]] = []
    kept = Memory()
    engine = Engine(work(Careless), kept, rejected.append)
    engine.begin(None, 0)
    made = list(engine.records({"user": "ann"}, [record(n, i) for i, n in enumerate((1, 2, 3, 4, 3, 5))]))

    assert [(row["n"], row["total"]) for row in made] == [(101, 1), (102, 3), (104, 7), (105, 12)]
    assert [json.loads(one["record"])["n"] for one in rejected] == [3, 3]
    assert {one["reason"] for one in rejected} == {"ValueError: three"}
    assert kept.values["total"] == (12,)
    assert [row[0] for row in kept.lists["seen"]] == [1, 2, 4, 5]
    own = [at(n) for n in (1, 2, 4, 5)]
    assert engine.timers.all() == own
    assert {milliseconds(when) for when in own} <= set(kept.timers())


class Fussy(Processor):
    """Counts what it is given; its timer of the second second raises, after it has changed the state."""

    n = ValueState("n BIGINT")
    returns = "n BIGINT"

    def on_record(self, record: dict[str, Any], state: Any, timers: Any) -> None:
        state.n.set(state.n.get(0) + 1)
        for second in (1, 2, 3):
            timers.at(datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC))

    def on_timer(self, when: datetime, key: dict[str, Any], state: Any, timers: Any) -> dict[str, Any]:
        state.n.set(state.n.get(0) + 10)
        if when.second == 2:
            raise ValueError("not now")
        return {"n": state.n.get()}


def test_a_timer_that_raises_is_handed_over_once_and_leaves_nothing_behind() -> None:
    rejected: list[dict[str, str]] = []
    kept = Memory()
    engine = Engine(work(Fussy), kept, rejected.append)
    engine.begin(None, 0)
    assert list(engine.records({"user": "a"}, [{"user": "a", "n": 1, "at": datetime(2026, 1, 1)}])) == []
    engine.begin(milliseconds(datetime(2026, 1, 1, 0, 1, tzinfo=UTC)), 0)
    fired = [row for at in kept.timers() for row in engine.due({"user": "a"}, at)]
    assert fired == [{"n": 11}, {"n": 21}]
    assert [(one["reason"], json.loads(one["record"])["user"]) for one in rejected] == [("ValueError: not now", "a")]
    assert kept.value("n") == (21,)
    with pytest.raises(UserFunctionError, match="not now"):
        Live(work(Fussy)).batch(record(1, 0), watermark=9)
