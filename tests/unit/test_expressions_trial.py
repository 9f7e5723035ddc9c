"""A compiled function is trusted only where it gives what CPython gives."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from headrace.expressions.expression import Expression
from headrace.expressions.pyfunction import Refusal, tried
from headrace.expressions.trial import SECONDS, difference
from headrace.operators.functions import Function
from tests.expressions_in_python import COMPILED

CALLS: list[int] = []


def len(text: str) -> int:  # hides the one that the compiler knows
    CALLS.append(1)
    return 7


def long(s: str) -> bool:
    return len(s) > 3


def whole_where_a_float_is_said(x: float) -> float:
    if x < 0.0:
        return 0
    return 1.5


def larger(a: Decimal, b: Decimal | None) -> Decimal:
    return a if b is None or a > b else b


def always_fails(a: int) -> int:
    return a // 0


def grows(a: int, b: int) -> int:
    return (a * a * b) % 7


@pytest.mark.parametrize("function", [*COMPILED, whole_where_a_float_is_said, larger, always_fails, grows])
def test_what_gives_the_same_is_compiled(function: Callable[..., Any]) -> None:
    assert isinstance(tried(function), Expression), tried(function)


A_B: dict[str, tuple[Any, bool]] = {"a": (int, False), "b": (int, False)}


@pytest.mark.parametrize(
    ("function", "wrong", "parameters", "gives"),
    [
        (lambda a, b: a // b, "a div b", A_B, int),
        (lambda a, b: a % b, "a % b", A_B, int),
        (lambda a: a > 1723, "a >= 1723", {"a": (int, False)}, bool),
        (lambda a: a // 1, "a + 0 * (1 div a)", {"a": (int, False)}, int),
        (lambda a: 1 // a, "CASE WHEN a = 0 THEN 0 ELSE 1 END", {"a": (int, False)}, int),
        (lambda a: 0 if a is None else a, "a", {"a": (int, True)}, int),
        (lambda x, y: x == y, "x = y", {"x": (float, False), "y": (float, False)}, bool),
        (lambda x: -x, "0.0D - x", {"x": (float, False)}, float),
        (lambda s: s[:2], "s", {"s": (str, False)}, str),
        (lambda s: s == "gone", "s LIKE 'gone%'", {"s": (str, False)}, bool),
    ],
)
def test_a_difference_is_found_and_told_with_its_input(
    function: Callable[..., Any], wrong: str, parameters: dict[str, tuple[Any, bool]], gives: Any
) -> None:
    found = difference(function, Expression.parse(wrong), parameters, gives)
    assert found is not None
    assert all(f"{name}=" in found for name in parameters)
    assert "Python " in found


def test_a_name_of_the_module_that_hides_one_of_python_is_not_compiled_nor_called() -> None:
    refused = tried(long)
    assert isinstance(refused, Refusal)
    assert "known function" in refused.reason
    assert not CALLS
    assert Function.parse(long).how().startswith("Python in Arrow batches: it calls")


def test_trying_takes_a_bounded_time_and_is_done_once() -> None:
    functions = [Function.parse(function) for function in COMPILED]
    began = time.process_time()
    assert all(function.is_compiled() for function in functions)
    first = time.process_time() - began
    assert first < SECONDS * functions.__len__()
    began = time.process_time()
    assert all(function.is_compiled() for function in functions)
    assert time.process_time() - began < first / 10
