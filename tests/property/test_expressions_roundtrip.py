"""Whatever tree there is, its text is read back as the same tree; whatever text there is, nothing crashes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headrace.expressions.expression import Expression, ExpressionSyntaxError
from headrace.expressions.functions import functions
from headrace.expressions.literals import type_of_value
from headrace.expressions.parse import CASTS, depth, parse
from headrace.expressions.precedence import BINARY_LEVELS
from headrace.expressions.show import show
from headrace.expressions.tree import Call, Case, Cast, Column, Field, Item, Lambda, Literal, Node
from headrace.expressions.typing import type_of
from headrace.model import Schema
from headrace.model.types import BIGINT, FLOAT, SMALLINT, TINYINT, YEAR_INTERVAL, Array, Map, parse_type

names = st.one_of(
    st.sampled_from(["a", "b", "Name", "order", "date", "interval", "x y", "é", "1a", "`", "null"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8),
)
plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12),
    st.binary(max_size=6),
    st.dates(),
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)),
    st.timedeltas(timedelta(days=-10_000), timedelta(days=10_000)),
)


def literal(value: object) -> Literal:
    kind = type_of_value(value)
    assert kind is not None
    return Literal(value=value, type=kind)


literals = st.one_of(
    plain.map(literal),
    st.integers(-(2**7), 2**7 - 1).map(lambda v: Literal(value=v, type=TINYINT)),
    st.integers(-(2**15), 2**15 - 1).map(lambda v: Literal(value=v, type=SMALLINT)),
    st.integers(-100, 100).map(lambda v: Literal(value=v, type=BIGINT)),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda v: Literal(value=v, type=FLOAT)),
    st.integers(-1000, 1000).map(lambda v: Literal(value=v, type=YEAR_INTERVAL)),
)
types = st.recursive(
    st.sampled_from([*map(parse_type, ("int", "string", "decimal(5,2)", "timestamp_ntz", "struct<a:int>"))]),
    lambda inner: st.one_of(inner.map(Array), st.tuples(inner, inner).map(lambda p: Map(*p))),
    max_leaves=3,
)
SPECIAL = {"cast", "if", "timestampadd", "timestampdiff", "extract", "trim", "substring", "substr", "struct"} | {
    "position",
    "overlay",
}
called = st.sampled_from(sorted(set(functions()) - set(CASTS) - SPECIAL - {"like", "ilike", "rlike", "regexp"}))


def negative(node: Node) -> Node:
    """Minus a node; a number written out has its sign in itself."""
    written = isinstance(node, Literal) and show(node)[:1].isdigit()
    return Call(function="~" if written else "-", args=(node,))


def extend(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    def call(function: str, *args: Node) -> Node:
        return Call(function=function, args=args)

    pair = st.tuples(inner, inner)
    return st.one_of(
        st.builds(call, st.sampled_from(sorted(BINARY_LEVELS)), inner, inner),
        st.builds(call, st.sampled_from(["not", "~", "+", "isnull", "isnotnull"]), inner),
        inner.map(negative),
        st.builds(call, st.just("between"), inner, inner, inner),
        st.builds(lambda f, xs: call(f, *xs), st.just("in"), st.lists(inner, min_size=2, max_size=4)),
        st.builds(call, st.sampled_from(["like", "rlike", "ilike"]), inner, inner),
        st.builds(lambda f, xs: call(f, *xs), called, st.lists(inner, max_size=3)),
        st.builds(
            lambda a, b, w, d: Call(function="sum", args=(a,), where=b if w else None, distinct=d),
            inner,
            inner,
            st.booleans(),
            st.booleans(),
        ),
        st.builds(lambda of, name: Field(of=of, name=name), inner, names),
        pair.map(lambda p: Item(of=p[0], key=p[1])),
        st.builds(lambda of, kind, attempt: Cast(of=of, type=kind, attempt=attempt), inner, types, st.booleans()),
        st.builds(
            lambda whens, other: Case(whens=tuple(whens), otherwise=other),
            st.lists(pair, min_size=1, max_size=2),
            st.one_of(st.none(), inner),
        ),
        st.builds(
            lambda xs, ps, body: call("transform", xs, Lambda(parameters=tuple(ps), body=body)),
            inner,
            st.lists(names, min_size=1, max_size=2, unique_by=str.lower),
            inner,
        ),
    )


trees = st.recursive(st.one_of(literals, names.map(lambda n: Column(name=n))), extend, max_leaves=12)


@given(trees.filter(lambda t: depth(t) < 60))
def test_a_tree_is_read_back_from_its_text(tree: Node) -> None:
    assert parse(show(tree)) == tree


PIECES = st.sampled_from(
    "a b 1 1.5 'x' \" ` ( ) [ ] , . + - * / % = <> <=> < and or not in is null like between case when then else end "
    "cast as int interval day '1' date x'1' :: -> => ; -- /* */ { } $ ? @ # \\ count( distinct filter where over "
    "select from array< > >> extract trim both 1L 1e9 é \n".split(" ")
)


@given(
    st.one_of(
        st.text(max_size=60), st.lists(PIECES, max_size=25).map(" ".join), st.lists(PIECES, max_size=25).map("".join)
    )
)
def test_any_text_is_read_or_refused_and_never_crashes(text: str) -> None:
    schema = Schema.parse("a int, b array<string>")
    try:
        e = Expression.parse(text)
    except ExpressionSyntaxError as error:
        assert 0 <= error.at <= len(text)
        return
    assert Expression.parse(e.sql) == e
    type_of(e, schema, lambda code, message, *, hint="", at=0: None)


@given(trees.filter(lambda t: depth(t) < 40))
def test_any_tree_is_typed_without_a_crash(tree: Node) -> None:
    for aggregate in (False, True):
        type_of(
            Expression(tree), Schema.parse("a int, b string"), lambda c, m, *, hint="", at=0: None, aggregate=aggregate
        )
