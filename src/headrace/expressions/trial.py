"""A compiled Python function tried before it is trusted: its expression must give what CPython gives.

The inputs are the odd values of each type and what lies around the values the function itself is written with; drawn
with a fixed seed, so that a flow is planned the same way each time. The function may be called here, without any
record: what is compiled calls nothing but a few built-in functions of its own arguments.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Number
from random import Random
from typing import Any

from headrace.expressions.casts import NotEvaluable, OutOfRangeError
from headrace.expressions.evaluate import prepared
from headrace.expressions.expression import Expression
from headrace.expressions.pyfunction import COLUMN_TYPES, Parameters
from headrace.expressions.tree import Literal
from headrace.model import Schema
from headrace.model.types import Decimal

TRIES = 300
SECONDS = 0.25
"""Of the processor, at most, for one function; one of usual size takes a tenth."""

_ODD: dict[Any, tuple[Any, ...]] = {
    int: (0, 1, -1, 2, -2, 3, -3, 7, 10, -10, 255, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)),
    float: (0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 1e-9, 1e16, 5e-324, -1.7e308, math.inf, -math.inf, math.nan, 3.0),
    str: ("", " ", "a", "b", "ab", "A", " a ", "é", "e\u0301", "ß", "日本", "😀a", "\u00a0", "\n", "0", "a" * 40),
    bool: (True, False),
    bytes: (b"", b"\x00", b"a", b"ab", b"\xff", b"\x7f\x80"),
    date: (
        date(1, 1, 1),
        date(9999, 12, 31),
        date(1969, 12, 31),
        date(1970, 1, 1),
        date(2024, 2, 29),
        date(2026, 3, 1),
    ),
    datetime: tuple(
        datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=n) for n in (0, -1, 1, -(10**16), 10**15 + 1, 10**17)
    ),
    Number: tuple(map(Number, ("0", "1", "-1", "1.5", "-0.000000000000000001", "99999999999999999999.5"))),
}


def difference(
    function: Callable[..., Any], compiled: Expression, parameters: Parameters, gives: Any, *, seconds: float = SECONDS
) -> str | None:
    """An input on which the two differ, in words; None: there is none among those that were tried.

    `gives` is the type the function says it gives. An int beyond 64 bits, on which the expression fails and Python goes
    on, is the limit that is accepted.
    """
    schema = Schema.of((name, COLUMN_TYPES[kind] or Decimal(38, 18)) for name, (kind, _) in parameters.items())
    evaluated, end = prepared(compiled, schema), time.process_time() + seconds
    for record in _records(parameters, compiled):
        if time.process_time() > end:
            return None
        try:
            ours = _outcome(evaluated, record)
        except (OutOfRangeError, NotEvaluable):
            continue
        theirs = _outcome(_called, function, parameters, gives, record)
        if ours != theirs:
            given = ", ".join(f"{name}={value!r}" for name, value in record.items())
            return f"with {given} Python {theirs}, and compiled it {ours}"
    return None


def _called(function: Callable[..., Any], parameters: Parameters, gives: Any, record: Mapping[str, Any]) -> Any:
    """What the column holds if the function runs as Python."""
    if any(record[name] is None and not none for name, (_, none) in parameters.items()):
        return None
    value = function(**record)
    return float(value) if gives is float and type(value) is int else value


def _outcome(give: Callable[..., Any], *arguments: Any) -> str:
    """What came of a call, as a text that tells values apart as a column does: a bool from an int, -0.0 from 0.0."""
    try:
        value = give(*arguments)
    except (OutOfRangeError, NotEvaluable):
        raise
    except Exception:  # noqa: BLE001, whatever a function of the author's raises
        return "fails"
    return f"gives {value.normalize() if isinstance(value, Number) else value!r}"


def _records(parameters: Parameters, compiled: Expression) -> Iterator[dict[str, Any]]:
    """Each value of each parameter beside drawn ones of the others; then drawn ones of all."""
    draw = Random(0)
    near = [value for node in compiled.tree.walk() if isinstance(node, Literal) for value in _around(node.value)]
    pools: dict[str, Sequence[Any]] = {
        name: (None, *dict.fromkeys(v for v in near if type(v) is kind), *_ODD[kind])
        for name, (kind, _) in parameters.items()
    }

    def drawn() -> dict[str, Any]:
        return {name: draw.choice(pool[1:] if draw.random() < 0.9 else pool) for name, pool in pools.items()}

    made = [drawn() | {name: value} for name, pool in pools.items() for value in pool]
    draw.shuffle(made)
    yield from made[:TRIES]
    for _ in range(TRIES - len(made)):
        yield drawn()


def _around(value: Any) -> tuple[Any, ...]:
    """A value that a function is written with, and those beside it."""
    match value:
        case bool():
            return ()
        case int():
            return (value, value - 1, value + 1) if abs(value) < 2**62 else (value,)
        case float():
            return value, math.nextafter(value, -math.inf), math.nextafter(value, math.inf)
        case str():
            return value, value + "a", "a" + value, value[:-1], value * 2
    return ()
