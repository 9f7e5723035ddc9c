"""What a batch can do and a stream cannot, because the answer would need what no longer is there."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.check.checked import problem
from headrace.errors import Problem
from headrace.expressions.expression import Expression
from headrace.model import Flow
from headrace.operators.aggregate import Aggregate
from headrace.operators.arrays import calls


def only_in_batches(flow: Flow) -> Iterator[Problem]:
    """Every reason why a flow runs with `--mode batch` only, at its place."""
    for step in flow.steps:
        operator = step.options
        if not isinstance(operator, Aggregate) or operator.fold() is not None:
            continue
        for column in operator.compute:
            found = calls(column.value.tree) if isinstance(column.value, Expression) else []
            for call in (c for c in found if c.distinct):
                yield problem(
                    step,
                    "unsupported",
                    f'computes {call.function}(DISTINCT …) as "{column.name}", which Spark does in batches only',
                    step.operator,
                    "compute",
                    column.name,
                    hint="use approx_count_distinct(…), or size(collect_set(…)), which keeps every value; "
                    "or run it with --mode batch",
                )
