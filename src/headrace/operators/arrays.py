"""Aggregates over an array of records instead of over many rows, in Spark's own functions.

For windows whose records Python keeps: it hands over each window's records as an array, and the answers are still
computed by Spark. An aggregate's arguments become columns of the records before, and what stands around it is
computed from the answers behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from headrace.expressions.expression import Expression
from headrace.expressions.functions import is_aggregate
from headrace.expressions.tree import Call, Column, Node, Star

ROWS = "_headrace_rows"
FUNCTIONS: dict[str, str] = {
    "count": "CAST(size({some}) AS BIGINT)",
    "count_if": "CAST(size(filter({all}, x -> x)) AS BIGINT)",
    "sum": "IF(size({some}) = 0, NULL, aggregate({some}, CAST(0 AS {type}), (s, x) -> CAST(s + x AS {type})))",
    **dict.fromkeys(
        ("avg", "mean"),
        "IF(size({some}) = 0, NULL, CAST(aggregate({some}, CAST(0 AS {wide}), (s, x) -> CAST(s + x AS {wide}))"
        " / size({some}) AS {type}))",
    ),
    "min": "array_min({some})",
    "max": "array_max({some})",
    **dict.fromkeys(("first", "first_value", "any_value"), "get({all}, 0)"),
    **dict.fromkeys(("last", "last_value"), "get({all}, size({all}) - 1)"),
    **dict.fromkeys(("collect_list", "array_agg"), "{some}"),
    "collect_set": "array_distinct({some})",
    **dict.fromkeys(("bool_and", "every"), "IF(size({some}) = 0, NULL, forall({some}, x -> x))"),
    **dict.fromkeys(("bool_or", "some", "any"), "IF(size({some}) = 0, NULL, exists({some}, x -> x))"),
}
"""What each aggregate is over an array: all values, those that are not null, and the type of the answer."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One aggregate call: its number, the columns it takes from each record, and which of them must be true."""

    call: Call
    number: int

    @property
    def answer(self) -> str:
        return f"_headrace_answer_{self.number}"

    def columns(self) -> dict[str, Expression]:
        """What must be computed for each record, by name."""
        wanted = {f"a{self.number}": a for a in self.call.args if not isinstance(a, Star)}
        if self.call.where is not None:
            wanted[f"w{self.number}"] = self.call.where
        return {name: Expression(node) for name, node in wanted.items()}

    def sql(self, kind: str) -> str:
        """The answer from the array of records, `kind` being its type."""
        rows = ROWS if self.call.where is None else f"filter({ROWS}, r -> r.w{self.number})"
        if not self.columns().keys() - {f"w{self.number}"}:
            return f"CAST(size({rows}) AS BIGINT)"
        every = f"transform({rows}, r -> r.a{self.number})"
        some = f"filter({every}, x -> x IS NOT NULL)"
        if self.call.distinct:
            some = f"array_distinct({some})"
        wide = "DECIMAL(38, 10)" if kind.startswith("decimal") else "DOUBLE"
        form = FUNCTIONS[self.call.function]
        for word, text in (("{some}", some), ("{all}", every), ("{type}", kind), ("{wide}", wide)):
            form = form.replace(word, text)
        return form


def calls(node: Node) -> list[Call]:
    """The aggregates in an expression, outermost first."""
    if isinstance(node, Call) and is_aggregate(node.function):
        return [node]
    return [call for child in node.children() for call in calls(child)]


def fits(call: Call) -> bool:
    """Whether an aggregate can be computed from an array."""
    plain = len([a for a in call.args if not isinstance(a, Star)])
    return call.function in FUNCTIONS and plain <= 1 and (plain == 1 or call.function == "count")


def around(node: Node, answers: Mapping[Call, str], keys: Mapping[str, str]) -> Node:
    """The expression with its aggregates replaced by their answers, and grouped columns by the keys' names."""
    if isinstance(node, Call) and node in answers:
        return Column(name=answers[node])
    if isinstance(node, Column):
        return Column(name=keys.get(node.name, node.name))
    changed = {f.name: _inside(getattr(node, f.name), answers, keys) for f in fields(node)}
    return replace(node, **changed)


def _inside(value: Any, answers: Mapping[Call, str], keys: Mapping[str, str]) -> Any:
    if isinstance(value, Node):
        return around(value, answers, keys)
    return tuple(_inside(v, answers, keys) for v in value) if isinstance(value, tuple) else value
