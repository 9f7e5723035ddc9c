"""The aggregates of the oracle in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal as Number
from typing import Any

from headrace.expressions.casts import WIDE, EvaluationError, NotEvaluable, as_decimal_of, convert
from headrace.expressions.literals import fits
from headrace.expressions.routines import compare
from headrace.model.types import BIGINT, DOUBLE, DataType, Decimal, is_numeric

Rows = Sequence[tuple[Any, ...]]
Reduction = Callable[[Rows, Sequence[DataType], DataType], Any]


def _count(rows: Rows, kinds: Sequence[DataType], wanted: DataType) -> int:
    return sum(1 for row in rows if None not in row)


def _values(rows: Rows) -> list[Any]:
    return [row[0] for row in rows if row[0] is not None]


def _sum(rows: Rows, kinds: Sequence[DataType], wanted: DataType) -> Any:
    values = _values(rows)
    if not values:
        return None
    if isinstance(wanted, Decimal):
        total = Number(0)
        for value in values:
            total = WIDE.add(total, value)
        return as_decimal_of(total, wanted)
    if wanted == DOUBLE:
        result = 0.0
        for value in values:
            result += convert(value, kinds[0], DOUBLE)
        return result
    if wanted != BIGINT:
        raise NotEvaluable(f"sum of {kinds[0]}")
    whole = sum(values)
    if not fits(whole, BIGINT):
        raise EvaluationError("the sum is out of the range of bigint")
    return whole


def _avg(rows: Rows, kinds: Sequence[DataType], wanted: DataType) -> Any:
    values = _values(rows)
    if not values:
        return None
    if isinstance(wanted, Decimal):
        total = Number(0)
        for value in values:
            total = WIDE.add(total, value)
        return as_decimal_of(WIDE.divide(total, Number(len(values))), wanted)
    if not is_numeric(kinds[0]):
        raise NotEvaluable(f"avg of {kinds[0]}")
    result = 0.0
    for value in values:
        result += float(value)
    return result / len(values)


def _best(sign: int) -> Reduction:
    def reduction(rows: Rows, kinds: Sequence[DataType], wanted: DataType) -> Any:
        best = None
        for value in _values(rows):
            if best is None or sign * compare(value, best) > 0:
                best = value
        return best

    return reduction


def _best_by(sign: int) -> Reduction:
    def reduction(rows: Rows, kinds: Sequence[DataType], wanted: DataType) -> Any:
        kept = [row for row in rows if row[1] is not None]
        keys = [row[1] for row in kept]
        if len({str(k) for k in keys}) < len(keys):
            raise NotEvaluable("which of several equal ones comes first")
        best: tuple[Any, ...] | None = None
        for row in kept:
            if best is None or sign * compare(row[1], best[1]) > 0:
                best = row
        return None if best is None else best[0]

    return reduction


def _logic(found: bool) -> Reduction:
    def reduction(rows: Rows, kinds: Sequence[DataType], wanted: DataType) -> Any:
        values = _values(rows)
        if not values:
            return None
        return found if found in values else not found

    return reduction


def _bits(join: Callable[[int, int], int]) -> Reduction:
    def reduction(rows: Rows, kinds: Sequence[DataType], wanted: DataType) -> Any:
        result = None
        for value in _values(rows):
            result = value if result is None else join(result, value)
        return result

    return reduction


def _median(rows: Rows, kinds: Sequence[DataType], wanted: DataType) -> Any:
    values = sorted(float(v) for v in _values(rows))
    if not values:
        return None
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


AGGREGATES: dict[str, Reduction] = {
    "count": _count,
    "count_if": lambda rows, kinds, wanted: sum(1 for row in rows if row[0] is True),
    "sum": _sum,
    "avg": _avg,
    "mean": _avg,
    "min": _best(-1),
    "max": _best(1),
    "min_by": _best_by(-1),
    "max_by": _best_by(1),
    **dict.fromkeys(("collect_list", "array_agg"), lambda rows, kinds, wanted: _values(rows)),
    **dict.fromkeys(("bool_and", "every"), _logic(False)),
    **dict.fromkeys(("bool_or", "some", "any"), _logic(True)),
    "bit_and": _bits(lambda a, b: a & b),
    "bit_or": _bits(lambda a, b: a | b),
    "bit_xor": _bits(lambda a, b: a ^ b),
    "median": _median,
}
"""Order matters to collect_list, first and last in Spark; the oracle keeps the order of the records."""
