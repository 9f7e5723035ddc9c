"""An expression over plain Python values: the oracle of the tests, with Spark's ANSI meaning.

It covers the common subset; what is not proved equal raises NotEvaluable instead of guessing.
Where Spark would fail on a record (overflow, division by zero, text that is no number) it raises EvaluationError.

>>> evaluate(Expression.parse("amount * 2 > 3 AND name LIKE 'a%'"), {"amount": 2, "name": "ann"})
True
>>> aggregate(Expression.parse("sum(x) / count(*)"), [{"x": 1}, {"x": 2}])
1.5
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Number
from typing import Any

from headrace.expressions.aggregates import AGGREGATES
from headrace.expressions.casts import (
    WIDE,
    EvaluationError,
    NotEvaluable,
    OutOfRangeError,
    as_decimal_of,
    convert,
    truncated,
)
from headrace.expressions.coerce import common, is_interval
from headrace.expressions.expression import Expression
from headrace.expressions.functions import functions, is_aggregate
from headrace.expressions.literals import fits, type_of_value
from headrace.expressions.routines import ROUTINES, compare
from headrace.expressions.tree import Call, Case, Cast, Column, Field, Item, Lambda, Literal, Named, Node, Star
from headrace.expressions.typing import Typer
from headrace.model import Schema
from headrace.model.types import (
    BIGINT,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    UNKNOWN,
    VOID,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    is_integer,
    is_numeric,
)
from headrace.model.types import Field as Part

__all__ = ["EvaluationError", "NotEvaluable", "aggregate", "evaluate"]


def evaluate(e: Expression, record: Mapping[str, object], schema: Schema | None = None) -> Any:
    """The value of an expression for one record.

    Without a schema a Python int is a bigint, a float a double, an aware datetime a timestamp.
    Structs are mappings, arrays lists. Raises NotEvaluable or EvaluationError.
    """
    return prepared(e, schema or infer([record]))(record)


def prepared(e: Expression, schema: Schema) -> Callable[[Mapping[str, object]], Any]:
    """What evaluates an expression for one record after another; raises NotEvaluable."""
    evaluator = _Evaluator(schema)
    evaluator.kind(e.tree)  # what is wrong anywhere in it is wrong, whichever branch is taken
    return lambda record: evaluator.value(e.tree, _lower(record))


def aggregate(e: Expression, records: Sequence[Mapping[str, object]], schema: Schema | None = None) -> Any:
    """The value of an aggregate expression over many records."""
    evaluator = _Evaluator(schema or infer(records), [_lower(r) for r in records])
    evaluator.kind(e.tree)
    return evaluator.value(e.tree, {})


def infer(records: Sequence[Mapping[str, object]]) -> Schema:
    """The schema plain Python records have, as far as their values show it."""
    kinds: dict[str, DataType] = {}
    for record in records:
        for name, value in record.items():
            kinds[name] = common(kinds.get(name, VOID), kind_of(value)) or UNKNOWN
    return Schema.of(kinds.items())


def kind_of(value: object) -> DataType:
    """The type of a Python value as data: an int is a bigint."""
    match value:
        case bool():
            return type_of_value(value) or UNKNOWN
        case int():
            return BIGINT
        case float():
            return DOUBLE
        case list() | tuple():
            item: DataType = VOID
            for v in value:
                item = common(item, kind_of(v)) or UNKNOWN
            return Array(item)
        case Mapping():
            return Struct(tuple(Part(str(k), kind_of(v)) for k, v in value.items()))
    return type_of_value(value) or UNKNOWN


def _lower(record: Mapping[str, object]) -> dict[str, Any]:
    return {k.lower(): v for k, v in record.items()}


def _refuse(code: str, message: str, *, hint: str = "", at: int = 0) -> None:
    raise NotEvaluable(message)


class _Evaluator:
    """Evaluates one tree; types come from the same typing that checks a flow."""

    def __init__(self, schema: Schema, records: list[dict[str, Any]] | None = None) -> None:
        self.records, self.kinds = records, dict[int, DataType]()
        self.typer = Typer(schema, _refuse, records is not None, frozenset(n.lower() for n in schema.names))

    def kind(self, node: Node) -> DataType:
        if id(node) not in self.kinds:
            self.kinds[id(node)] = self.typer.type(node)
        return self.kinds[id(node)]

    def value(self, node: Node, row: Mapping[str, Any]) -> Any:
        match node:
            case Literal():
                return node.value
            case Column():
                if node.name.lower() not in row:
                    raise NotEvaluable(f"the record has no {node.name!r}")
                return row[node.name.lower()]
            case Named():
                return self.value(node.of, row)
            case Field():
                return self.field(self.value(node.of, row), node.name)
            case Item():
                return self.item(node, row)
            case Cast():
                return self.cast(node, row)
            case Case():
                return self.case(node, row)
            case Call():
                return self.call(node, row)
        raise NotEvaluable(type(node).__name__)

    def field(self, value: Any, name: str) -> Any:
        if value is None:
            return None
        if isinstance(value, list | tuple):
            return [self.field(v, name) for v in value]
        return next((v for k, v in value.items() if str(k).lower() == name.lower()), None)

    def item(self, node: Item, row: Mapping[str, Any]) -> Any:
        of, key, kind = self.value(node.of, row), self.value(node.key, row), self.kind(node.of)
        if of is None or key is None:
            return None
        if isinstance(kind, Array) and isinstance(key, int):
            if not 0 <= key < len(of):
                raise EvaluationError(f"the array has no item {key}")
            return of[key]
        if isinstance(kind, Map):
            return of.get(convert(key, self.kind(node.key), kind.key))
        return self.field(of, str(key))

    def cast(self, node: Cast, row: Mapping[str, Any]) -> Any:
        try:
            return convert(self.value(node.of, row), self.kind(node.of), node.type)
        except EvaluationError:
            if node.attempt:
                return None
            raise

    def case(self, node: Case, row: Mapping[str, Any]) -> Any:
        wanted = self.kind(node)
        for test, then in node.whens:
            if self.value(test, row) is True:
                return convert(self.value(then, row), self.kind(then), wanted)
        if node.otherwise is None:
            return None
        return convert(self.value(node.otherwise, row), self.kind(node.otherwise), wanted)

    # -- calls

    def call(self, node: Call, row: Mapping[str, Any]) -> Any:
        name, args = node.function, node.args
        self.kind(node)
        if is_aggregate(name):
            return self.aggregated(node)
        if name in ("and", "or"):
            return self.logic(name, args, row)
        if name in ("if", "coalesce", "ifnull", "nvl", "nvl2", "nullif"):
            return self.conditional(node, row)
        if any(isinstance(a, Lambda) for a in args):
            return self.higher_order(node, row)
        values = [self.value(a, row) for a in args]
        kinds = [self.kind(a) for a in args]
        match name:
            case "not":
                truth = convert(values[0], kinds[0], self.kind(node))
                return None if truth is None else not truth
            case "isnull" | "isnotnull":
                return (values[0] is None) == (name == "isnull")
            case "=" | "<>" | "<" | "<=" | ">" | ">=" | "<=>":
                return compared(name, values[0], values[1], kinds[0], kinds[1])
            case "between":
                low = compared(">=", values[0], values[1], kinds[0], kinds[1])
                high = compared("<=", values[0], values[2], kinds[0], kinds[2])
                return conjoined(low, high)
            case "in":
                return self.among(values, kinds)
            case "+" | "-" | "*" | "/" | "%" | "div" if len(args) == 2:
                return arithmetic(name, values, kinds, self.kind(node))
            case "-" | "+" | "negative" | "positive":
                return self.signed(name, values[0], kinds[0], self.kind(node))
        routine = ROUTINES.get({"||": "concat"}.get(name, name))
        if routine is None or (name not in functions() and name != "||"):
            raise NotEvaluable(f"function {name}")
        return routine(values, kinds, self.kind(node), args)

    def logic(self, name: str, args: Sequence[Node], row: Mapping[str, Any]) -> bool | None:
        left = self.truth(args[0], row)
        if left is (name == "or"):
            return left
        right = self.truth(args[1], row)
        if right is (name == "or"):
            return right
        return None if left is None or right is None else name == "and"

    def truth(self, node: Node, row: Mapping[str, Any]) -> bool | None:
        from headrace.model.types import BOOLEAN

        found: bool | None = convert(self.value(node, row), self.kind(node), BOOLEAN)
        return found

    def among(self, values: Sequence[Any], kinds: Sequence[DataType]) -> bool | None:
        met: DataType = VOID
        for kind in kinds:
            met = common(met, kind) or UNKNOWN
        if values[0] is None:
            return None
        item = convert(values[0], kinds[0], met)
        others = [convert(v, k, met) for v, k in zip(values[1:], kinds[1:], strict=True)]
        if any(o is not None and compare(item, o) == 0 for o in others):
            return True
        return None if any(o is None for o in others) else False

    def conditional(self, node: Call, row: Mapping[str, Any]) -> Any:
        name, args, wanted = node.function, node.args, self.kind(node)

        def taken(chosen: Node) -> Any:
            return convert(self.value(chosen, row), self.kind(chosen), wanted)

        if name == "if":
            return taken(args[1] if self.value(args[0], row) is True else args[2])
        if name == "nvl2":
            return taken(args[1] if self.value(args[0], row) is not None else args[2])
        if name == "nullif":
            left, right = (self.value(a, row) for a in args)
            same = compared("=", left, right, self.kind(args[0]), self.kind(args[1]))
            return None if same else left
        for argument in args:
            found = taken(argument)
            if found is not None:
                return found
        return None

    def signed(self, name: str, value: Any, given: DataType, wanted: DataType) -> Any:
        taken = convert(value, given, wanted) if is_numeric(wanted) else value
        if taken is None or name in ("+", "positive"):
            return taken
        return checked(-taken, wanted) if is_integer(wanted) else -taken

    def higher_order(self, node: Call, row: Mapping[str, Any]) -> Any:
        name, args = node.function, node.args
        of = self.value(args[0], row)
        body = args[-1]
        if name not in ("transform", "filter", "exists", "forall") or not isinstance(body, Lambda):
            raise NotEvaluable(f"function {name} with a lambda")
        if of is None:
            return None
        kind = self.kind(args[0])
        assert isinstance(kind, Array)
        results = []
        outer = self.typer.scope
        for i, item in enumerate(of):
            given = dict(zip((p.lower() for p in body.parameters), (item, i), strict=False))
            self.typer.scope = {**outer, **dict(zip(given, (kind.item, INT), strict=False))}
            try:
                results.append(self.value(body.body, {**row, **given}))
            finally:
                self.typer.scope = outer
        if name == "transform":
            return results
        if name == "filter":
            return [item for item, kept in zip(of, results, strict=True) if kept is True]
        if (name == "exists") in results:
            return name == "exists"
        return None if None in results else name == "forall"

    def aggregated(self, node: Call) -> Any:
        routine = AGGREGATES.get(node.function)
        if routine is None or self.records is None:
            raise NotEvaluable(f"function {node.function}")
        kept = [r for r in self.records if node.where is None or self.inside(node.where, r) is True]
        args = [a for a in node.args if not isinstance(a, Star)]
        rows = [tuple(self.inside(a, r) for a in args) for r in kept]
        if node.distinct:
            try:
                rows = list(dict.fromkeys(rows))
            except TypeError:
                raise NotEvaluable("distinct over arrays") from None
        return routine(rows, [self.within(a) for a in args], self.kind(node))

    def inside(self, node: Node, row: Mapping[str, Any]) -> Any:
        """A value for one of the rows an aggregate goes over."""
        self.within(node)
        return self.value(node, row)

    def within(self, node: Node) -> DataType:
        outer, self.typer.inside = self.typer.inside, "an aggregate"
        try:
            return self.kind(node)
        finally:
            self.typer.inside = outer


def conjoined(left: bool | None, right: bool | None) -> bool | None:
    """AND of three truth values."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def compared(operator: str, left: Any, right: Any, a: DataType, b: DataType) -> bool | None:
    """A comparison; null if a side is, except for `<=>`."""
    if left is None or right is None:
        return (left is None and right is None) if operator == "<=>" else None
    met = common(a, b)
    if met is None:
        raise NotEvaluable(f"{a} against {b}")
    order = compare(convert(left, a, met), convert(right, b, met))
    answers: dict[str, Callable[[int], bool]] = {
        "=": lambda o: o == 0,
        "<=>": lambda o: o == 0,
        "<>": lambda o: o != 0,
        "<": lambda o: o < 0,
        "<=": lambda o: o <= 0,
        ">": lambda o: o > 0,
        ">=": lambda o: o >= 0,
    }
    return answers[operator](order)


def checked(value: int, kind: DataType) -> int:
    """A whole number that is in the range of its type; raises EvaluationError."""
    if not fits(value, kind):
        raise OutOfRangeError(f"{value} is out of the range of {kind}")
    return value


def arithmetic(operator: str, values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType) -> Any:
    """`+ - * / % div` on numbers and times."""
    left, right = values
    if left is None or right is None:
        return None
    if not all(is_numeric(k) or str(k) == "string" for k in kinds):
        return _times(operator, left, right, kinds, wanted)
    if operator in ("/", "%", "div"):
        zero = convert(right, kinds[1], DOUBLE) == 0
        if zero:
            raise EvaluationError("division by zero")
    if wanted == FLOAT or FLOAT in kinds:
        raise NotEvaluable("float has less precision than Python's")
    if wanted == DOUBLE:
        return _double(operator, convert(left, kinds[0], DOUBLE), convert(right, kinds[1], DOUBLE))
    exact = isinstance(wanted, Decimal) or any(isinstance(k, Decimal) for k in kinds)
    if exact:
        a, b = (Number(v) if isinstance(v, int | Number) else Number(v.strip()) for v in values)
        return _exact(operator, a, b, wanted)
    a, b = (convert(v, k, BIGINT) for v, k in zip(values, kinds, strict=True))
    match operator:
        case "+":
            return checked(a + b, wanted)
        case "-":
            return checked(a - b, wanted)
        case "*":
            return checked(a * b, wanted)
        case "%":
            return int(math.copysign(abs(a) % abs(b), a)) if abs(a) < 2**53 and abs(b) < 2**53 else _remainder(a, b)
    whole = abs(a) // abs(b)
    return checked(whole if (a < 0) == (b < 0) else -whole, BIGINT)


def _remainder(a: int, b: int) -> int:
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _double(operator: str, a: float, b: float) -> float:
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return a / b
    if math.isinf(a) or math.isnan(a) or math.isnan(b):
        return math.nan
    return math.fmod(a, b)


def _exact(operator: str, a: Number, b: Number, wanted: DataType) -> Any:
    match operator:
        case "+":
            found = WIDE.add(a, b)
        case "-":
            found = WIDE.subtract(a, b)
        case "*":
            found = WIDE.multiply(a, b)
        case "/":
            found = WIDE.divide(a, b)
        case "%":
            found = WIDE.remainder(a, b)
        case _:
            return checked(truncated(WIDE.divide(a, b)), BIGINT)
    if not isinstance(wanted, Decimal):
        raise NotEvaluable(f"decimal {operator} to {wanted}")
    return as_decimal_of(found, wanted)


def _times(operator: str, left: Any, right: Any, kinds: Sequence[DataType], wanted: DataType) -> Any:
    if operator == "+" and not isinstance(left, date) and isinstance(right, date):
        left, right, kinds = right, left, (kinds[1], kinds[0])
    sign = 1 if operator == "+" else -1
    try:
        match left, right:
            case date(), timedelta() if operator in ("+", "-"):
                start = convert(left, kinds[0], wanted)
                return start + sign * right
            case date(), bool():
                raise NotEvaluable("a date and a boolean")
            case date(), int() if not isinstance(left, datetime) and is_integer(kinds[1]) and operator in ("+", "-"):
                return left + timedelta(days=sign * right)
            case datetime() | date(), datetime() | date() if operator == "-":
                if kinds[0] == DATE and kinds[1] == DATE:
                    return left - right
                a, b = (_moment(v) for v in (left, right))
                return a - b
            case timedelta(), timedelta() if operator in ("+", "-") and is_interval(wanted):
                return left + sign * right
    except OverflowError:
        raise NotEvaluable("a time outside the years 1 to 9999") from None
    raise NotEvaluable(f"{operator} of {kinds[0]} and {kinds[1]}")


def _moment(value: date) -> datetime:
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value if value.tzinfo else value.replace(tzinfo=UTC)
