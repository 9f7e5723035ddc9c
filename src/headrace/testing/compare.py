"""Expected rows against those that came, and the difference in a form one can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace.connectors.arrow import MisfitError, fit
from headrace.model import Schema

Row = tuple[Any, ...]


def difference(expected: Sequence[Mapping[str, Any]], found: Iterable[Mapping[str, Any]], schema: Schema) -> list[str]:
    """Lines that tell expected rows from found ones; none if they agree."""
    names = list(dict.fromkeys(name for row in expected for name in row)) or list(schema.names)
    unknown = [name for name in names if name not in schema]
    if unknown:
        return [f"there is no column {', '.join(unknown)}; the sink's columns are {', '.join(schema.names)}"]
    try:
        wanted = Counter(_key(row, names, schema) for row in expected)
    except MisfitError as error:
        return [f"an expected value does not fit its column: {error}"]
    came = Counter(_key(row, names, schema) for row in found)
    missing, extra = list((wanted - came).elements()), list((came - wanted).elements())
    if not missing and not extra:
        return []
    rows = [("-", row) for row in missing] + [("+", row) for row in extra]
    rows.sort(key=lambda r: (str(r[1]), r[0]))
    return [*_table(names, rows), f"({len(missing)} expected but missing, {len(extra)} not expected)"]


def _key(row: Mapping[str, Any], names: list[str], schema: Schema) -> Row:
    return tuple(_hashable(fit(row.get(name), schema[name])) for name in names)


def _hashable(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, Mapping):
        return tuple((k, _hashable(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return tuple(_hashable(v) for v in value)
    return value


def _table(names: list[str], rows: list[tuple[str, Row]]) -> list[str]:
    cells = [[mark, *(_show(v) for v in row)] for mark, row in rows]
    widths = [max(len(c) for c in column) for column in zip(["", *names], *cells, strict=True)]
    lines = [
        " ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in (["", *names], *cells)
    ]
    return lines[:60] + ([f"… and {len(lines) - 60} more"] if len(lines) > 60 else [])


def _show(value: Any) -> str:
    return "null" if value is None else str(value)
