"""Rules for answers that newer ones replace: a sink must be told which row each is of, and be given them all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.catalogue import SINKS
from headrace.check.checked import Checked, problem
from headrace.check.wires import ANSWER, Rows
from headrace.connectors.base import SinkConnector
from headrace.errors import Problem
from headrace.expressions.expression import Expression
from headrace.expressions.tree import Call, Column, Literal, Node
from headrace.model import Changes, Flow, Port, Sink, Step
from headrace.operators.aggregate import Aggregate
from headrace.operators.base import Operator
from headrace.operators.filter import Filter
from headrace.operators.windows import START

_TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
_GROWING = {"count": ">", "count_if": ">", "max": ">", "min": "<"}
"""Aggregates that only ever go one way as records come, and the comparison that then stays true."""


def keys_tell_rows_apart(checked: Checked) -> Iterator[Problem]:
    """The key of a sink tells apart the rows of a changing result; else one would replace another.

    Surely wrong is a table without the window, of which there is always another, or with nothing of what is grouped
    by. Of several columns that are grouped by one may follow from another, as a name from a number: worth a warning.
    So is a log, which keeps them all.
    """
    for sink, connector, rows in _tables(checked):
        held = frozenset(part for name in connector.key() for part in rows.of(name))
        missing = [part for part in rows.parts if part not in held]
        if START in missing and START in rows.of(connector.newest_by or ""):
            missing.remove(START)  # of each key the newest window is wanted
        if not missing or any(name.lower() not in rows.columns for name in connector.key()):
            continue
        grouped = frozenset(rows.parts) - {START}
        sure = START in missing or not held & grouped
        names = {part: next((c for c, told in rows.columns.items() if told == {part}), part) for part in rows.parts}
        several = [*connector.key(), *(names[part] for part in missing)]
        yield problem(
            sink,
            "bad-option",
            f'({sink.connector}) has a key without "{names[missing[0]]}", which tells its changing rows apart',
            sink.connector,
            "key",
            detail="rows that differ only in it would replace each other",
            hint=_other_key(sink, several),
            warning=connector.keeps_all or not sure,
        )


def _other_key(sink: Sink, names: list[str]) -> str:
    if isinstance(sink.options.key, str):
        return f"add a column of all, `with: {{id: \"concat_ws('|', {', '.join(names)})\"}}`, and write `key: id`"
    return f"write `key: [{', '.join(names)}]`, or give each window once (`emit: final`)"


def what_changes_stays(checked: Checked) -> Iterator[Problem]:
    """A row that a sink was given is not left out when its values change: the sink would keep the old ones."""
    flow = checked.flow
    for sink, connector, _ in _tables(checked):
        for name in flow.upstream(sink.name):
            step = flow[name]
            if not isinstance(step, Step) or checked.wires.changes.get(step.inputs[0]) is not Changes.UPDATE:
                continue
            rows = checked.wires.rows[step.inputs[0]]
            read = step.options.decides_by()
            by = sorted(c for c in read if ANSWER in rows.of(c))
            if not by or _lasts(flow, step, rows):
                continue
            yield problem(
                step,
                "unsupported",
                f'leaves a row out when its "{by[0]}" changes, but sink "{sink.name}" would keep the row as it was',
                step.operator,
                detail=f"{sink.connector} replaces rows by {', '.join(connector.key())}, and is not told to remove one",
                hint="give each answer once (`emit: final`), choose before the aggregate or by what is grouped by, "
                "or write all rows and choose when they are read",
                warning=connector.keeps_all,
            )


def _tables(checked: Checked) -> Iterator[tuple[Sink, SinkConnector[Any], Rows]]:
    """The sinks that hold the last row of each key and are given changing rows; a screen holds nothing."""
    for sink in checked.flow.sinks:
        connector = SINKS[sink.connector](sink.options)
        rows = checked.wires.rows.get(sink.inputs[0]) if len(sink.inputs) == 1 else None
        if rows is not None and connector.key() and connector.complete:
            yield sink, connector, rows


def _lasts(flow: Flow, step: Step, rows: Rows) -> bool:
    """Whether a filter right behind an aggregate lets a row through for ever once it has, as `count(*) > 3` does."""
    if not isinstance(step.options, Filter) or not isinstance(step.options.where, Expression):
        return False
    port: Port = step.inputs[0]
    while isinstance(part := flow[port.step], Step) and isinstance(part.options, Filter):
        port = part.inputs[0]
    operator: Operator | None = part.options if isinstance(part, Step) else None
    if not isinstance(operator, Aggregate):
        return False
    ways = {c.name.lower(): _way(c.value) for c in operator.compute}
    return _stays(step.options.where.tree, ways, rows)


def _way(value: object) -> str:
    tree = value.tree if isinstance(value, Expression) else None
    return _GROWING.get(tree.function.lower(), "") if isinstance(tree, Call) else ""


def _stays(node: Node, ways: dict[str, str], rows: Rows) -> bool:
    """Whether a condition that was true once is true for ever."""
    if not isinstance(node, Call):
        return _fixed(node, rows)
    if node.function.lower() in ("and", "or"):
        return all(_stays(arg, ways, rows) for arg in node.args)
    if node.function in _TURNED and len(node.args) == 2:
        one, other = node.args
        sign = node.function
        if isinstance(one, Literal):
            one, other, sign = other, one, _TURNED[sign]
        if isinstance(one, Column) and isinstance(other, Literal) and ways.get(one.name.lower()) == sign[0]:
            return True
    return _fixed(node, rows)


def _fixed(node: Node, rows: Rows) -> bool:
    return all(ANSWER not in rows.of(n.name) for n in node.walk() if isinstance(n, Column))
