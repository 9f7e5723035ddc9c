"""The lowering to Arrow: which expressions a native engine computes exactly as Spark does, and the program for it.

Only what stands in the tables below is moved, and only for the types named there; a test generates expressions and
values and compares both. Where the two would differ for some values (an overflow, which in Spark is an error; letters
beyond ASCII), the program says of each row whether its answer is sure, and rows of which it is not are left to Spark.

A program is plain data, so that a worker needs nothing of ours but `arrow_run` to run it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal as Number
from typing import Any

from headrace.expressions.tree import Call, Column, Literal, Node
from headrace.model.types import BOOLEAN, DATE, DOUBLE, INT, INTEGERS, STRING, TIMESTAMP, DataType, Decimal

Program = tuple[Any, ...]
"""`("column", name)`, `("literal", kind, value)` or `(operation, …)` with programs for its arguments."""
Known = Mapping[str, tuple[Program, DataType]]
"""By lower-case name, the columns an expression may read: how each is had, and its type."""

TYPES: tuple[DataType, ...] = (STRING, BOOLEAN, *INTEGERS, DOUBLE, DATE, TIMESTAMP)
COMPARISONS = {"=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "<=>": "same"}
ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "%": "remainder"}
LOGIC = {"and": "and", "or": "or", "not": "not"}
OF_ANY = {"isnull": "is_null", "isnotnull": "is_not_null"}
OF_TEXT = {"lower": "lower", "upper": "upper", "trim": "trim", "ltrim": "ltrim", "rtrim": "rtrim", "length": "length"}
IN_TEXT = {"startswith": "starts", "endswith": "ends", "contains": "contains"}
MOVABLE = (
    *COMPARISONS,
    *ARITHMETIC,
    *LOGIC,
    *OF_ANY,
    *OF_TEXT,
    *IN_TEXT,
    "in",
    "between",
    "like",
    "coalesce",
)
"""Every function and operator that may move."""


class StaysError(Exception):
    """An expression stays in Spark; its text says why."""


def program(node: Node, known: Known) -> tuple[Program, DataType]:
    """How an expression is computed natively, and its type; raises StaysError where that is not proved equal."""
    match node:
        case Column():
            if (found := known.get(node.name.lower())) is None:
                raise StaysError(f'column "{node.name}" does not come from the record')
            return found
        case Literal():
            return _literal(node)
        case Call(distinct=False, where=None):
            return _call(node, known)
    raise StaysError(f"{type(node).__name__.lower()} is not among what is moved")


def _literal(node: Literal) -> tuple[Program, DataType]:
    value = node.value
    if isinstance(value, datetime):
        value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        since = value - datetime(1970, 1, 1, tzinfo=UTC)
        value = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    elif isinstance(value, date):
        value = (value - date(1970, 1, 1)).days
    elif isinstance(value, Number):
        value = str(value)
    if node.type not in TYPES and not isinstance(node.type, Decimal):
        raise StaysError(f"a value of type {node.type} is not among what is moved")
    return ("literal", "decimal" if isinstance(node.type, Decimal) else str(node.type), value), node.type


def _call(node: Call, known: Known) -> tuple[Program, DataType]:
    name = node.function
    if name not in MOVABLE:
        raise StaysError(f"{name} is not among the functions that are moved")
    given = [program(argument, known) for argument in node.args]
    if name in COMPARISONS or name in ("in", "between"):
        return _compared(name, given), BOOLEAN
    if name in ARITHMETIC and (len(given) == 2 or name == "-"):
        return _arithmetic(name, given)
    if name in LOGIC:
        return (LOGIC[name], *_all(name, given, BOOLEAN)), BOOLEAN
    if name in OF_ANY:
        return (OF_ANY[name], given[0][0]), BOOLEAN
    if name in OF_TEXT and len(given) == 1:
        return (OF_TEXT[name], *_all(name, given, STRING)), INT if name == "length" else STRING
    if name in IN_TEXT or (name == "like" and len(given) == 2):
        return _in_text(name, _all(name, given, STRING)), BOOLEAN
    if name == "coalesce" and len({kind for _, kind in given}) == 1 and given[0][1] in TYPES:
        return ("coalesce", *(p for p, _ in given)), given[0][1]
    raise StaysError(f"{name} is not moved in this form")


def _all(name: str, given: list[tuple[Program, DataType]], wanted: DataType) -> list[Program]:
    for _, kind in given:
        if kind != wanted:
            raise StaysError(f"{name} of {kind} is not moved")
    return [p for p, _ in given]


def _met(name: str, given: list[tuple[Program, DataType]]) -> tuple[list[Program], DataType]:
    """The same values with one type, as Spark would make it."""
    kinds = [kind for _, kind in given]
    if len(set(kinds)) == 1 and kinds[0] in TYPES:
        return [p for p, _ in given], kinds[0]
    if all(kind in INTEGERS for kind in kinds):
        return [p for p, _ in given], max(kinds, key=INTEGERS.index)
    if DOUBLE in kinds and all(
        kind in (DOUBLE, *INTEGERS) or (isinstance(kind, Decimal) and p[0] == "literal") for p, kind in given
    ):
        return [("double", p) for p, _ in given], DOUBLE
    raise StaysError(f"{name} of {' and '.join(map(str, dict.fromkeys(kinds)))} is not moved")


def _compared(name: str, given: list[tuple[Program, DataType]]) -> Program:
    values, kind = _met(name, given)
    if kind == BOOLEAN and name not in ("=", "<>", "<=>"):
        raise StaysError(f"{name} of boolean is not moved")
    if name == "between":
        return ("and", ("ge", values[0], values[1]), ("le", values[0], values[2]))
    if name == "in":
        return _any([("eq", values[0], value) for value in values[1:]])
    return (COMPARISONS[name], *values)


def _any(conditions: list[Program]) -> Program:
    return conditions[0] if len(conditions) == 1 else ("or", conditions[0], _any(conditions[1:]))


def _arithmetic(name: str, given: list[tuple[Program, DataType]]) -> tuple[Program, DataType]:
    if len(given) == 1:
        # Not 0 - x: that has another sign for a zero.
        given = [(("literal", "tinyint", -1), given[0][1]), given[0]]
        name = "*"
    values, kind = _met(name, given)
    if kind == DOUBLE and name != "%":
        return (ARITHMETIC[name], "double", *values), DOUBLE
    if kind in INTEGERS and name == "/":
        return ("divide", "double", *(("double", p) for p in values)), DOUBLE
    if kind in INTEGERS:
        return (ARITHMETIC[name], str(kind), *values), kind
    raise StaysError(f"{name} of {kind} is not moved")


def _in_text(name: str, values: list[Program]) -> Program:
    text, part = values
    if part[0] != "literal":
        raise StaysError(f"{name} with a text that is not written out is not moved")
    if name != "like":
        return (IN_TEXT[name], text, part[2])
    pattern = part[2]
    inner = pattern.strip("%")
    if set(inner) & set("%_\\") or "\\" in pattern:
        raise StaysError(f"like {pattern!r} is not moved: only % at the ends")
    before, after = pattern.startswith("%"), pattern.endswith("%")
    if before and after:
        return ("contains", text, inner)
    return ("ends", text, inner) if before else ("starts", text, inner) if after else ("eq", text, part)
