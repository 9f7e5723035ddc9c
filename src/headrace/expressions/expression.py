"""An expression as a value: parsed once, compared by its tree, printed in one spelling.

>>> Expression.parse("amount*2  >  3") == Expression.parse("AMOUNT * 2 > 3".replace("AMOUNT", "amount"))
True
>>> Expression.parse("upper( name )  is not null").sql
'upper(name) IS NOT NULL'
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal as Number
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError, core_schema

from headrace.expressions.lex import ExpressionSyntaxError
from headrace.expressions.literals import type_of_value
from headrace.expressions.parse import parse
from headrace.expressions.show import show
from headrace.expressions.tree import Column, Lambda, Literal, Node

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

__all__ = ["Expression", "ExpressionSyntaxError"]


@dataclass(frozen=True)
class Expression:
    """A tree, and the text it was written as (which does not count for equality)."""

    tree: Node
    text: str = field(default="", compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Expression:
        """The expression a Spark SQL text means; raises ExpressionSyntaxError."""
        return cls(parse(text), _on_one_line(text))

    @classmethod
    def of(cls, value: object) -> Expression:
        """What an author may give for one: text, a plain value, a column of the Python API; raises as validators do."""
        return _validated(value)

    @property
    def column_name(self) -> str | None:
        """The column it is, if it is nothing but a column."""
        return self.tree.name if isinstance(self.tree, Column) else None

    @cached_property
    def sql(self) -> str:
        """Canonical Spark SQL."""
        return show(self.tree)

    def columns(self) -> frozenset[str]:
        """The input columns it reads, as written; parameters of its lambdas are not among them.

        >>> sorted(Expression.parse("transform(items, x -> x.price * rate)").columns())
        ['items', 'rate']
        """
        return frozenset(_columns(self.tree, frozenset()))

    def __str__(self) -> str:
        return self.sql

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _validated, serialization=core_schema.to_string_ser_schema(when_used="always")
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "string", "format": "expression"}


_QUOTED_OR_SPACE = re.compile(r"""('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`)|\s+""", re.DOTALL)


def _on_one_line(text: str) -> str:
    """The text as it was written, but for space that only laid it out over several lines."""
    if "\n" not in text and "  " not in text:
        return text
    return _QUOTED_OR_SPACE.sub(lambda m: m[1] or " ", text).strip()


def _columns(node: Node, hidden: frozenset[str]) -> set[str]:
    if isinstance(node, Column):
        return set() if node.name.lower() in hidden else {node.name}
    if isinstance(node, Lambda):
        hidden = hidden | {p.lower() for p in node.parameters}
    found: set[str] = set()
    for child in node.children():
        found |= _columns(child, hidden)
    return found


def _validated(value: Any) -> Expression:
    """What an author may give for an expression: text, a plain value, an expression, a column of the Python API."""
    if isinstance(value, Expression):
        return value
    built = getattr(value, "expression", None)
    if isinstance(built, Expression):
        return built
    if isinstance(value, bool | int | float | Number):
        kind = type_of_value(value)
        if kind is not None:
            tree = Literal(value=value, type=kind)
            return Expression(tree, show(tree))
    if not isinstance(value, str):
        raise _refused(f"{value!r} is not an expression", "write Spark SQL, such as amount * 2 > 3", 0)
    try:
        return Expression.parse(value)
    except ExpressionSyntaxError as error:
        raise _refused(error.message, error.hint, error.at) from None


def _refused(message: str, hint: str, at: int) -> PydanticCustomError:
    context = {"message": message, "code": "bad-expression", "hint": hint, "at": at}
    return PydanticCustomError("headrace", "{message}", context)
