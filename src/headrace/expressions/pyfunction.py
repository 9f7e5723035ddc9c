"""A simple Python function -> the same tree, so that it runs inside Spark without a Python worker.

The parameters are columns, by name. All are annotated, and so is the result, with int, float, str, bool, bytes,
datetime, date, Decimal, or one of them `| None`. Nulls: a parameter annotated `T` is never given a null: if the
column is null the result is null and the function is not called. One annotated `T | None` is given None.

A function is compiled only if it then gives, record by record, what CPython gives; otherwise the Refusal says why,
and the function runs as Python. Two limits are accepted: an `int` has 64 bits, and a record on which it overflows
fails instead of growing; and a failing record fails with Spark's error, not with Python's.

Not compiled, because Java and Python differ: `/` and comparison of int and float beyond 2**53, `upper`, `lower`
and bare `strip` (Unicode tables), `round` (halves), `%` and `//` of floats, truth of what is not bool.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
import types
import typing
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal as Number
from typing import Any

from headrace.expressions.expression import Expression
from headrace.expressions.literals import fits
from headrace.expressions.parse import DEEPEST, depth
from headrace.expressions.tree import Call, Case, Cast, Column, Literal, Node
from headrace.model.types import BIGINT, BINARY, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, VOID, DataType

__all__ = ["Refusal", "from_python", "tried"]

Parameters = Mapping[str, tuple[Any, bool]]
"""By name: the Python type of a parameter, and whether it may be None."""

COLUMN_TYPES: dict[Any, DataType | None] = {
    int: BIGINT,
    float: DOUBLE,
    str: STRING,
    bool: BOOLEAN,
    bytes: BINARY,
    datetime: TIMESTAMP,
    date: DATE,
    Number: None,
}
_LARGEST = 5_000
"""Nodes a compiled function may have: branches that repeat what follows them grow quickly."""


@dataclass(frozen=True)
class Refusal:
    """Why a function stays Python, and the line of its file that decides it."""

    reason: str
    line: int = 0


class _Refused(Exception):  # noqa: N818 - caught here, never seen
    def __init__(self, reason: str, node: ast.AST | None = None) -> None:
        super().__init__(reason)
        self.reason, self.line = reason, getattr(node, "lineno", 0)


@dataclass(frozen=True)
class _Value:
    """A compiled expression with its Python type; `none` if it may be None here, `fails` if Python may raise."""

    node: Node
    kind: Any
    none: bool = False
    fails: bool = False
    of: str = ""


_NONE = _Value(Literal(value=None, type=VOID), None, none=True)
_Scope = Mapping[str, _Value]


def from_python(function: Callable[..., Any]) -> Expression | Refusal:
    """The expression a function is, or why it is none."""
    first = 1
    try:
        tree, first = _source(function)
        scope, result = _signature(function, tree)
        value = _returned(_Block(result, _around(function)).block(tree.body, scope), result, tree)
        required = [p for p, v in scope.items() if not v.none]
        if required:
            missing: Node = Call(function="isnull", args=(Column(name=required[0]),))
            for name in required[1:]:
                missing = Call(function="or", args=(missing, Call(function="isnull", args=(Column(name=name),))))
            value = Case(whens=((missing, Literal(value=None, type=VOID)),), otherwise=value)
        if depth(value) > DEEPEST or sum(1 for _ in value.walk()) > _LARGEST:
            return Refusal("it is too large to be one expression", first)
    except _Refused as refused:
        return Refusal(refused.reason, first + max(refused.line, 1) - 1)
    except RecursionError:
        return Refusal("it is too large to be one expression", first)
    return Expression(value)


def tried(function: Callable[..., Any]) -> Expression | Refusal:
    """The expression a function is, if it then gives what CPython gives wherever it was tried; or why it is none."""
    compiled = from_python(function)
    if isinstance(compiled, Refusal):
        return compiled
    from headrace.expressions.trial import difference  # the oracle is loaded only for a flow with such a function

    tree, first = _source(function)
    scope, (gives, _) = _signature(function, tree)
    found = difference(function, compiled, {name: (value.kind, value.none) for name, value in scope.items()}, gives)
    return compiled if found is None else Refusal(found, first)


def _source(function: Callable[..., Any]) -> tuple[ast.FunctionDef, int]:
    if not isinstance(function, types.FunctionType):
        raise _Refused("it is not a plain function")
    if function.__name__ == "<lambda>":
        raise _Refused("a lambda has no annotations, so the types are not known: write a def")
    try:
        lines, first = inspect.getsourcelines(function)
        parsed = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except (OSError, SyntaxError, IndexError, TypeError):
        raise _Refused("its source is not to be had") from None
    if not isinstance(parsed, ast.FunctionDef):
        raise _Refused("it is not a plain function")
    if parsed.decorator_list:
        raise _Refused("it has a decorator", parsed.decorator_list[0])
    return parsed, first


def _around(function: Callable[..., Any]) -> frozenset[str]:
    """The names that a function has from its module and the functions around it: they hide those of Python."""
    return frozenset((*function.__globals__, *function.__code__.co_freevars))


def _signature(function: Callable[..., Any], tree: ast.FunctionDef) -> tuple[dict[str, _Value], tuple[Any, bool]]:
    arguments = tree.args
    if arguments.vararg or arguments.kwarg or arguments.defaults or any(arguments.kw_defaults):
        raise _Refused("its parameters are not all plain columns", tree)
    try:
        hints = typing.get_type_hints(function)
    except Exception as error:  # noqa: BLE001 - annotations are evaluated, so anything can come out of them
        raise _Refused(f"its annotations cannot be read: {error}", tree) from None
    scope: dict[str, _Value] = {}
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.arg not in hints:
            raise _Refused(f'parameter "{argument.arg}" is not annotated', argument)
        kind, none = _annotation(hints[argument.arg], argument)
        column = Column(name=argument.arg)
        stored = COLUMN_TYPES[kind]
        node: Node = column if stored is None else Cast(of=column, type=stored)
        scope[argument.arg] = _Value(node, kind, none=none, of=argument.arg)
    if "return" not in hints:
        raise _Refused("its result is not annotated", tree)
    return scope, _annotation(hints["return"], tree)


def _annotation(hint: Any, node: ast.AST) -> tuple[Any, bool]:
    none = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        parts = [a for a in typing.get_args(hint) if a is not type(None)]
        none = len(parts) < len(typing.get_args(hint))
        hint = parts[0] if len(parts) == 1 else None
    if hint not in COLUMN_TYPES:
        raise _Refused("it is annotated with what is not int, float, str, bool, bytes, datetime, date or Decimal", node)
    return hint, none


def _returned(value: _Value, result: tuple[Any, bool], tree: ast.AST) -> Node:
    kind, none = result
    if value.kind is None:
        if not none:
            raise _Refused("it returns only None", tree)
        stored = COLUMN_TYPES[kind]
        return value.node if stored is None else Cast(of=value.node, type=stored)
    if value.none and not none:
        raise _Refused("it may return None, which its result annotation does not say", tree)
    return value.node


class _Block:
    """Compiles statements: what follows an `if` is compiled into each of its branches."""

    def __init__(self, result: tuple[Any, bool], names: Container[str]) -> None:
        self.result, self.names, self.steps = result, names, 0

    def block(self, body: Sequence[ast.stmt], scope: _Scope) -> _Value:
        self.steps += 1
        if self.steps > 200:
            raise _Refused("it has too many branches to be one expression", body[0] if body else None)
        for i, statement in enumerate(body):
            match statement:
                case ast.Return(value=None):
                    return _NONE
                case ast.Return(value=ast.expr() as value):
                    return self.result_of(self.value(value, scope), statement)
                case ast.Pass() | ast.Expr(value=ast.Constant()):
                    continue
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    scope = {**scope, name: self.assigned(value, scope)}
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    scope = {**scope, name: self.assigned(value, scope)}
                case ast.If():
                    rest = body[i + 1 :]
                    test = self.truth(statement.test, scope)
                    yes, no = _narrowed(statement.test, scope)
                    then = self.block([*statement.body, *rest], yes)
                    otherwise = self.block([*statement.orelse, *rest], no)
                    return self.joined(test, then, otherwise, statement)
                case _:
                    raise _Refused(f"it has a statement that is not compiled: {_word(statement)}", statement)
        return _NONE

    def assigned(self, expression: ast.expr, scope: _Scope) -> _Value:
        value = self.value(expression, scope)
        if value.fails:  # Python would fail here, the expression only where the name is used
            raise _Refused("a division in an assignment fails in Python even if it is not used", expression)
        if value.kind is None:
            raise _Refused("a variable that is None has no type", expression)
        return replace(value, of="")

    def result_of(self, value: _Value, node: ast.AST) -> _Value:
        kind = self.result[0]
        if value.kind in (kind, None):
            return value
        if kind is float and value.kind is int and isinstance(value.node, Literal):
            return replace(value, kind=float, node=Literal(value=float(value.node.value), type=DOUBLE))
        raise _Refused(f"it returns {_name(value.kind)}, but is annotated {_name(kind)}", node)

    def joined(self, test: _Value, then: _Value, otherwise: _Value, node: ast.AST) -> _Value:
        if then.kind is None and otherwise.kind is None:
            return _NONE
        kind = then.kind if then.kind is not None else otherwise.kind
        if then.kind is not None and otherwise.kind is not None and then.kind is not otherwise.kind:
            raise _Refused(f"its branches give {_name(then.kind)} and {_name(otherwise.kind)}", node)
        found = Case(whens=((test.node, then.node),), otherwise=otherwise.node)
        return _Value(found, kind, then.none or otherwise.none, test.fails or then.fails or otherwise.fails)

    # -- expressions

    def truth(self, node: ast.expr, scope: _Scope) -> _Value:
        value = self.plain(node, scope)
        if value.kind is not bool:
            raise _Refused(f"the truth of {_name(value.kind)} is not compiled: write a comparison", node)
        return value

    def plain(self, node: ast.expr, scope: _Scope) -> _Value:
        """A value that is not None here."""
        value = self.value(node, scope)
        if value.none:
            raise _Refused("it uses a value that may be None: test it with `is None` first", node)
        return value

    def value(self, node: ast.expr, scope: _Scope) -> _Value:
        match node:
            case ast.Constant():
                return _constant(node)
            case ast.Name():
                if node.id not in scope:
                    raise _Refused(f'"{node.id}" is neither a parameter nor a variable of it', node)
                return scope[node.id]
            case ast.BinOp():
                return self.binary(node, scope)
            case ast.UnaryOp():
                return self.unary(node, scope)
            case ast.BoolOp():
                return self.logic(node, scope)
            case ast.Compare():
                return self.comparison(node, scope)
            case ast.IfExp():
                test = self.truth(node.test, scope)
                yes, no = _narrowed(node.test, scope)
                return self.joined(test, self.value(node.body, yes), self.value(node.orelse, no), node)
            case ast.Call():
                return self.call(node, scope)
            case ast.JoinedStr():
                return self.text(node, scope)
            case ast.Subscript():
                return self.start(node, scope)
            case ast.Attribute():
                return self.attribute(node, scope)
        raise _Refused(f"it has an expression that is not compiled: {_word(node)}", node)

    def unary(self, node: ast.UnaryOp, scope: _Scope) -> _Value:
        if isinstance(node.op, ast.Not):
            inner = self.truth(node.operand, scope)
            return replace(inner, node=Call(function="not", args=(inner.node,)), of="")
        inner = self.plain(node.operand, scope)
        if inner.kind not in (int, float) or not isinstance(node.op, ast.USub | ast.UAdd):
            raise _Refused(f"{_word(node.op)} of {_name(inner.kind)} is not compiled", node)
        if isinstance(node.op, ast.UAdd):
            return replace(inner, of="")
        if isinstance(inner.node, Literal):
            return replace(inner, node=Literal(value=-inner.node.value, type=inner.node.type))
        return replace(inner, node=Call(function="-", args=(inner.node,)), of="")

    def binary(self, node: ast.BinOp, scope: _Scope) -> _Value:
        left, right = self.plain(node.left, scope), self.plain(node.right, scope)
        kinds, fails = (left.kind, right.kind), left.fails or right.fails
        if kinds == (str, str) and isinstance(node.op, ast.Add):
            return _Value(Call(function="||", args=(left.node, right.node)), str, fails=fails)
        if not set(kinds) <= {int, float}:
            raise _Refused(f"{_word(node.op)} of {_name(left.kind)} and {_name(right.kind)} is not compiled", node)
        operator = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}.get(type(node.op))
        if float in kinds:
            if operator is None:
                raise _Refused(f"{_word(node.op)} of float rounds differently in Java", node)
            call = Call(function=operator, args=(_as_float(left), _as_float(right)))
            return _Value(call, float, fails=fails or operator == "/")
        if operator == "/":
            raise _Refused("int / int differs beyond 2**53: write float(a) / float(b)", node)
        if operator is not None:
            return _Value(Call(function=operator, args=(left.node, right.node)), int, fails=fails)
        if isinstance(node.op, ast.FloorDiv | ast.Mod):
            return _Value(_floored(node.op, left.node, right.node), int, fails=True)
        raise _Refused(f"{_word(node.op)} of int is not compiled", node)

    def logic(self, node: ast.BoolOp, scope: _Scope) -> _Value:
        name = "and" if isinstance(node.op, ast.And) else "or"
        found = self.truth(node.values[0], scope)
        for before, operand in zip(node.values, node.values[1:], strict=False):
            yes, no = _narrowed(before, scope)
            scope = yes if name == "and" else no
            right = self.truth(operand, scope)
            call = Call(function=name, args=(found.node, right.node))
            found = _Value(call, bool, fails=found.fails or right.fails)
        return found

    def comparison(self, node: ast.Compare, scope: _Scope) -> _Value:
        parts: list[_Value] = []
        for left, operator, right in zip([node.left, *node.comparators[:-1]], node.ops, node.comparators, strict=True):
            parts.append(self.compared(left, operator, right, scope, node))
        found = parts[0]
        for part in parts[1:]:
            call = Call(function="and", args=(found.node, part.node))
            found = _Value(call, bool, fails=found.fails or part.fails)
        return found

    def compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr, scope: _Scope, node: ast.AST) -> _Value:
        if isinstance(op, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Constant) and right.value is None):
                raise _Refused("`is` is compiled only with None", node)
            value = self.value(left, scope)
            name = "isnull" if isinstance(op, ast.Is) else "isnotnull"
            if value.of:  # the column itself: a cast of it could fail
                return _Value(Call(function=name, args=(Column(name=value.of),)), bool)
            return _Value(Call(function=name, args=(value.node,)), bool, fails=value.fails)
        if isinstance(op, ast.In | ast.NotIn):
            found = self.within(self.plain(left, scope), right, scope, node)
            negated = Call(function="not", args=(found.node,))
            return replace(found, node=negated) if isinstance(op, ast.NotIn) else found
        return _compared(op, self.plain(left, scope), self.plain(right, scope), node)

    def within(self, left: _Value, right: ast.expr, scope: _Scope, node: ast.AST) -> _Value:
        if isinstance(right, ast.Tuple | ast.List | ast.Set):
            items = [self.plain(e, scope) for e in right.elts]
            if not items or not all(isinstance(i.node, Literal) and i.kind is left.kind for i in items):
                raise _Refused("`in` is compiled for written values of the same type", node)
            return _Value(Call(function="in", args=(left.node, *(i.node for i in items))), bool, fails=left.fails)
        whole = self.plain(right, scope)
        if left.kind is str and whole.kind is str:
            call = Call(function="contains", args=(whole.node, left.node))
            return _Value(call, bool, fails=left.fails or whole.fails)
        raise _Refused(f"`in` of {_name(whole.kind)} is not compiled", node)

    def call(self, node: ast.Call, scope: _Scope) -> _Value:
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise _Refused("a call with keywords is not compiled", node)
        if isinstance(node.func, ast.Attribute):
            return self.method(node, node.func, scope)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in scope or not name or name in self.names:
            raise _Refused("it calls what is not a known function", node)
        args = [self.plain(a, scope) for a in node.args]
        kinds, fails = tuple(a.kind for a in args), any(a.fails for a in args)
        nodes = tuple(a.node for a in args)
        match name, kinds:
            case "abs", ((k,)) if k in (int, float):
                return _Value(Call(function="abs", args=nodes), k, fails=fails)
            case "len", ((k,)) if k in (str, bytes):
                return _Value(Cast(of=Call(function="length", args=nodes), type=BIGINT), int, fails=fails)
            case (("min" | "max"), (k, *_)) if len(kinds) > 1 and set(kinds) == {k} and k in (int, str, bytes, date):
                call = Call(function="least" if name == "min" else "greatest", args=nodes)
                return _Value(call, k, fails=fails)
            case "float", ((k,)) if k in (int, float):
                return _Value(_as_float(args[0]), float, fails=fails)
            case "int", ((k,)) if k in (int, float):
                return _Value(
                    args[0].node if k is int else Cast(of=nodes[0], type=BIGINT), int, fails=fails or k is float
                )
            case "str", ((k,)) if k in (int, str):
                return _Value(args[0].node if k is str else Cast(of=nodes[0], type=STRING), str, fails=fails)
            case "round", _:
                raise _Refused("round goes to the even digit in Python, and up in Spark", node)
        raise _Refused(f"{name}({', '.join(map(_name, kinds))}) is not compiled", node)

    def method(self, node: ast.Call, function: ast.Attribute, scope: _Scope) -> _Value:
        of = self.plain(function.value, scope)
        args = [self.plain(a, scope) for a in node.args]
        nodes, fails = tuple(a.node for a in args), of.fails or any(a.fails for a in args)
        name = function.attr
        if of.kind is not str or not all(a.kind is str for a in args):
            raise _Refused(f"{_name(of.kind)}.{name} is not compiled", node)
        first = nodes[0].value if nodes and isinstance(nodes[0], Literal) else None
        match name, len(args):
            case (("startswith" | "endswith"), 1):
                return _Value(Call(function=name, args=(of.node, *nodes)), bool, fails=fails)
            case (("strip" | "lstrip" | "rstrip"), 1) if first and first.isascii():
                trim = {"strip": "trim", "lstrip": "ltrim", "rstrip": "rtrim"}[name]
                return _Value(Call(function=trim, args=(nodes[0], of.node)), str, fails=fails)
            case "replace", 2 if first:
                return _Value(Call(function="replace", args=(of.node, *nodes)), str, fails=fails)
            case (("strip" | "lstrip" | "rstrip"), 0):
                raise _Refused(f'str.{name} takes all blanks of Unicode: write .{name}(" ")', node)
            case (("upper" | "lower" | "title" | "capitalize" | "casefold"), _):
                raise _Refused(f"str.{name} differs between Python and Java for some letters", node)
        raise _Refused(f"str.{name} is not compiled", node)

    def text(self, node: ast.JoinedStr, scope: _Scope) -> _Value:
        found: Node | None = None
        fails = False
        for part in node.values:
            if isinstance(part, ast.Constant):
                piece: Node = Literal(value=str(part.value), type=STRING)
            else:
                assert isinstance(part, ast.FormattedValue)
                value = self.plain(part.value, scope)
                if part.conversion != -1 or part.format_spec is not None or value.kind not in (int, str):
                    raise _Refused(f"an f-string with {_name(value.kind)} is not compiled", node)
                piece = value.node if value.kind is str else Cast(of=value.node, type=STRING)
                fails = fails or value.fails
            found = piece if found is None else Call(function="||", args=(found, piece))
        return _Value(found or Literal(value="", type=STRING), str, fails=fails)

    def start(self, node: ast.Subscript, scope: _Scope) -> _Value:
        """`s[:n]`, the only slice whose meaning is the same."""
        of = self.plain(node.value, scope)
        match node.slice:
            case ast.Slice(lower=None, upper=ast.Constant(value=int(size)), step=None) if of.kind is str and size >= 0:
                count = Literal(value=min(size, 2**31 - 1), type=BIGINT)
                return _Value(Call(function="left", args=(of.node, count)), str, fails=of.fails)
        raise _Refused("a subscript other than text[:n] is not compiled", node)

    def attribute(self, node: ast.Attribute, scope: _Scope) -> _Value:
        of = self.plain(node.value, scope)
        if of.kind is date and node.attr in ("year", "month", "day"):
            return _Value(Cast(of=Call(function=node.attr, args=(of.node,)), type=BIGINT), int, fails=of.fails)
        raise _Refused(f"{_name(of.kind)}.{node.attr} is not compiled", node)


def _constant(node: ast.Constant) -> _Value:
    match node.value:
        case None:
            return _NONE
        case bool():
            return _Value(Literal(value=node.value, type=BOOLEAN), bool)
        case int() if fits(node.value, BIGINT):
            return _Value(Literal(value=node.value, type=BIGINT), int)
        case float() if math.isfinite(node.value):
            return _Value(Literal(value=node.value, type=DOUBLE), float)
        case str() if "\x00" not in node.value and not any(0xD800 <= ord(c) < 0xE000 for c in node.value):
            return _Value(Literal(value=node.value, type=STRING), str)
        case bytes():
            return _Value(Literal(value=node.value, type=BINARY), bytes)
    raise _Refused(f"{node.value!r} has no place in an expression", node)


def _as_float(value: _Value) -> Node:
    if value.kind is float:
        return value.node
    if isinstance(value.node, Literal):
        return Literal(value=float(value.node.value), type=DOUBLE)
    return Cast(of=value.node, type=DOUBLE)


def _floored(op: ast.operator, a: Node, b: Node) -> Node:
    """`//` and `%` of Python, which go down, from those of Spark, which go towards zero."""
    zero = Literal(value=0, type=BIGINT)
    rest = Call(function="%", args=(a, b))
    signs = Call(function="<>", args=(Call(function="<", args=(rest, zero)), Call(function="<", args=(b, zero))))
    crosses = Call(function="and", args=(Call(function="<>", args=(rest, zero)), signs))
    if isinstance(op, ast.Mod):
        return Case(whens=((crosses, Call(function="+", args=(rest, b))),), otherwise=rest)
    whole = Call(function="div", args=(a, b))
    less = Call(function="-", args=(whole, Literal(value=1, type=BIGINT)))
    return Case(whens=((crosses, less),), otherwise=whole)


_COMPARISONS = {ast.Eq: "=", ast.NotEq: "<>", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def _compared(op: ast.cmpop, left: _Value, right: _Value, node: ast.AST) -> _Value:
    name, fails = _COMPARISONS[type(op)], left.fails or right.fails
    if {left.kind, right.kind} == {int, float}:
        written = left if left.kind is int else right
        if not isinstance(written.node, Literal) or abs(written.node.value) > 2**53:
            raise _Refused("int and float compare exactly in Python: write float(…)", node)
        left, right = (replace(v, node=_as_float(v), kind=float) for v in (left, right))
    if left.kind is not right.kind or (left.kind is bool and name not in ("=", "<>")):
        raise _Refused(f"{_name(left.kind)} {name} {_name(right.kind)} is not compiled", node)
    if left.kind is float:
        return _Value(_float_compared(name, left.node, right.node), bool, fails=fails)
    return _Value(Call(function=name, args=(left.node, right.node)), bool, fails=fails)


def _float_compared(name: str, left: Node, right: Node) -> Node:
    """A comparison that is false for NaN, which Spark has as the largest number and equal to itself."""
    if name == "<>":
        return Call(function="not", args=(_float_compared("=", left, right),))
    found: Node = Call(function=name, args=(left, right))
    for side in (left, right):
        if not isinstance(side, Literal):
            ordinary = Call(function="not", args=(Call(function="isnan", args=(side,)),))
            found = Call(function="and", args=(found, ordinary))
    return found


def _narrowed(test: ast.expr, scope: _Scope) -> tuple[_Scope, _Scope]:
    """The scope where a test holds, and where it does not: `x is None` tells what x is in each."""
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[op], comparators=[ast.Constant(value=None)]) if name in scope:
            known = {**scope, name: replace(scope[name], none=False)}
            if isinstance(op, ast.Is):
                return scope, known
            if isinstance(op, ast.IsNot):
                return known, scope
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yes, no = _narrowed(inner, scope)
            return no, yes
        case ast.BoolOp(values=values):
            after = scope  # all of an `and` held, or none of an `or` did; of the other outcome nothing is known
            conjunction = isinstance(test.op, ast.And)
            for value in values:
                yes, no = _narrowed(value, after)
                after = yes if conjunction else no
            return (after, scope) if conjunction else (scope, after)
    return scope, scope


def _name(kind: Any) -> str:
    return "None" if kind is None else str(kind.__name__)


def _word(node: ast.AST) -> str:
    return type(node).__name__.lower()
