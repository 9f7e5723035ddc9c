"""What the benchmarks reckon with: answers, tails, tables, plots. That they run is for `make bench-…` to show."""

from __future__ import annotations

import json
import math
import os
import sys
from array import array
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest

from bench import answers, feed, latency, load, pauses, plots, processes, report, results, rules, show, soak
from bench.environments import UnavailableError
from bench.events import WINDOW, Expected, events
from bench.flows import WORKS, flow
from bench.measure import EDGES, histogram, tail
from bench.processes import reported
from bench.systems import SYSTEMS, Command, order
from headrace.check import load as load_flow
from headrace.compile.planner import plan


def expected(count: int = 3_000) -> Expected:
    made = Expected()
    for event in events(count):
        made.add(event)
    return made


def rows(made: Expected) -> list[dict[str, object]]:
    return [{"window_start": s, "page": p, "n": n, "total": t} for (s, p), (n, t) in made.windows.items()]


def test_events_are_the_same_every_time_and_say_what_they_hold() -> None:
    first, again = list(events(500)), list(events(500))

    assert first == again
    one = json.loads(first[123].text)
    assert (one["user"], one["page"], one["type"], one["amount"]) == first[123][:4]
    assert answers.moment(one["ts"]) == first[123].at


def test_with_as_many_users_as_events_each_has_one() -> None:
    assert len({event.user for event in events(20_000, users=20_000)}) == 20_000


def test_a_right_answer_of_w1_has_nothing_wrong() -> None:
    made = expected()

    assert answers.wrong_windows(made, iter(rows(made))) == ""


def test_a_window_that_may_still_be_open_need_not_be_there_but_a_closed_one_must() -> None:
    begin = 1_700_000_000_000
    made = Expected(windows={(begin, "a"): (1, 1.0), (begin + 2 * WINDOW, "a"): (2, 2.0)})
    closed, still_open = rows(made)

    assert answers.wrong_windows(made, iter([closed])) == ""
    assert "1 of 1 closed windows are missing" in answers.wrong_windows(made, iter([still_open]))


@pytest.mark.parametrize(
    ("change", "says"),
    [({"n": 0}, "has 0"), ({"total": -1.0}, "has"), ({"page": "other"}, "missing|not None|has")],
)
def test_a_wrong_window_is_found(change: dict[str, object], says: str) -> None:
    made = expected()
    found = rows(made)
    found[5] |= change

    assert answers.wrong_windows(made, iter(found))


def test_a_window_that_comes_twice_is_found() -> None:
    made = expected()

    assert "twice" in answers.wrong_windows(made, iter([*rows(made), rows(made)[0]]))


def test_a_lost_or_doubled_record_of_w2_is_found() -> None:
    made = expected(30)
    bought = [e for e in events(30) if e.type == "buy"]
    right = [{"user": e.user, "page": e.page, "amount": e.amount, "_key": e.user} for e in bought]
    first, second, *rest = right

    assert answers.wrong_records(made, iter(right)) == ""
    assert answers.wrong_records(made, iter(right[::-1])) == ""
    assert "not" in answers.wrong_records(made, iter(rest))
    assert "others" in answers.wrong_records(made, iter([first, first, *rest]))
    mixed = [first | {"amount": second["amount"]}, second | {"amount": first["amount"]}, *rest]
    assert "others" in answers.wrong_records(made, iter(mixed))
    assert "key" in answers.wrong_records(made, iter([first | {"_key": ""}, second, *rest]))


def test_every_event_of_a_key_is_answered_by_the_first_count_that_reaches_it() -> None:
    found = [(1.0, "k0", 1), (2.0, "k7", 3), (3.0, "k7", 2), (4.0, "k7", 4)]

    assert latency.answered(found, "keyed") == {0: 1.0, 7: 2.0, 107: 2.0, 207: 2.0, 307: 4.0}


def test_latency_counts_only_if_every_event_has_its_result() -> None:
    kept = [(0.0, "k", number) for number in (1, 2, 3, 5)]

    assert latency.is_whole(kept, 6, "stateless")
    assert not latency.is_whole(kept, 8, "stateless")
    assert latency.is_whole([(0.0, "k0", 1), (0.0, "k1", 1)], 2, "keyed")
    assert not latency.is_whole([(0.0, "k0", 1), (0.0, "k1", 2)], 2, "keyed")


def taken(**given: Any) -> latency.Taken:
    """Two seconds of stateless events, one each half; the first is a view, which has no result."""
    events = feed.Noted(array("d", [9.0, 10.0, 10.5, 11.0, 11.5]), array("d", [9.0, 10.1, 10.5, 11.0, 11.5]))
    answers = {1: 10.2, 2: 10.6, 3: 13.0}
    return latency.Taken(answers=answers, events=events, work="stateless", begin=9.5, **given)


def test_a_latency_counts_from_the_moment_the_event_was_due() -> None:
    made = latency.summary(taken(checkpoints=[9.0, 10.0, 11.0, 12.0]))

    assert made["latency"]["p50"] == 200.0
    assert made["latency"]["max"] == 2000.0
    assert made["sender_late"]["max"] == 100.0
    assert made["events"] == 4
    assert made["rate"] == 2
    assert made["checkpoints"] == 2
    assert "checkpoints" not in latency.summary(taken())


def test_of_a_run_with_several_rates_only_the_events_of_one_count() -> None:
    made = latency.summary(taken(end=11.0, checkpoints=[10.9, 11.1]))

    assert (made["events"], made["latency"]["max"], made["checkpoints"]) == (2, 200.0, 1)
    assert "latency" not in latency.summary(taken(end=9.6))


def test_what_was_due_and_sent_is_read_back_as_far_as_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "times"
    file.write_bytes(array("d", [1.0, 1.1, 2.0, 2.2]).tobytes() + b"half")

    assert feed.noted(file) == (array("d", [1.0, 2.0]), array("d", [1.1, 2.2]))


def test_several_rounds_are_shown_by_their_medians_and_ends() -> None:
    one = {"latency": tail([1.0]), "histogram": [1, 2], "first_result": 1.0, "memory": {"java": 1}, "checkpoints": 6}
    other = {"latency": tail([3.0]), "histogram": [0, 5], "first_result": 3.0, "memory": {"java": 9}, "checkpoints": 5}

    both = latency.together([one, other, {"failed": "gone"}])

    assert both["latency"]["p50"] == 2.0
    assert both["spread"]["p50"] == [1.0, 3.0]
    assert (both["histogram"], both["checkpoints"], both["memory"]) == ([1, 7], 5, {"java": 9})
    assert both["failed"] == "gone"
    assert "spread" not in latency.together([one])
    assert latency.together([{"failed": "gone"}]) == {"failed": "gone"}


def test_a_long_run_is_looked_at_by_minute_and_for_waits_that_no_checkpoint_explains() -> None:
    waits = [(100.0, 0.002), (101.5, 1.5), (130.2, 1.5), (161.0, 0.004), (170.0, math.inf)]

    assert [(m["minute"], m["max"]) for m in soak.per_minute(waits, 100.0)] == [(1, 1500.0), (2, 4.0)]
    assert soak.backlog(waits, 100.0, []) == [1, 30, 70]
    assert soak.backlog(waits, 100.0, [169.0, 131.0, 104.0]) == [1, 70]


def test_a_tail_over_too_few_checkpoints_is_none() -> None:
    found = {"checkpoints": 4, "latency": {"max": 1.0}, "histogram": [1]}

    assert pauses.enough(found, 4) == found
    assert pauses.enough(found, 5) == {"checkpoints": 4, "failed": "it crossed 4 checkpoints, not 5"}
    assert pauses.enough({"failed": "gone"}, 5) == {"failed": "gone"}


def test_a_tail_shows_the_rare_and_the_worst() -> None:
    found = tail([float(n) for n in range(1, 1001)])

    assert found == {"p50": 500.0, "p95": 950.0, "p99": 990.0, "p99.9": 999.0, "max": 1000.0}
    assert sum(histogram([0.1, 3.0, 1e9])) == 3
    assert "> 10000" in show.histogram(histogram([1e9]))
    assert len(histogram([])) == len(EDGES) + 1


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"asked": 100, "rate": 100, "latency": {"p99": 5.0}}, ""),
        ({"asked": 100, "rate": 100, "latency": {"p99": 5000.0}}, "p99"),
        ({"asked": 100, "rate": 50, "latency": {"p99": 5.0}}, "could be sent"),
        ({"asked": 100, "failed": "too slow"}, "too slow"),
    ],
)
def test_load_grows_until_something_breaks(step: dict[str, object], says: str) -> None:
    assert says in load.verdict(step)
    assert bool(says) == bool(load.verdict(step))


def test_steps_end_with_the_first_that_breaks() -> None:
    good, slow = ({"asked": 1, "rate": 1, "latency": {"p99": p99}} for p99 in (5.0, 5000.0))

    assert [step["verdict"] for step in load.judged({"steps": [good, slow, good]})] == ["", "p99 is over 1000 ms"]
    assert [step["verdict"] for step in load.judged({"steps": [good, good], "failed": "gone"})] == ["", "gone"]
    assert load.judged({"failed": "gone"}) == [{"failed": "gone", "verdict": "gone"}]


def test_a_system_that_fails_in_whatever_way_is_reported_and_stops_nothing() -> None:
    @reported
    def measure(error: Exception | None) -> dict[str, int]:
        if error is not None:
            raise error
        return {"rate": 1}

    assert measure(None) == {"rate": 1}
    assert measure(UnavailableError("no network")) == {"failed": "could not be installed: no network"}
    assert measure(KeyError("n")) == {"failed": "KeyError: 'n'"}


def test_a_job_and_what_it_starts_have_as_many_cores_as_it_is_given(tmp_path: Path) -> None:
    count = "import os; print('CORES', len(os.sched_getaffinity(0)))"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {count!r}])"
    before = os.sched_getaffinity(0)
    with processes.started([Command(arguments=[sys.executable, "-c", child])], tmp_path, cores=1) as running:
        assert running.wait(60)
        assert running.lines("CORES ") == ["1"]
    assert os.sched_getaffinity(0) == before


def test_nothing_is_left_of_a_job_that_does_not_end_not_even_what_has_left_its_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processes, "ENDING", 0.2)
    script = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("CHILD", child.pid, flush=True)
time.sleep(600)
"""
    with processes.started([Command(arguments=[sys.executable, "-c", script])], tmp_path) as running:
        assert latency.until(lambda: bool(running.lines("CHILD ")), 60)
        child = psutil.Process(int(running.lines("CHILD ")[0]))

    assert latency.until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 10)


def test_plots_are_well_formed() -> None:
    for plot in (
        plots.bars("a < b", {"x & y": (3.0, 1.0, 5.0)}, "/s"),
        plots.lines("a", {"x": [(1.0, 2.0), (1000.0, 0.3)], "empty": []}, "x", "y"),
        plots.lines("over time", {"x": [(1.0, 2.0), (30.0, 0.3)]}, "minute", "ms", even=True),
        plots.lines("nothing", {}, "x", "y"),
    ):
        ElementTree.fromstring(plot)


def test_a_page_is_filled_from_results_between_its_marks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    drawn: dict[str, str] = {}
    text = "before\n<!-- bench w1 -->\nold\n<!-- end -->\nafter\n"
    assert "make bench-w1" in report.page(text, drawn.__setitem__)
    assert "old" not in report.page(text, drawn.__setitem__)
    good = {"label": "Ours", "guarantee": "", "cold": {"median": 2000, "least": 1, "most": 2, "all": [2000]}}
    bad = {"label": "Other", "guarantee": "", "failed": ["wrong answer: none"]}
    results.keep(
        "w1", {"events": 10, "rounds": 1, "whole": True, "work": "w1", "systems": {"headrace": good, "other": bad}}
    )

    filled = report.page(text, drawn.__setitem__)

    assert "| Ours | 2,000 |" in filled
    assert "| Other | none: wrong answer: none |" in filled
    assert filled.startswith("before\n")
    assert filled.endswith("<!-- end -->\nafter\n")
    assert report.page(filled, drawn.__setitem__) == filled
    assert list(drawn) == ["w1"]


def test_only_a_run_that_was_cut_short_and_asked_for_the_same_is_gone_on_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    results.keep("w1", {"events": 10, "whole": False, "runs": {"headrace": 1}})

    assert results.unfinished("w1", {"events": 10}) == {"headrace": 1}
    assert results.unfinished("w1", {"events": 11}) == {}
    results.keep("w1", {"events": 10, "whole": True, "runs": {"headrace": 1}})
    assert results.unfinished("w1", {"events": 10}) == {}
    assert results.unfinished("w2", {}) == {}


@pytest.mark.parametrize("many", range(1, 10))
def test_over_the_rounds_each_system_has_every_place_and_changing_neighbours(many: int) -> None:
    rounds = [[SYSTEMS.index(s) for s in order(SYSTEMS[:many], number)] for number in range(many)]

    assert rounds[0][0] == 0
    assert all(sorted(place) == list(range(many)) for place in zip(*rounds, strict=True))
    after = [pair for one in rounds for pair in pairwise(one)]
    assert all(after.count(pair) <= 2 for pair in after)


def test_every_system_but_the_best_form_by_hand_is_in_w3() -> None:
    assert {s.name for s in SYSTEMS} - {s.name for s in latency.LIVE} == {"pyspark-best"}


@pytest.mark.parametrize("work", WORKS)
def test_each_work_is_a_flow_without_problems(work: str, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(flow(work, "events", "out"), encoding="utf-8")

    assert load_flow(file).name == work


@pytest.mark.parametrize("rule", rules.RULES.values(), ids=rules.RULES)
def test_each_rule_is_there_to_be_left_out(rule: rules.Rule, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(flow(rule.works[0], "events", "out"), encoding="utf-8")
    made = plan(load_flow(file), cores=2)

    with rule.patched() as left_out:
        assert left_out is not None or rule.planned(made) != made


MACHINE = {"cores": 2, "processor": "p", "memory_gb": 8.0, "system": "s", "python": "3", "java": "17", "load": 0.1}
MEMORY = {"java": 2_000_000_000, "python": 500_000_000}
GOOD = {"events": 5, "latency": tail([1.0, 2.0]), "histogram": histogram([1.0, 2.0]), "first_result": 2.5}
SAMPLES: dict[str, dict[str, object]] = {
    "w3": {
        "runs": {
            "keyed 1000": {
                "a": {"label": "A", "memory": MEMORY, **GOOD},
                "b": {"label": "B", "failed": "ended with 1: no such thing"},
            }
        }
    },
    "pauses": {"runs": {"keyed": {"5": {"label": "5 s", **GOOD}, "10": {"label": "10 s", "failed": "gone"}}}},
    "soak": {
        "minutes": 30.0,
        "rate": 1000,
        "runs": {"keyed": {"minutes": [{"minute": 1, **tail([1.0, 2.0])}], "backlog": [7], "checkpoints": 29, **GOOD}},
    },
    "slots": {"runs": {"keyed": {"4": {"label": "4", "backlog": [], "checkpoints": 6, **GOOD}}}},
    "load": {
        "runs": {
            "keyed": {
                "a": {
                    "label": "A",
                    "memory": MEMORY,
                    "steps": [
                        {"asked": 1000, "verdict": "", **GOOD},
                        {"asked": 2000, "failed": "gone", "verdict": "gone"},
                    ],
                }
            }
        }
    },
    "scale": {
        "runs": {
            "cores": {"a": {"label": "A", "at": {"1": [{"rates": [10], "memory": MEMORY}], "2": [{"failed": "x"}]}}},
            "keys": {"a": {"label": "A", "at": {"1000": [{"rate": 10, "memory": MEMORY}]}}},
        }
    },
    "recovery": {"kinds": {"by default": {"notice": {"median": 0.58, "least": 0.5, "most": 0.6, "all": [0.58]}}}},
    "start": {"split": {"with": {"session": {"median": 1.0, "least": 0.5, "most": 2.0, "all": [1.0]}}}},
}
TEXTS = {
    "w3": report.latency_text,
    "pauses": report.pauses_text,
    "soak": report.soak_text,
    "slots": report.slots_text,
    "load": report.load_text,
    "scale": report.scale_text,
    "start": report.start_text,
}


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("w3", ["| A | 1.0 | 2.0 |", "2.50", "none: ended with 1: no such thing", "w3-keyed-1000.svg"]),
        ("pauses", ["| keyed, every 5 s | 1.0 | 2.0 |", "none: gone"]),
        ("soak", ["| keyed, 30 minutes | 1.0 | 2.0 |", "| 29 | in 1 s |", "soak-keyed.svg"]),
        ("slots", ["| keyed, 4 slots | 1.0 |", "| 6 | never |", "slots-keyed.svg"]),
        ("load", ["| keyed: A | 1,000 | 1.0 |", "none: gone", "load-keyed.svg"]),
        ("scale", ["| A | 10 (2.50) | none | - |", "keys: 1,000", "scale-keys.svg"]),
        ("recovery", ["| stage | by default, s |", "| notice | 0.58 (0.50 to 0.60) |"]),
        ("start", ["| session | 1.00 (0.50 to 2.00) |"]),
    ],
)
def test_each_result_is_shown_on_the_page_and_in_the_terminal(name: str, holds: list[str]) -> None:
    found = {"command": f"make bench-{name}", "at": "then", "machine": MACHINE, "whole": True, **SAMPLES[name]}
    drawn: dict[str, str] = {}

    shown = report.PARTS[name](found, drawn.__setitem__)

    assert [text for text in holds if text not in shown] == []
    assert all(ElementTree.fromstring(plot) is not None for plot in drawn.values())
    assert "2 cores" in shown
    assert name not in TEXTS or "2 cores" in TEXTS[name](found)
