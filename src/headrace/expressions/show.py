"""The tree -> canonical Spark SQL text: one spelling for one meaning, parentheses only where needed.

`parse(show(tree)) == tree` for every tree that parse can give.
"""

from __future__ import annotations

import re

from headrace.expressions.literals import show_literal
from headrace.expressions.precedence import BINARY_LEVELS, COMPARE, NOT, OR, PREDICATE, PRIMARY, RESERVED, SIGN
from headrace.expressions.tree import Call, Case, Cast, Column, Field, Item, Lambda, Literal, Named, Node, Star

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def show(tree: Node) -> str:
    """The expression as Spark SQL."""
    return _show(tree)[0]


def name(text: str) -> str:
    """A column name, in backticks if it must be.

    >>> name("amount"), name("order"), name("a b")
    ('amount', '`order`', '`a b`')
    """
    if _PLAIN.fullmatch(text) and text.lower() not in RESERVED:
        return text
    return "`" + text.replace("`", "``") + "`"


def _at_least(tree: Node, level: int) -> str:
    text, own = _show(tree)
    return text if own >= level else f"({text})"


def _show(tree: Node) -> tuple[str, int]:
    """The text of a node and how tightly its outermost operator binds."""
    match tree:
        case Literal():
            text = show_literal(tree.value, tree.type)
            return text, SIGN if text.startswith("-") else PRIMARY
        case Column():
            return name(tree.name), PRIMARY
        case Field():
            of = _at_least(tree.of, SIGN + 2 if isinstance(tree.of, Literal) else PRIMARY)  # null.a is a column's field
            return f"{of}.{name(tree.name)}", PRIMARY
        case Item():
            return f"{_at_least(tree.of, PRIMARY)}[{show(tree.key)}]", PRIMARY
        case Cast():
            return f"{'TRY_CAST' if tree.attempt else 'CAST'}({show(tree.of)} AS {tree.type})", PRIMARY
        case Case():
            whens = "".join(f" WHEN {show(test)} THEN {show(then)}" for test, then in tree.whens)
            otherwise = f" ELSE {show(tree.otherwise)}" if tree.otherwise is not None else ""
            return f"CASE{whens}{otherwise} END", PRIMARY
        case Lambda(parameters=(only,)):
            return f"{name(only)} -> {show(tree.body)}", OR
        case Lambda():
            return f"({', '.join(map(name, tree.parameters))}) -> {show(tree.body)}", OR
        case Named():
            return f"{show(tree.of)} AS {name(tree.name)}", OR
        case Star():
            return "*", PRIMARY
        case Call():
            return _call(tree)
    raise TypeError(f"{type(tree).__name__} is not a node of an expression")


def _call(tree: Call) -> tuple[str, int]:
    function, args = tree.function, tree.args
    level = BINARY_LEVELS.get(function, 0)
    if level and len(args) == 2:
        left, right = _at_least(args[0], level), _at_least(args[1], level + 1)
        return f"{left} {function.upper()} {right}", level
    if function in ("-", "+", "~") and len(args) == 1:
        inner = _at_least(args[0], SIGN)
        bare = not inner.startswith(("-", "+")) and not inner[:1].isdigit()  # -1 is a number, -- a comment
        return (f"{function}{inner}" if bare else f"{function}({inner})"), SIGN
    if function == "not" and len(args) == 1:
        return _denied(args[0])
    if function in ("isnull", "isnotnull") and len(args) == 1:
        return f"{_at_least(args[0], COMPARE)} IS {'NOT ' if function == 'isnotnull' else ''}NULL", PREDICATE
    predicate = _predicate(tree, "")
    if predicate:
        return predicate, PREDICATE
    return _plain_call(tree), PRIMARY


def _denied(inner: Node) -> tuple[str, int]:
    if isinstance(inner, Call):
        text = _predicate(inner, "NOT ")
        if text:
            return text, NOT
    return f"NOT {_at_least(inner, NOT)}", NOT


def _predicate(tree: Call, denied: str) -> str:
    """`x LIKE y` and its like; empty if this is not one, or has not their number of arguments."""
    function, args = tree.function, tree.args
    shapes = {"between": (3,), "like": (2, 3), "ilike": (2, 3), "rlike": (2,)}
    if (function != "in" and len(args) not in shapes.get(function, ())) or not args or tree.distinct or tree.where:
        return ""
    left, word = _at_least(args[0], COMPARE), f"{denied}{function.upper()}"
    if function == "in":
        return f"{left} {word} ({', '.join(map(show, args[1:]))})"
    right = _at_least(args[1], COMPARE)
    if function == "between":
        return f"{left} {word} {right} AND {_at_least(args[2], COMPARE)}"
    if len(args) == 3:
        return f"{left} {word} {right} ESCAPE {show(args[2])}"
    return f"{left} {word} {right}"


def _plain_call(tree: Call) -> str:
    function, args = tree.function, [show(a) for a in tree.args]
    first = tree.args[0] if tree.args else None
    if function in ("timestampadd", "timestampdiff") and isinstance(first, Literal) and isinstance(first.value, str):
        args[0] = first.value.upper()
    shown = f"{function}({'DISTINCT ' if tree.distinct else ''}{', '.join(args)})"
    return f"{shown} FILTER (WHERE {show(tree.where)})" if tree.where is not None else shown
