"""Option types that several operators share: named expressions, and expressions that may be Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from headrace.expressions.expression import Expression
from headrace.expressions.typing import type_of
from headrace.model import Schema
from headrace.model.types import BOOLEAN, UNKNOWN, DataType, quote
from headrace.operators.base import Say
from headrace.operators.functions import Function
from headrace.options import Options, refuse, refuse_all

Value = Expression | Function
"""What a column can be made from: SQL, a column expression, or a Python function of columns."""


def parse_value(value: object) -> Value:
    """An expression from text or a column, or a function from a callable or `{python: …}`."""
    if Function.is_one(value):
        return Function.parse(value)
    return Expression.of(value)


ValueOption = Annotated[
    Value,
    BeforeValidator(parse_value),
    PlainSerializer(lambda v: v.plain() if isinstance(v, Function) else v.text),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "format": "expression"},
                {"type": "object", "properties": {"python": {"type": "string"}, "returns": {"type": "string"}}},
            ]
        }
    ),
]


class NamedValue(Options):
    """A column to be made: its name, and what from."""

    name: str
    value: ValueOption

    def plain(self) -> object:
        """The shortest flow-file form."""
        if isinstance(self.value, Expression) and self.value.sql == quote(self.name):
            return self.name
        return {self.name: self.value.plain() if isinstance(self.value, Function) else self.value.text}


_ALIAS = re.compile(r"(?is)^(?P<value>.+?)\s+as\s+(?P<name>[a-z_]\w*|`[^`]+`)\s*$")


def parse_columns(given: object) -> tuple[NamedValue, ...]:
    """Columns from `{name: value}`, or from a list of names, `expression AS name` and `{name: value}`."""
    found: list[NamedValue] = []
    wrong: list[tuple[tuple[str | int, ...], PydanticCustomError]] = []
    names: set[str] = set()
    for path, name, item in _items(given):
        if item is None and wrong:
            continue  # `{a: f(x, y)}` without quotes is `a: f(x` and an empty `y)`
        try:
            column = _named(name, item)
            if column.name.lower() in names:
                raise refuse("duplicate-name", f'column "{column.name}" is made twice')
        except PydanticCustomError as error:
            wrong.append((path, error))
        else:
            names.add(column.name.lower())
            found.append(column)
    if wrong:
        raise refuse_all(wrong)
    return tuple(found)


def _items(given: object) -> Iterator[tuple[tuple[str | int, ...], object, object]]:
    """Where each column stands, its name if it was given one, and what it is made from."""
    if isinstance(given, Mapping):
        yield from (((name,), name, value) for name, value in given.items())
    elif isinstance(given, list | tuple):
        for index, item in enumerate(given):
            if isinstance(item, Mapping):
                yield from (((index, name), name, value) for name, value in item.items())
            else:
                yield (index,), None, item
    else:
        yield (), None, given


def _named(name: object, item: object) -> NamedValue:
    if name is not None:
        return NamedValue(name=_column_name(name), value=parse_value(item))
    if isinstance(item, NamedValue):
        return item
    alias = _ALIAS.match(item) if isinstance(item, str) else None
    if alias:
        return NamedValue(name=alias["name"].strip("`"), value=parse_value(alias["value"]))
    value = parse_value(item)
    own = value.column_name if isinstance(value, Expression) else value.name
    if own is None:
        raise refuse("bad-expression", f"the column made by {item!r} has no name", "write {name: expression}")
    return NamedValue(name=own, value=value)


def _column_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > 200:
        raise refuse("bad-option", f"{name!r} is not a column name", "put it in quotes")
    return name


def show_columns(columns: tuple[NamedValue, ...]) -> Any:
    """A mapping where every column has a name of its own, else a list."""
    plain = [c.plain() for c in columns]
    if plain and all(isinstance(p, dict) for p in plain):
        return {name: value for p in plain if isinstance(p, dict) for name, value in p.items()}
    return plain[0] if len(plain) == 1 else plain


Columns = Annotated[
    tuple[NamedValue, ...],
    BeforeValidator(parse_columns),
    PlainSerializer(show_columns),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "object", "additionalProperties": {"type": "string", "format": "expression"}},
                {"type": "array", "items": {"type": "string", "format": "expression"}},
            ]
        }
    ),
]
"""Columns to be made, in order: `{name: expression}`, or a list of names and `expression AS name`."""


def typed(value: Value, given: Schema, say: Say, *option: str | int) -> DataType:
    """The type of a value over these columns; what is wrong is said at the option."""
    if isinstance(value, Function):
        return value.column_type(given, say, *option)

    def place(code: str, message: str, *, hint: str = "", at: int = 0) -> None:
        say(code, message, *option, hint=hint, at=at)

    return type_of(value, given, place)


def typed_columns(columns: tuple[NamedValue, ...], given: Schema, say: Say, option: str) -> list[tuple[str, DataType]]:
    """Name and type of each column to be made."""
    return [(c.name, typed(c.value, given, say, option, c.name)) for c in columns]


def condition(value: Value, given: Schema, say: Say, *option: str | int) -> None:
    """Says so unless the value is a yes or no."""
    found = typed(value, given, say, *option)
    if found not in (BOOLEAN, UNKNOWN):
        say("type-mismatch", f"a condition must be boolean, but {value} is {found}", *option)


def has_columns(names: Iterable[str], given: Schema, say: Say, *option: str | int) -> list[str]:
    """The names as the input spells them; those it does not have are said."""
    from headrace.errors import nearest

    found = []
    for index, name in enumerate(names):
        column = given.find(name)
        if column is None:
            hint = nearest(name, given.names).replace("It takes", "The input has")
            say("unknown-column", f'there is no column "{name}"', *option, index, hint=hint)
        else:
            found.append(column.name)
    return found


def reads(values: Iterable[Value]) -> frozenset[str]:
    """All columns that are read to make these values."""
    return frozenset(name for value in values for name in value.columns())
