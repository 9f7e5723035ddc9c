"""Text to tree and back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Number

import pytest
from pydantic import BaseModel, ValidationError

from headrace.expressions.columns import col
from headrace.expressions.expression import Expression, ExpressionSyntaxError
from headrace.expressions.tree import Call, Cast, Column, Field, Item, Literal
from headrace.model.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, YEAR_INTERVAL, Decimal


def tree(text: str) -> object:
    return Expression.parse(text).tree


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a+1", "a   +\n1"),
        ("a AND b", "a and b"),
        ("UPPER(x)", "upper( x )"),
        ("a != b", "a <> b"),
        ("a == b", "a = b"),
        ("x IS NULL", "isnull(x)"),
        ("x IS NOT NULL", "isnotnull(x)"),
        ("x NOT IN (1, 2)", "NOT x IN (1, 2)"),
        ("int(x)", "CAST(x AS INTEGER)"),
        ("x::bigint", "cast(x as long)"),
        ("EXTRACT(YEAR FROM t)", "date_part('year', t)"),
        ("trim(LEADING 'x' FROM s)", "ltrim('x', s)"),
        ("substring(s FROM 1 FOR 2)", "substr(s, 1, 2)"),
        ("CASE a WHEN 1 THEN 2 END", "CASE WHEN a = 1 THEN 2 END"),
        ("x IS DISTINCT FROM y", "NOT (x <=> y)"),
        ("a LIKE ANY ('x', 'y')", "a LIKE 'x' OR a LIKE 'y'"),
        ("first(x) IGNORE NULLS", "first(x, true)"),
        ("dateadd(DAY, 1, t)", "timestampadd(DAY, 1, t)"),
        ("((a))", "a"),
        ("`a`", "a"),
        ('"x"', "'x'"),
        ("'it''s'", r"'it\'s'"),
        ("'a' 'b'", "'ab'"),
        ("1.5BD", "1.5"),
        ("INTERVAL '90' SECONDS", "interval 1 minute 30 seconds"),
    ],
)
def test_forms_that_mean_the_same_are_equal(one: str, other: str) -> None:
    assert Expression.parse(one) == Expression.parse(other)
    assert hash(Expression.parse(one)) == hash(Expression.parse(other))
    assert Expression.parse(one).sql == Expression.parse(other).sql


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("(a + b) * c", "(a + b) * c"),
        ("a + (b * c)", "a + b * c"),
        ("a - (b - c)", "a - (b - c)"),
        ("(a - b) - c", "a - b - c"),
        ("not (a and b)", "NOT (a AND b)"),
        ("not a = b", "NOT a = b"),
        ("(not a) = b", "(NOT a) = b"),
        ("a or b and c", "a OR b AND c"),
        ("(a or b) and c", "(a OR b) AND c"),
        ("(a = b) is null", "a = b IS NULL"),
        ("a = (b is null)", "a = (b IS NULL)"),
        ("-(-a)", "-(-a)"),
        ("- -1", "-(-1)"),
        ("1 - -1", "1 - -1"),
        ("-a.b[0]", "-a.b[0]"),
        ("(a + b).c", "(a + b).c"),
        ("(-1)[0]", "(-1)[0]"),
        ("a between b + 1 and (c between 1 and 2)", "a BETWEEN b + 1 AND (c BETWEEN 1 AND 2)"),
        ("a & b | c ^ d", "a & b | c ^ d"),
        ("a & (b | c)", "a & (b | c)"),
        ("count(distinct a) filter (where b)", "count(DISTINCT a) FILTER (WHERE b)"),
        ("`order` + `a b`.`c``d`", "`order` + `a b`.`c``d`"),
        ("1e3", "1000.0D"),
        ("1L + 5000000000", "1L + 5000000000"),
        ("r'a\\d'", "'a\\\\d'"),
    ],
)
def test_parentheses_stand_only_where_needed(text: str, sql: str) -> None:
    assert Expression.parse(text).sql == sql
    assert Expression.parse(sql) == Expression.parse(text)


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("1", 1, INT),
        ("-2147483648", -(2**31), INT),
        ("3000000000", 3_000_000_000, BIGINT),
        ("-9223372036854775808", -(2**63), BIGINT),
        ("9223372036854775808", Number(2**63), Decimal(19, 0)),
        ("1.50", Number("1.50"), Decimal(3, 2)),
        (".05", Number("0.05"), Decimal(2, 2)),
        ("1e-3", 0.001, DOUBLE),
        ("2.5D", 2.5, DOUBLE),
        (r"'a\nb\u00e9\'\%'", "a\nbé'\\%", STRING),
        ("DATE '2024-02-29'", date(2024, 2, 29), DATE),
        ("TIMESTAMP '2024-01-01 10:00:00+02:00'", datetime(2024, 1, 1, 8, tzinfo=UTC), TIMESTAMP),
        ("INTERVAL '1-2' YEAR TO MONTH", 14, YEAR_INTERVAL),
    ],
)
def test_literals_have_sparks_value_and_type(text: str, value: object, kind: object) -> None:
    found = tree(text)
    assert isinstance(found, Literal)
    assert (found.value, found.type) == (value, kind)
    assert tree(Expression.parse(text).sql) == found


def test_intervals_are_lengths_of_time() -> None:
    found = tree("INTERVAL '1 02:03:04.5' DAY TO SECOND")
    assert isinstance(found, Literal)
    assert found.value == timedelta(days=1, hours=2, minutes=3, seconds=4.5)


def test_dots_and_brackets_reach_into_values() -> None:
    assert tree("a.b[0]['k']") == Item(
        of=Item(of=Field(of=Column(name="a"), name="b"), key=Literal(value=0, type=INT)),
        key=Literal(value="k", type=STRING),
    )


def test_casts_keep_nested_types() -> None:
    found = tree("cast(x as map<string, array<struct<a: decimal(5,2), b: int>>>)")
    assert isinstance(found, Cast)
    assert str(found.type) == "map<string,array<struct<a:decimal(5,2),b:int>>>"


def test_nodes_know_where_they_stood() -> None:
    found = Expression.parse("amount +  missing")
    assert isinstance(found.tree, Call)
    assert [a.at for a in found.tree.args] == [0, 10]


@pytest.mark.parametrize(
    ("text", "at", "part"),
    [
        ("", 0, "empty"),
        ("a +", 3, "the end"),
        ("a b", 2, "unexpected"),
        ("(a", 2, '")"'),
        ("a; b", 1, "semicolon"),
        ("a -- x", 2, "comment"),
        ("/* x */ a", 0, "comment"),
        ("select 1", 0, "SELECT"),
        ("a in (select 1)", 6, "query"),
        ("sum(a) over (partition by b)", 7, "OVER"),
        ("a as b", 2, "name"),
        ("'abc", 0, "quote"),
        ("f(a => 1)", 2, "position"),
        ("x -> x", 2, "->"),
        ("a = not b", 4, "unexpected"),
        ("date '2024-13-01'", 0, "not a date"),
        ("interval 1 month 2 days", 0, "not of both"),
        ("cast(a as foo)", 10, "foo"),
        ("cast(a as varchar(3))", 10, "varchar"),
        ("sum(*)", 4, "count"),
        ("1" * 39, 0, "38"),
        ("a && b", 2, "&&"),
        ("?", 0, "unexpected"),
        ("order", 0, "order"),
        ("x in ()", 6, "empty"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, at: int, part: str) -> None:
    with pytest.raises(ExpressionSyntaxError) as caught:
        Expression.parse(text)
    assert caught.value.at == at
    assert part in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "a" + ")" * 4900,
        "-" + " -" * 4000 + "a",
        "a" + " + a" * 2400,
        "not " * 2400 + "a",
        "f(" * 2000 + "a" + ")" * 2000,
        "a" + "[0]" * 2000,
        "case when " * 900,
        "cast(a as " + "array<" * 1500 + "int" + ">" * 1500 + ")",
        "x" * 10_001,
    ],
    ids=lambda t: t[:12],
)
def test_monstrous_text_is_refused_and_does_not_crash(text: str) -> None:
    with pytest.raises(ExpressionSyntaxError):
        Expression.parse(text)


def test_columns_leave_out_lambda_parameters() -> None:
    e = Expression.parse("aggregate(items, 0, (acc, x) -> acc + x * rate) + x")
    assert e.columns() == {"items", "rate", "x"}


class _Model(BaseModel):
    where: Expression


def test_an_expression_is_a_field_type() -> None:
    model = _Model.model_validate({"where": "amount  > 3"})
    assert model.where == Expression.parse("amount > 3")
    assert model.model_dump() == {"where": "amount > 3"}
    assert model.model_dump_json() == '{"where":"amount > 3"}'
    assert _Model.model_json_schema()["properties"]["where"]["format"] == "expression"


@pytest.mark.parametrize(("value", "sql"), [(3, "3"), (True, "TRUE"), (1.5, "1.5D"), (col("a") > 1, "a > 1")])
def test_plain_values_and_columns_are_taken_too(value: object, sql: str) -> None:
    assert _Model.model_validate({"where": value}).where.sql == sql


def test_a_bad_expression_becomes_a_problem_with_code_and_place() -> None:
    with pytest.raises(ValidationError) as caught:
        _Model.model_validate({"where": "a > {x}"})
    (error,) = caught.value.errors()
    assert error["type"] == "headrace"
    assert error["ctx"]["code"] == "bad-expression"
    assert error["ctx"]["at"] == 4
