"""Aggregates over an array of records instead of over many rows, in Spark's own functions.

For windows whose records are kept in order, in Java (`headrace.InOrder`): it hands over the values of a key's records
as arrays and says which part of them each window is, and the answers are still computed by Spark. An aggregate's
arguments become columns of the records before, and what stands around it is computed from the answers behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from headrace.expressions.expression import Expression
from headrace.expressions.functions import is_aggregate
from headrace.expressions.tree import Call, Column, Node, Star

FROM, TO, NUMBER = "_headrace_from", "_headrace_to", "_headrace_number"
"""Of the windows of a key, as arrays: the times in microseconds, and which of the key's windows by count it is."""
FIRST, SIZE = "_headrace_first", "_headrace_size"
"""The same: where in the values each begins (from 1), and how long it is."""
GONE = "_headrace_gone"
"""Whether windows were given and are no more."""
_WINDOW = "w"
"""The name, in SQL, of the window at hand."""
FUNCTIONS: dict[str, str] = {
    "count": "CAST(size({some}) AS BIGINT)",
    "count_if": "CAST(size(filter({all}, x -> x)) AS BIGINT)",
    "sum": "aggregate({values}, CAST(NULL AS {type}), "
    "(s, x) -> IF(x IS NULL, s, CAST(IF(s IS NULL, x, s + x) AS {type})))",
    **dict.fromkeys(
        ("avg", "mean"),
        "aggregate({values}, named_struct('s', CAST(0 AS {wide}), 'n', 0L), (t, x) -> IF(x IS NULL, t, "
        "named_struct('s', CAST(t.s + x AS {wide}), 'n', t.n + 1L)), "
        "t -> CAST(IF(t.n = 0L, NULL, t.s / t.n) AS {type}))",
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
"""What each aggregate is over an array: all values, those that are not null, those that count, the answer's type."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One aggregate call: its number, the columns it takes from each record, and which of them must be true."""

    call: Call
    number: int

    @property
    def answer(self) -> str:
        return f"_headrace_answer_{self.number}"

    @property
    def _value(self) -> str:
        return f"_headrace_a{self.number}"

    @property
    def _where(self) -> str:
        return f"_headrace_w{self.number}"

    def columns(self) -> dict[str, Expression]:
        """What must be computed for each record, by name."""
        value = next((a for a in self.call.args if not isinstance(a, Star)), None)
        wanted = {self._value: value, self._where: self.call.where}
        return {name: Expression(node) for name, node in wanted.items() if node is not None}

    def sql(self, kind: str) -> str:
        """The answer for the window at hand from the arrays of its key, `kind` being its type."""
        every, met = (f"slice({c}, {_WINDOW}.{FIRST}, {_WINDOW}.{SIZE})" for c in (self._value, self._where))
        if self._value not in self.columns():
            records = f"{_WINDOW}.{SIZE}" if self.call.where is None else f"size(filter({met}, x -> x))"
            return f"CAST({records} AS BIGINT)"
        if self.call.where is not None:
            every = f"transform(filter(arrays_zip({every}, {met}), r -> r.`1`), r -> r.`0`)"
        some = f"filter({every}, x -> x IS NOT NULL)"
        if self.call.distinct:
            some = f"array_distinct({some})"
        values = some if self.call.distinct else every
        wide = "DECIMAL(38, 10)" if kind.startswith("decimal") else "DOUBLE"
        form = FUNCTIONS[self.call.function]
        words = {"{some}": some, "{all}": every, "{values}": values, "{type}": kind, "{wide}": wide}
        for word, text in words.items():
            form = form.replace(word, text)
        return form


def each_window(answers: Mapping[str, str]) -> str:
    """SQL for an array of structs, one for each window of a row: FROM, TO, NUMBER and the answers by name."""
    said = "".join(f", '{name}', {sql}" for name, sql in answers.items())
    spans = ", ".join(f"'{name}', {_WINDOW}.{name}" for name in (FROM, TO, NUMBER))
    windows = f"arrays_zip({', '.join((FROM, TO, NUMBER, FIRST, SIZE))})"
    return f"transform({windows}, {_WINDOW} -> named_struct({spans}{said}))"


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
