"""Waiting itself: it answers, it gives up, it says why."""

from __future__ import annotations

from itertools import count

import pytest

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
