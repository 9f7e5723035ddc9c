"""Simple Python functions that compile to expressions, shared by the property and the Spark tests."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from headrace.model import Schema

SCHEMA = Schema.parse("a bigint, b bigint, x double, y double, s string, t string, p boolean, d date")


def called(function: Callable[..., Any], record: Mapping[str, Any]) -> Any:
    """What a function gives for a record under the null convention: `T` is never called with None."""
    hints = typing.get_type_hints(function)
    values = {name: record[name] for name in inspect.signature(function).parameters}
    strict = [n for n in values if type(None) not in typing.get_args(hints[n])]
    return None if any(values[n] is None for n in strict) else function(**values)


def plus(a: int, b: int) -> int:
    return a * 3 + b - 1


def floor_divided(a: int, b: int) -> int:
    return a // b


def remainder(a: int, b: int) -> int:
    return a % b


def guarded(a: int, b: int) -> int:
    return a % b if b != 0 else -1


def divided(x: float, y: float) -> float:
    return x / y


def from_whole(a: int, y: float) -> float:
    return float(a) / 4 + y


def truncated(y: float) -> int:
    return int(y * 10.0)


def sign(a: int) -> str:
    if a > 0:
        return "positive"
    elif a == 0:
        return "zero"
    return "negative"


def chained(a: int, b: int) -> bool:
    return (-2 <= b < 3 and not a == b) or abs(a) > 40


def compares_floats(x: float, y: float) -> str:
    if x < y:
        return "less"
    if x == y:
        return "same"
    if x != y and x >= y:
        return "more"
    return "none"


def against_literals(x: float) -> bool:
    return x > 3 or x <= -1.5 or x in (0.0, 2.5)


def optional(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    if b is None:
        return None
    return a + b


def narrowed(a: int | None, s: str) -> bool:
    return (a is not None and a > 3) or s == "a"


def one_of(s: str) -> bool:
    return s in ("a", "b", "é") or s not in {"x", ""}


def texts(s: str, t: str) -> str:
    return f"<{s.strip(' ')}|{t}>" + s.replace("a", "bb")


def tests_text(s: str, t: str) -> int:
    start = len(s)
    if s.startswith(t):
        start = start + 100
    if s.endswith("b") or "ab" in s:
        start = start + 1000
    return start


def ordered(s: str, t: str) -> str:
    return min(s, t) + max(s, t)[:3]


def extremes(a: int, b: int) -> int:
    return max(a, b, 3) - min(a, b)


def truth(p: bool, a: int) -> bool:
    return not p if a > 0 else p == (a < -3)


def negated(p: bool | None) -> bool:
    return p is not None and not p


def numbered(a: int) -> str:
    return str(a) + ":" + str(-a)


def of_date(d: date) -> int:
    return d.year * 10000 + d.month * 100 + d.day


def branch_and_rest(a: int, b: int) -> int:
    total = a
    if b > 0:
        total = total + b
        if a > b:
            total = total * 2
    else:
        total = total - 1
    return total


COMPILED: tuple[Callable[..., Any], ...] = (
    plus,
    floor_divided,
    remainder,
    guarded,
    divided,
    from_whole,
    truncated,
    sign,
    chained,
    compares_floats,
    against_literals,
    optional,
    narrowed,
    one_of,
    texts,
    tests_text,
    ordered,
    extremes,
    truth,
    negated,
    numbered,
    of_date,
    branch_and_rest,
)
