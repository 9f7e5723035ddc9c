"""Programs of `arrow` as expressions of polars: each a value, and where it is not sure to be Spark's.

This runs in Spark's Python workers, so nothing of ours is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

_SMALL = 2**31
_RANGES = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": 2**63}


class Running:
    """Lowers programs with one engine."""

    def __init__(self, engine: Any) -> None:
        self.pl = engine

    def lower(self, program: tuple[Any, ...]) -> tuple[Any, Any]:
        """The value, and where it is unsure; None: it is sure everywhere."""
        kind, *rest = program
        if kind == "column":
            return self.pl.col(rest[0]), None
        if kind == "literal":
            return self._literal(*rest), None
        if kind in ("add", "subtract", "multiply", "divide", "remainder"):
            return self._arithmetic(kind, *rest)
        programs = [p for p in rest if isinstance(p, tuple)]
        plain = [p for p in rest if not isinstance(p, tuple)]
        values, unsure = zip(*(self.lower(p) for p in programs), strict=True)
        made = _OPERATIONS[kind](self.pl, *values, *plain)
        return made, _either([*unsure, self._beyond_ascii(values[0]) if kind in ("lower", "upper") else None])

    def _literal(self, kind: str, value: Any) -> Any:
        pl = self.pl
        if kind == "decimal":
            return pl.lit(float(value))
        if kind == "timestamp":
            return pl.lit(value, pl.Int64).cast(pl.Datetime("us", "UTC"))
        if kind == "date":
            return pl.lit(value, pl.Int32).cast(pl.Date)
        if kind in _RANGES:
            return pl.lit(value, pl.Int64)
        return pl.lit(value, {"string": pl.String, "boolean": pl.Boolean, "double": pl.Float64}[kind])

    def _arithmetic(self, name: str, kind: str, left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, Any]:
        (a, unsure_a), (b, unsure_b) = self.lower(left), self.lower(right)
        if kind == "double":
            # Spark raises when something is divided by zero.
            more = (b == 0.0) if name == "divide" else None
            return _DOUBLES[name](a, b), _either([unsure_a, unsure_b, more])
        a, b = (x.cast(self.pl.Int64) for x in (a, b))
        if name == "remainder":
            # Of what is negative the two take different remainders; by zero Spark raises.
            more = (a < 0) | (b <= 0)
            made = a % b
        else:
            made, limit = _DOUBLES[name](a, b), _RANGES[kind]
            more = (a >= _SMALL) | (a <= -_SMALL) | (b >= _SMALL) | (b <= -_SMALL)
            if kind != "bigint":
                more = more | (made >= limit) | (made < -limit)
        return made, _either([unsure_a, unsure_b, more])

    def _beyond_ascii(self, text: Any) -> Any:
        return text.str.len_bytes() != text.str.len_chars()


_DOUBLES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
}
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "eq": lambda pl, a, b: a == b,
    "ne": lambda pl, a, b: a != b,
    "lt": lambda pl, a, b: a < b,
    "le": lambda pl, a, b: a <= b,
    "gt": lambda pl, a, b: a > b,
    "ge": lambda pl, a, b: a >= b,
    "same": lambda pl, a, b: a.eq_missing(b),
    "and": lambda pl, a, b: a & b,
    "or": lambda pl, a, b: a | b,
    "not": lambda pl, a: ~a,
    "is_null": lambda pl, a: a.is_null(),
    "is_not_null": lambda pl, a: a.is_not_null(),
    "lower": lambda pl, a: a.str.to_lowercase(),
    "upper": lambda pl, a: a.str.to_uppercase(),
    "trim": lambda pl, a: a.str.strip_chars(" "),
    "ltrim": lambda pl, a: a.str.strip_chars_start(" "),
    "rtrim": lambda pl, a: a.str.strip_chars_end(" "),
    "length": lambda pl, a: a.str.len_chars().cast(pl.Int32),
    "starts": lambda pl, a, part: a.str.starts_with(part),
    "ends": lambda pl, a, part: a.str.ends_with(part),
    "contains": lambda pl, a, part: a.str.contains(part, literal=True),
    "coalesce": lambda pl, *values: pl.coalesce(*values),
    "double": lambda pl, a: a.cast(pl.Float64),
}


def _either(conditions: list[Any]) -> Any:
    """Where one of these holds; null is no."""
    given = [c.fill_null(value=False) for c in conditions if c is not None]
    return reduce(lambda a, b: a | b, given) if given else None
