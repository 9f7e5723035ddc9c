"""What is not compiled is refused with the reason and the line."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from headrace.expressions.pyfunction import Refusal, from_python

OUTSIDE = 3


def true_division(a: int, b: int) -> float:
    return a / b


def rounds(x: float) -> float:
    return round(x)


def capitals(s: str) -> str:
    return s.upper()


def strips(s: str) -> str:
    return s.strip()


def truthy(a: int) -> int:
    if a:
        return 1
    return 0


def exact_comparison(a: int, x: float) -> bool:
    return a < x


def reads_outside(a: int) -> int:
    return a + OUTSIDE


def maybe_none(a: int | None) -> int:
    return a + 1  # type: ignore[operator]


def forgets_a_branch(a: int) -> int:  # type: ignore[return]
    if a > 1:
        return 1


def loops(a: int) -> int:
    for i in range(3):
        a = a + i
    return a


def float_modulo(x: float) -> float:
    return x % 2.0


def early_division(a: int) -> int:
    part = 10 // a
    return part if a != 0 else 0


def exact(a: Decimal) -> Decimal:
    return a + a


def unannotated(a, b: int) -> int:  # type: ignore[no-untyped-def]
    return b


def no_result(a: int):  # type: ignore[no-untyped-def]
    return a


def other_type(a: list[int]) -> int:
    return 1


def with_default(a: int = 1) -> int:
    return a


def largest_float(x: float) -> float:
    return max(x, 1.0)


@pytest.mark.parametrize(
    ("function", "part", "offset"),
    [
        (true_division, "2**53", 1),
        (rounds, "even digit", 1),
        (capitals, "differs between Python and Java", 1),
        (strips, "Unicode", 1),
        (truthy, "truth of int", 1),
        (exact_comparison, "exactly", 1),
        (reads_outside, "OUTSIDE", 1),
        (maybe_none, "may be None", 1),
        (forgets_a_branch, "may return None", 0),
        (loops, "for", 1),
        (float_modulo, "rounds differently", 1),
        (early_division, "division in an assignment", 1),
        (exact, "Decimal", 1),
        (unannotated, "not annotated", 0),
        (no_result, "result is not annotated", 0),
        (other_type, "annotated with", 0),
        (with_default, "plain columns", 0),
        (largest_float, "max(float, float)", 1),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_refusals_have_reason_and_line(function: Callable[..., Any], part: str, offset: int) -> None:
    refused = from_python(function)
    assert isinstance(refused, Refusal), refused
    assert part in refused.reason
    assert refused.line == function.__code__.co_firstlineno + offset


def test_a_lambda_and_what_is_no_function_are_refused() -> None:
    assert isinstance(from_python(lambda a: a), Refusal)
    assert isinstance(from_python(len), Refusal)
    assert isinstance(from_python(Refusal), Refusal)
    namespace: dict[str, Any] = {}
    exec("def made(a: int) -> int:\n    return a", namespace)
    assert isinstance(from_python(namespace["made"]), Refusal)
