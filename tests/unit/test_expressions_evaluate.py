"""The oracle: Spark's meaning in plain Python. tests/spark compares it with Spark itself."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headrace.expressions.evaluate import EvaluationError, NotEvaluable, aggregate, evaluate
from headrace.expressions.expression import Expression
from headrace.model import Schema


@pytest.mark.parametrize(
    ("text", "record", "value"),
    [
        ("a AND b", {"a": False, "b": None}, False),
        ("a AND b", {"a": True, "b": None}, None),
        ("a OR b", {"a": None, "b": True}, True),
        ("a = b", {"a": None, "b": 1}, None),
        ("a <=> b", {"a": None, "b": None}, True),
        ("a IN (1, NULL)", {"a": 2}, None),
        ("a IN (1, NULL)", {"a": 1}, True),
        ("a % 3", {"a": -7}, -1),
        ("a DIV 2", {"a": -7}, -3),
        ("a / 2", {"a": 3}, 1.5),
        ("CAST(a AS int)", {"a": 2.9}, 2),
        ("try_cast(a as int)", {"a": "x"}, None),
        ("round(a, 1)", {"a": Decimal("2.25")}, Decimal("2.3")),
        ("a LIKE 'x\\\\_%'", {"a": "x_y"}, True),
        ("CASE WHEN a THEN 1 ELSE 2.5 END", {"a": True}, Decimal("1.0")),
        ("s.x + xs[1]", {"s": {"x": 1}, "xs": [5, 6]}, 7),
        ("filter(xs, x -> x > n)", {"xs": [1, 5], "n": 2}, [5]),
        ("coalesce(a, 'z')", {"a": None}, "z"),
        ("substring(a, -3, 2)", {"a": "hello"}, "ll"),
    ],
)
def test_values(text: str, record: dict[str, object], value: object) -> None:
    assert evaluate(Expression.parse(text), record) == value


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ("a / 0", {"a": 1}),
        ("a + 1", {"a": 2**63 - 1}),
        ("-a", {"a": -(2**63)}),
        ("CAST(a AS int)", {"a": "x"}),
        ("CAST(a AS int)", {"a": 2**40}),
        ("xs[3]", {"xs": [1]}),
    ],
)
def test_what_fails_in_spark_fails_here(text: str, record: dict[str, object]) -> None:
    with pytest.raises(EvaluationError):
        evaluate(Expression.parse(text), record)


def test_an_int_column_overflows_at_its_own_size() -> None:
    schema = Schema.parse("a int")
    with pytest.raises(EvaluationError):
        evaluate(Expression.parse("a + 1"), {"a": 2**31 - 1}, schema)


@pytest.mark.parametrize("text", ["soundex(a)", "upper(a)", "nosuch(a)", "a.b", "float(n) + 1"])
def test_what_is_not_covered_says_so(text: str) -> None:
    with pytest.raises(NotEvaluable):
        evaluate(Expression.parse(text), {"a": "é", "n": 1})


def test_aggregates_skip_nulls() -> None:
    records: list[dict[str, object]] = [{"x": 1, "k": "a"}, {"x": None, "k": "b"}, {"x": 4, "k": "a"}]
    whole = "struct(count(*) AS n, count(x) AS m, sum(x) AS s, avg(x) AS a, max(k) AS k, count_if(x > 1) AS c)"
    assert aggregate(Expression.parse(whole), records) == {"n": 3, "m": 2, "s": 5, "a": 2.5, "k": "b", "c": 1}
    assert aggregate(Expression.parse("sum(x) FILTER (WHERE k = 'a') + count(DISTINCT k)"), records) == 7
    assert aggregate(Expression.parse("sum(x)"), [{"x": None}]) is None
