"""Expressions written in Python: `col("amount") * 2 > 3` is the tree of the SQL text `amount * 2 > 3`.

>>> (col("amount") * 2 > 3).expression.sql
'amount * 2 > 3'
>>> when(col("n").is_null(), 0).otherwise(fn.abs(col("n"))).expression.sql
'CASE WHEN n IS NULL THEN 0 ELSE abs(n) END'
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from headrace.expressions.expression import Expression
from headrace.expressions.functions import functions
from headrace.expressions.literals import type_of_value
from headrace.expressions.parse import CASTS
from headrace.expressions.tree import Call, Case, Cast, Column, Field, Item, Lambda, Literal, Named, Node, Star
from headrace.model.types import DOUBLE, STRING, parse_type

__all__ = ["Col", "col", "fn", "lit", "when"]


@dataclass(frozen=True, eq=False)
class Col:
    """A column expression; operators build the tree, nothing is computed."""

    tree: Node = field(repr=False)

    @property
    def expression(self) -> Expression:
        """The expression as a value, equal to the one its SQL text gives."""
        made = Expression(self.tree)
        return Expression(self.tree, made.sql)

    def __repr__(self) -> str:
        return f"<column {self.expression.sql}>"

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r} has no truth value while the flow is written: use & for and, | for or, ~ for not")

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be gone through while the flow is written: use an explode step")

    def __contains__(self, item: object) -> NoReturn:
        raise TypeError(f"`in` needs an answer now; use {self!r}.isin(…) or fn.array_contains(…)")

    # -- arithmetic

    def __add__(self, other: Any) -> Col:
        return _call("+", self, other)

    def __radd__(self, other: Any) -> Col:
        return _call("+", other, self)

    def __sub__(self, other: Any) -> Col:
        return _call("-", self, other)

    def __rsub__(self, other: Any) -> Col:
        return _call("-", other, self)

    def __mul__(self, other: Any) -> Col:
        return _call("*", self, other)

    def __rmul__(self, other: Any) -> Col:
        return _call("*", other, self)

    def __truediv__(self, other: Any) -> Col:
        return _call("/", self, other)

    def __rtruediv__(self, other: Any) -> Col:
        return _call("/", other, self)

    def __mod__(self, other: Any) -> Col:
        return _call("%", self, other)

    def __rmod__(self, other: Any) -> Col:
        return _call("%", other, self)

    def __neg__(self) -> Col:
        return _call("-", self)

    def __abs__(self) -> Col:
        return _call("abs", self)

    # -- comparison and logic

    def __eq__(self, other: object) -> Col:  # type: ignore[override]
        return _call("=", self, other)

    def __ne__(self, other: object) -> Col:  # type: ignore[override]
        return _call("<>", self, other)

    def __lt__(self, other: Any) -> Col:
        return _call("<", self, other)

    def __le__(self, other: Any) -> Col:
        return _call("<=", self, other)

    def __gt__(self, other: Any) -> Col:
        return _call(">", self, other)

    def __ge__(self, other: Any) -> Col:
        return _call(">=", self, other)

    def __and__(self, other: Any) -> Col:
        return _call("and", self, other)

    def __rand__(self, other: Any) -> Col:
        return _call("and", other, self)

    def __or__(self, other: Any) -> Col:
        return _call("or", self, other)

    def __ror__(self, other: Any) -> Col:
        return _call("or", other, self)

    def __invert__(self) -> Col:
        return _call("not", self)

    def same_as(self, other: Any) -> Col:
        """Equal, where null is equal to null: `a <=> b`."""
        return _call("<=>", self, other)

    def is_null(self) -> Col:
        """`x IS NULL`."""
        return _call("isnull", self)

    def is_not_null(self) -> Col:
        """`x IS NOT NULL`."""
        return _call("isnotnull", self)

    def between(self, low: Any, high: Any) -> Col:
        """`x BETWEEN low AND high`, both ends included."""
        return _call("between", self, low, high)

    def isin(self, *values: Any) -> Col:
        """`x IN (…)`; one list or several values."""
        listed = values[0] if len(values) == 1 and isinstance(values[0], list | tuple | set | frozenset) else values
        if not listed:
            raise ValueError("isin needs at least one value")
        ordered = sorted(listed, key=repr) if isinstance(listed, set | frozenset) else listed
        return _call("in", self, *ordered)

    def like(self, pattern: str) -> Col:
        """`x LIKE pattern`, where % is any text and _ any character."""
        return _call("like", self, pattern)

    def rlike(self, pattern: str) -> Col:
        """`x RLIKE pattern`, a regular expression found anywhere."""
        return _call("rlike", self, pattern)

    def startswith(self, text: Any) -> Col:
        """True where text begins so."""
        return _call("startswith", self, text)

    def endswith(self, text: Any) -> Col:
        """True where text ends so."""
        return _call("endswith", self, text)

    def contains(self, text: Any) -> Col:
        """True where text has this in it."""
        return _call("contains", self, text)

    # -- parts and types

    def cast(self, kind: str, *, attempt: bool = False) -> Col:
        """The value as another type; with `attempt` null where a plain cast would fail."""
        return Col(Cast(of=self.tree, type=parse_type(kind), attempt=attempt))

    def __getitem__(self, key: Any) -> Col:
        """A field of a struct by a name that is one, else an item of an array or map."""
        return Col(Item(of=self.tree, key=_node(key)))

    def field(self, name: str) -> Col:
        """A field of a struct: `x.name`."""
        return Col(Field(of=self.tree, name=name))

    def named(self, name: str) -> Col:
        """Its name inside `fn.struct(…)`."""
        return Col(Named(name=name, of=self.tree))

    # -- aggregates

    def where(self, condition: Any) -> Col:
        """An aggregate over only the rows that fit: `FILTER (WHERE …)`."""
        if not isinstance(self.tree, Call):
            raise TypeError(f"{self!r} is not an aggregate")
        return Col(
            Call(function=self.tree.function, args=self.tree.args, distinct=self.tree.distinct, where=_node(condition))
        )

    def distinct(self) -> Col:
        """An aggregate over different values only: `count(DISTINCT x)`."""
        if not isinstance(self.tree, Call):
            raise TypeError(f"{self!r} is not an aggregate")
        return Col(Call(function=self.tree.function, args=self.tree.args, distinct=True, where=self.tree.where))


def _node(value: Any) -> Node:
    """The node of anything one may write in an expression."""
    if isinstance(value, Col):
        return value.tree
    if isinstance(value, Expression):
        return value.tree
    if isinstance(value, float) and not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return Cast(of=Literal(value=text, type=STRING), type=DOUBLE)
    kind = type_of_value(value)
    if kind is None:
        raise TypeError(f"{value!r} cannot stand in an expression; it takes columns and plain values")
    return Literal(value=value, type=kind)


def _call(function: str, *args: Any) -> Col:
    return Col(Call(function=function, args=tuple(_node(a) for a in args)))


def col(name: str) -> Col:
    """A column of the input by its whole name; a field of a struct is `col("a").field("b")`."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"col takes the name of a column, not {name!r}")
    return Col(Column(name=name))


def lit(value: Any) -> Col:
    """A plain value: None, bool, int, float, Decimal, str, bytes, date, datetime or timedelta."""
    return Col(_node(value))


@dataclass(frozen=True, eq=False)
class When(Col):
    """`CASE WHEN …`, which may go on: `.when(…)`, `.otherwise(…)`."""

    def when(self, condition: Any, value: Any) -> When:
        """One more case."""
        assert isinstance(self.tree, Case)
        return When(Case(whens=(*self.tree.whens, (_node(condition), _node(value)))))

    def otherwise(self, value: Any) -> Col:
        """What it is where no case fits; null without it."""
        assert isinstance(self.tree, Case)
        return Col(Case(whens=self.tree.whens, otherwise=_node(value)))


def when(condition: Any, value: Any) -> When:
    """`CASE WHEN condition THEN value`, to be ended with `.otherwise(…)`."""
    return When(Case(whens=((_node(condition), _node(value)),)))


class _Functions:
    """Every function of Spark SQL we know, by name: `fn.upper(col("name"))`.

    A Python lambda becomes a lambda of the expression: `fn.transform(col("items"), lambda x: x * 2)`.
    """

    def __getattr__(self, name: str) -> Callable[..., Col]:
        lower = name.rstrip("_").lower()
        if name.startswith("__") or (lower not in functions() and lower not in CASTS):
            from headrace.expressions.typing import closest

            raise AttributeError(f'there is no function "{name}"; {closest(lower)}')

        def function(*args: Any) -> Col:
            if lower in CASTS and len(args) == 1:
                return Col(Cast(of=_node(args[0]), type=CASTS[lower]))
            if lower == "count" and (not args or (isinstance(args[0], str) and args[0] == "*")):
                return Col(Call(function="count", args=(Star(),)))
            return Col(Call(function=lower, args=tuple(_argument(a) for a in args)))

        function.__name__ = lower
        function.__doc__ = " or ".join(str(s) for s in functions().get(lower, ()))
        return function

    def __dir__(self) -> list[str]:
        return sorted(functions())


def _argument(value: Any) -> Node:
    if callable(value) and not isinstance(value, Col):
        code = getattr(value, "__code__", None)
        names = code.co_varnames[: code.co_argcount] if code is not None else ()
        if not names:
            raise TypeError(f"{value!r} is not a lambda of columns")
        return Lambda(parameters=names, body=_node(value(*(col(n) for n in names))))
    return _node(value)


fn = _Functions()
"""All known functions."""
