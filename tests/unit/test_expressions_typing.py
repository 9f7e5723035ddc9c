"""Problems of an expression, all at once and each at its place. Types are compared with Spark's in tests/spark."""

from __future__ import annotations

import pytest

from headrace.expressions.expression import Expression
from headrace.expressions.typing import type_of
from headrace.model import Schema
from headrace.model.types import UNKNOWN

ORDERS = Schema.parse(
    "id bigint, amount decimal(10,2), name string, at timestamp, items array<struct<sku:string,n:int>>, paid boolean"
)


def problems(text: str, **how: object) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []

    def say(code: str, message: str, *, hint: str = "", at: int = 0) -> None:
        found.append((code, at))

    type_of(Expression.parse(text), ORDERS, say, **how)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("amount * 2", []),
        ("amout * 2", [("unknown-column", 0)]),
        ("uper(name)", [("unknown-function", 0)]),
        ("upper(nam) || lowr(nme)", [("unknown-column", 6), ("unknown-column", 19), ("unknown-function", 14)]),
        ("name and paid or id", [("type-mismatch", 0)]),
        ("items.price", [("unknown-column", 0)]),
        ("sum(id)", [("not-grouped", 0)]),
        ("id > 1 and now() > at", [("unsupported", 11)]),
        ("rand()", [("unsupported", 0)]),
        ("current_date", [("unsupported", 0)]),
        ("window(at, '1 minute')", [("unsupported", 0)]),
        ("explode(items)", [("unsupported", 0)]),
        ("round(amount, id)", [("type-mismatch", 0)]),
        ("substring(name)", [("type-mismatch", 0)]),
        ("transform(items, x -> x.price)", [("unknown-column", 22)]),
        ("missing + 1 > 2 and missing2 = 'a'", [("unknown-column", 0), ("unknown-column", 20)]),
    ],
)
def test_problems_are_said_with_code_and_place(text: str, expected: list[tuple[str, int]]) -> None:
    assert problems(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sum(amount) / count(*)", []),
        ("name", []),
        ("NAME || max(name)", []),
        ("id + sum(id)", [("not-grouped", 0)]),
        ("sum(max(id))", [("not-grouped", 4)]),
        ("upper(name) || id", [("not-grouped", 15)]),
        ("count(*) filter (where id)", [("type-mismatch", 23)]),
    ],
)
def test_an_aggregate_reads_only_what_is_grouped(text: str, expected: list[tuple[str, int]]) -> None:
    assert problems(text, aggregate=True, grouped=frozenset({"name"})) == expected


def test_hints_name_the_nearest() -> None:
    hints: list[str] = []
    for text in ("amout", "uper(name)"):
        type_of(Expression.parse(text), ORDERS, lambda code, message, *, hint="", at=0: hints.append(hint))
    assert hints[0].startswith('did you mean "amount"?')
    assert "id, amount, name" in hints[0]
    assert "upper" in hints[1]


def test_one_mistake_gives_one_problem() -> None:
    assert problems("coalesce(round(missing * 2, 1), 0) + 1 > 3") == [("unknown-column", 15)]
    assert type_of(Expression.parse("missing + 1"), ORDERS, lambda *a, **k: None) == UNKNOWN
