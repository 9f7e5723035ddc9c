"""Waiting itself: it answers, it gives up, it says why."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pytest

from tests import waiting
from tests.waiting import eventually


def test_eventually_gives_the_first_true_answer() -> None:
    answers = iter([0, None, "", "ready", "too late"])

    assert eventually(lambda: next(answers), 5, every=0) == "ready"


def test_eventually_takes_a_failed_assertion_as_not_yet() -> None:
    tries = count(1)

    def third_time() -> int:
        number = next(tries)
        assert number >= 3
        return number

    assert eventually(third_time, 5, every=0) == 3


def test_eventually_gives_up_with_the_last_answer_and_the_diagnosis() -> None:
    with pytest.raises(AssertionError, match=r"not within 0 s; last answered: \[\]\nthe log says so"):
        eventually(lambda: [], 0, diagnose=lambda: "the log says so")


def test_eventually_lets_a_real_failure_pass_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        eventually(lambda: 1 / 0, 60)


@pytest.mark.parametrize(("every", "fewest", "most"), [(None, 240, 300), (0.05, 1200, 1202)])
def test_eventually_looks_less_often_the_longer_it_takes_unless_told_how_often(
    every: float | None, fewest: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, seen = [0.0], []

    def sleep(seconds: float) -> None:
        now[0] = round(now[0] + seconds, 6)

    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))

    def a_minute_later() -> bool:
        seen.append(now[0])
        return now[0] >= 60

    assert eventually(a_minute_later, 90, every=every)
    assert fewest <= len(seen) <= most
    assert now[0] < 60.25
