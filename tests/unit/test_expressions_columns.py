"""Column expressions in Python give the tree that the SQL text gives."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from headrace.expressions.columns import Col, col, fn, lit, when
from headrace.expressions.expression import Expression


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (col("a") * 2 > 3, "a * 2 > 3"),
        (1 - col("a") / 2.5, "1 - a / 2.5D"),
        (-col("a") % 3, "-a % 3"),
        (abs(col("a")), "abs(a)"),
        ((col("a") == 1) & ~(col("b") != "x") | col("c").is_null(), "a = 1 AND NOT (b <> 'x') OR c IS NULL"),
        (col("a").is_not_null(), "a IS NOT NULL"),
        (col("a").between(1, 10), "a BETWEEN 1 AND 10"),
        (col("a").isin(1, 2), "a IN (1, 2)"),
        (col("a").isin(["x", "y"]), "a IN ('x', 'y')"),
        (col("a").like("x%"), "a LIKE 'x%'"),
        (col("a").rlike("^x"), "a RLIKE '^x'"),
        (col("a").cast("decimal(10,2)"), "CAST(a AS decimal(10,2))"),
        (col("a").cast("int", attempt=True), "try_cast(a as int)"),
        (col("a")["k"], "a['k']"),
        (col("a")[0].field("x"), "a[0].x"),
        (col("a").same_as(None), "a <=> NULL"),
        (
            when(col("a") > 1, "x").when(col("b"), "y").otherwise("z"),
            "CASE WHEN a > 1 THEN 'x' WHEN b THEN 'y' ELSE 'z' END",
        ),
        (when(col("a"), 1), "CASE WHEN a THEN 1 END"),
        (fn.upper(col("x")), "upper(x)"),
        (fn.count(), "count(*)"),
        (fn.count(col("x")).distinct(), "count(DISTINCT x)"),
        (fn.sum(col("x")).where(col("y") > 1), "sum(x) FILTER (WHERE y > 1)"),
        (fn.int(col("x")), "int(x)"),
        (fn.transform(col("xs"), lambda x: x + 1), "transform(xs, x -> x + 1)"),
        (fn.struct(col("a").named("b"), col("c")), "struct(a AS b, c)"),
        (lit(Decimal("1.50")), "1.50"),
        (lit(date(2024, 1, 31)), "DATE '2024-01-31'"),
        (col("a b") + 1, "`a b` + 1"),
        (lit(float("nan")), "double('NaN')"),
    ],
)
def test_python_and_sql_give_equal_trees(built: Col, text: str) -> None:
    assert built.expression == Expression.parse(text)


def test_truth_is_refused_with_what_to_write() -> None:
    with pytest.raises(TypeError, match="use & for and"):
        bool(col("a") > 1)
    with pytest.raises(TypeError, match="use & for and"):
        _ = 1 < col("a") < 3
    with pytest.raises(TypeError, match="isin"):
        _ = 1 in col("a")


def test_an_unknown_function_is_named_with_its_nearest() -> None:
    with pytest.raises(AttributeError, match="upper"):
        _ = fn.uper


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(TypeError, match="plain values"):
        _ = col("a") + object()
