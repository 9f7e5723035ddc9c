"""The results that one type notation cannot say: arithmetic, sums, rounding, structs, times.

A rule is given the types of the arguments and their nodes; it gives the result, or the text of what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from headrace.expressions.coerce import (
    adjusted,
    as_decimal,
    bounded,
    common,
    implicit,
    is_atomic,
    is_day_interval,
    is_interval,
    is_ordered,
    promoted,
    tightest,
)
from headrace.expressions.literals import INTERVAL_DAY, decimal_type
from headrace.expressions.tree import Column, Field, Literal, Named, Node
from headrace.model import types as t
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY_INTERVAL,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    UNKNOWN,
    VARIANT,
    VOID,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    is_integer,
    is_numeric,
)

Types = Sequence[DataType]
Nodes = Sequence[Node]
Rule = Callable[[Types, Nodes], "DataType | str"]


def arithmetic(operator: str) -> Rule:
    """The rule of `+ - * / % div` on numbers, times and intervals."""

    def rule(types: Types, nodes: Nodes) -> DataType | str:
        left, right = types
        if UNKNOWN in (left, right):
            return UNKNOWN
        moved = _times(operator, left, right)
        if moved is not None:
            return moved
        left, right = _promote(left, right)
        inexact = {left, right} & {FLOAT, DOUBLE}
        if not (is_numeric(left) and is_numeric(right)) or (operator == "div" and inexact):
            return f"{operator} does not go with {left} and {right}"
        if inexact:
            return DOUBLE if operator == "/" else tightest(left, right) or DOUBLE
        if isinstance(left, Decimal) or isinstance(right, Decimal):
            return BIGINT if operator == "div" else _exact(operator, _narrow(left, nodes, 0), _narrow(right, nodes, 1))
        return {"/": DOUBLE, "div": BIGINT}.get(operator) or tightest(left, right) or UNKNOWN

    return rule


def _promote(left: DataType, right: DataType) -> tuple[DataType, DataType]:
    """Text beside a number is read as one; null takes the other's type."""
    if VOID in (left, right):
        other = right if left == VOID else left
        other = DOUBLE if other == VOID else other
        return other, other
    if STRING in (left, right) and left != right:
        found = promoted(left, right)
        if found is not None and is_numeric(found):
            return (found if left == STRING else left), (found if right == STRING else right)
    return left, right


def _narrow(kind: DataType, nodes: Nodes, position: int) -> Decimal:
    """A decimal for one side; a whole number written out takes only the digits it has."""
    node = nodes[position] if position < len(nodes) else None
    if isinstance(node, Literal) and is_integer(kind) and isinstance(node.value, int):
        from decimal import Decimal as Number

        return decimal_type(Number(node.value)) or as_decimal(kind)
    return as_decimal(kind)


def _exact(operator: str, a: Decimal, b: Decimal) -> Decimal:
    scale, whole = max(a.scale, b.scale), max(a.precision - a.scale, b.precision - b.scale)
    match operator:
        case "*":
            return adjusted(a.precision + b.precision + 1, a.scale + b.scale)
        case "/":
            scale = max(6, a.scale + b.precision + 1)
            return adjusted(a.precision - a.scale + b.scale + scale, scale)
        case "%":
            return adjusted(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)
    return adjusted(whole + scale + 1, scale)


def _times(operator: str, left: DataType, right: DataType) -> DataType | str | None:
    """Arithmetic with dates, timestamps and intervals; None if neither side is one."""
    moments = (TIMESTAMP, TIMESTAMP_NTZ)
    if operator in ("+", "-"):
        if operator == "+" and is_interval(left) and right in (DATE, STRING, *moments):
            left, right = right, left
        if left == STRING and is_interval(right):
            return STRING
        if left in (DATE, *moments) and is_interval(right):
            if left == DATE and is_day_interval(right) and right != INTERVAL_DAY:
                return TIMESTAMP
            return left
        if operator == "+" and right == DATE and is_integer(left):
            left, right = right, left
        if operator == "+" and VOID in (left, right) and {left, right} & {DATE, *moments}:
            moment = right if left == VOID else left
            return TIMESTAMP if moment == DATE else moment
        if left == DATE and ((is_integer(right) and right != BIGINT) or right == VOID):
            return DATE
        if operator == "-" and (left in (DATE, *moments) or right in (DATE, *moments)):
            whole = {left, right} <= {DATE, STRING, VOID} and DATE in (left, right)
            if {left, right} <= {DATE, STRING, VOID, *moments}:
                return INTERVAL_DAY if whole else DAY_INTERVAL
        if is_interval(left) or is_interval(right):
            same = left == VOID or right == VOID or is_day_interval(left) == is_day_interval(right)
            if (is_interval(left) or left == VOID) and (is_interval(right) or right == VOID) and same:
                kinds = {k for k in (left, right) if k != VOID}
                return kinds.pop() if len(kinds) == 1 else DAY_INTERVAL
    if operator in ("*", "/") and is_interval(left) and (is_numeric(right) or right in (STRING, VOID)):
        return DAY_INTERVAL if is_day_interval(left) else left
    if operator == "*" and is_interval(right) and (is_numeric(left) or left in (STRING, VOID)):
        return DAY_INTERVAL if is_day_interval(right) else right
    if operator == "div" and is_interval(left) and is_interval(right):
        return BIGINT if is_day_interval(left) == is_day_interval(right) else f"div does not go with {left} and {right}"
    if {left, right} & {DATE, *moments} or is_interval(left) or is_interval(right):
        return f"{operator} does not go with {left} and {right}"
    return None


def bitwise(types: Types, nodes: Nodes) -> DataType | str:
    """The rule of `& | ^`."""
    left, right = _promote(*types)
    if UNKNOWN in (left, right):
        return UNKNOWN
    left, right = (INT if k == DOUBLE and VOID in types else k for k in (left, right))
    if is_integer(left) and is_integer(right):
        return tightest(left, right) or BIGINT
    return f"a bit operation does not go with {types[0]} and {types[1]}"


def compared(types: Types, nodes: Nodes) -> DataType | str:
    """The rule of comparisons: the sides meet in one type that has an order."""
    met: DataType | None = types[0]
    for kind in types[1:]:
        both = common(met, kind) if met is not None else None
        if both is None:
            return f"{types[0]} and {kind} do not compare"
        met = both
    if met is not None and not is_ordered(met):
        return f"{met} does not compare"
    return BOOLEAN


def truth(types: Types, nodes: Nodes) -> DataType | str:
    """The rule of AND and OR."""
    for kind in types:
        if kind not in (BOOLEAN, VOID, UNKNOWN) and not (kind == STRING and BOOLEAN in types):
            return f"AND and OR take boolean, not {kind}"
    return BOOLEAN


def joined(types: Types, nodes: Nodes) -> DataType | str:
    """The rule of `||` and concat."""
    if UNKNOWN in types:
        return UNKNOWN
    if any(isinstance(k, Array) for k in types) and VOID not in types:
        met: DataType | None = types[0]
        for kind in types[1:]:
            met = common(met, kind) if met is not None else None
        return met if isinstance(met, Array) else f"{types[0]} and {types[-1]} are not joined"
    if all(k == BINARY for k in types):
        return BINARY
    wrong = next((k for k in types if not is_atomic(k) and k != VOID), None)
    return f"{wrong} is not joined to text" if wrong else STRING


def _sum(types: Types, nodes: Nodes) -> DataType | str:
    kind = types[0]
    if isinstance(kind, Decimal):
        return bounded(kind.precision + 10, kind.scale)
    if is_interval(kind):
        return kind
    return BIGINT if is_integer(kind) else DOUBLE


def _avg(types: Types, nodes: Nodes) -> DataType | str:
    kind = types[0]
    if isinstance(kind, Decimal):
        return bounded(kind.precision + 4, kind.scale + 4)
    return kind if is_interval(kind) else DOUBLE


def _round(types: Types, nodes: Nodes) -> DataType | str:
    kind, digits = types[0], 0
    if len(nodes) > 1:
        places = nodes[1]
        if not (isinstance(places, Literal) and (isinstance(places.value, int) or places.value is None)):
            return "the number of digits must be written out"
        digits = places.value or 0
    if not isinstance(kind, Decimal):
        return kind
    whole = kind.precision - kind.scale + 1
    if digits < 0:
        return Decimal(min(max(whole, -digits + 1), 38), 0)
    scale = min(kind.scale, digits)
    return Decimal(min(whole + scale, 38), scale)


def _ceil(types: Types, nodes: Nodes) -> DataType | str:
    kind = types[0]
    if isinstance(kind, Decimal):
        return kind if kind.scale == 0 else bounded(kind.precision - kind.scale + 1, 0)
    return BIGINT


_PARTS = {
    **dict.fromkeys(("second", "seconds", "s", "sec", "secs"), Decimal(8, 6)),
    **dict.fromkeys(
        "year y years yr yrs yearofweek quarter qtr month mon mons months week w weeks day d days dayofweek dow "
        "dayofweek_iso dow_iso doy hour h hours hr hrs minute m min mins minutes".split(),
        INT,
    ),
}


def _date_part(types: Types, nodes: Nodes) -> DataType | str:
    part, of = nodes[0], types[1]
    if not (isinstance(part, Literal) and isinstance(part.value, str)):
        return "the part of the time must be written out"
    found = _PARTS.get(part.value.lower())
    if found is None:
        return f"a time has no part {part.value!r}"
    if of in (DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING, VOID, UNKNOWN):
        return found
    if is_interval(of):
        small = part.value.lower()[0] in "hm" and not part.value.lower().startswith("d")
        return TINYINT if small else found
    return f"{of} has no part {part.value!r}"


def _names(nodes: Nodes) -> list[str]:
    found = []
    for i, node in enumerate(nodes):
        match node:
            case Named() | Column() | Field():
                found.append(node.name)
            case _:
                found.append(f"col{i + 1}")
    return found


def _struct(types: Types, nodes: Nodes) -> DataType | str:
    return Struct(tuple(t.Field(n, k) for n, k in zip(_names(nodes), types, strict=True)))


def _named_struct(types: Types, nodes: Nodes) -> DataType | str:
    if len(nodes) % 2:
        return "named_struct takes names and values in turn"
    names = []
    for node in nodes[::2]:
        if not (isinstance(node, Literal) and isinstance(node.value, str)):
            return "the names of named_struct must be written out"
        names.append(node.value)
    return Struct(tuple(t.Field(n, k) for n, k in zip(names, types[1::2], strict=True)))


def _map(types: Types, nodes: Nodes) -> DataType | str:
    if len(types) % 2:
        return "map takes keys and values in turn"
    met: list[DataType] = []
    for kinds in (types[::2], types[1::2]):
        joined_kind: DataType | None = kinds[0]
        for kind in kinds[1:]:
            joined_kind = common(joined_kind, kind) if joined_kind is not None else None
        if joined_kind is None:
            return f"the {'values' if met else 'keys'} of the map have no common type"
        met.append(joined_kind)
    return "a map is not a key" if not is_ordered(met[0]) else Map(met[0], met[1])


def _entries(types: Types, nodes: Nodes) -> DataType | str:
    match types[0]:
        case Array(item=Struct(fields=(key, value))):
            return Map(key.type, value.type)
    return f"map_from_entries takes an array of pairs, not {types[0]}"


def _arrays_zip(types: Types, nodes: Nodes) -> DataType | str:
    names = [n.name if isinstance(n, Column | Field | Named) else str(i) for i, n in enumerate(nodes)]
    items = [k.item if isinstance(k, Array) else UNKNOWN for k in types]
    return Array(Struct(tuple(t.Field(n, k) for n, k in zip(names, items, strict=True))))


def _item(types: Types, nodes: Nodes) -> DataType | str:
    kind = types[0]
    return kind.item if isinstance(kind, Array) else UNKNOWN


def _sequence(types: Types, nodes: Nodes) -> DataType | str:
    kind = common(types[0], types[1])
    if kind is None or not (is_integer(kind) or kind in (DATE, TIMESTAMP, TIMESTAMP_NTZ, UNKNOWN)):
        return f"sequence goes over whole numbers or times, not {types[0]} and {types[1]}"
    if len(types) > 2:
        step = types[2]
        fits = implicit(step, kind) is not None and is_integer(step) if is_integer(kind) else is_interval(step)
        if not fits and step not in (UNKNOWN, VOID):
            return f"sequence over {kind} does not take a step of {step}"
        if is_integer(kind):
            kind = tightest(kind, step) or kind
    return Array(kind)


def _from_json(types: Types, nodes: Nodes) -> DataType | str:
    text = nodes[1]
    if not (isinstance(text, Literal) and isinstance(text.value, str)):
        return "the schema of from_json must be written out"
    try:
        return t.parse_type(text.value)
    except t.TypeSyntaxError:
        pass
    try:
        return Struct(t.parse_fields(text.value))
    except t.TypeSyntaxError as error:
        return f"the schema of from_json cannot be read: {error}"


def _variant_get(types: Types, nodes: Nodes) -> DataType | str:
    if len(nodes) < 3:
        return VARIANT
    text = nodes[2]
    if not (isinstance(text, Literal) and isinstance(text.value, str)):
        return "the type of variant_get must be written out"
    try:
        return t.parse_type(text.value)
    except t.TypeSyntaxError as error:
        return f"the type of variant_get cannot be read: {error}"


def _to_number(types: Types, nodes: Nodes) -> DataType | str:
    shape = nodes[1]
    if not (isinstance(shape, Literal) and isinstance(shape.value, str)):
        return "the format of to_number must be written out"
    whole, _, rest = re.sub(r"[dD]", ".", shape.value).partition(".")
    before, after = (sum(c in "09" for c in part) for part in (whole, rest))
    return Decimal(before + after, after) if 0 < before + after <= 38 else f"{shape.value!r} is not a number format"


def _first(types: Types, nodes: Nodes) -> DataType | str:
    answer = compared(types, nodes)
    return answer if isinstance(answer, str) else types[0]


def _ordered(types: Types, nodes: Nodes) -> DataType | str:
    answer = compared(types, nodes)
    if isinstance(answer, str):
        return answer
    met: DataType = types[0]
    for kind in types[1:]:
        met = common(met, kind) or met
    return met


RULES: dict[str, Rule] = {
    "sum": _sum,
    "avg": _avg,
    "round": _round,
    "ceil": _ceil,
    "date_part": _date_part,
    "struct": _struct,
    "named_struct": _named_struct,
    "map": _map,
    "map_from_entries": _entries,
    "arrays_zip": _arrays_zip,
    "item": _item,
    "sequence": _sequence,
    "from_json": _from_json,
    "variant_get": _variant_get,
    "to_number": _to_number,
    "nullif": _first,
    "ordered": _ordered,
    "concat": joined,
    "remainder": arithmetic("%"),
    "try_add": arithmetic("+"),
    "try_subtract": arithmetic("-"),
    "try_multiply": arithmetic("*"),
    "try_divide": arithmetic("/"),
    "zeroifnull": lambda types, nodes: common(INT, types[0]) or UNKNOWN,
    "timestampadd": lambda types, nodes: types[2],
    "collect": lambda types, nodes: Array(types[0]),
    "percentile": lambda types, nodes: types[0] if is_interval(types[0]) else DOUBLE,
    "percentiles": lambda types, nodes: Array(types[0] if is_interval(types[0]) else DOUBLE),
    "histogram": lambda types, nodes: Array(Struct((t.Field("x", types[0]), t.Field("y", DOUBLE)))),
}
