"""JSON decoded in Arrow batches by a native engine, polars; what it may not be trusted with is handed on as it came.

This runs in Spark's Python workers, so only the grammar is imported with it; polars when the first batch is there.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from headrace.formats.json_shape import LONGEST, shape

if TYPE_CHECKING:
    import pyarrow as pa

ENGINE = "polars"
_ORDERS = 4
"""In how many orders fields may come; a stream's writers are few, and each writes them in its own."""

Columns = tuple[tuple[str, str], ...]
"""Names and types, as Spark spells them."""


@cache
def engine() -> Any:
    """Polars, with one thread: Spark runs as many workers as there are cores. None: it is not installed here."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    try:
        import polars
    except ImportError:
        return None
    return polars


@dataclass
class Orders:
    """The orders in which the wanted fields were seen to come, each with its expression."""

    columns: Columns
    shapes: dict[tuple[str, ...], str] = field(default_factory=dict)

    def learn(self, text: str) -> str | None:
        """The expression for the order of one record, if it is new; None: there is nothing to be learnt."""
        if len(self.shapes) == _ORDERS:
            return None
        try:
            pairs = json.loads(text, object_pairs_hook=lambda pairs: pairs)
            seen = [name for name, _ in pairs]
        except (ValueError, TypeError, RecursionError):
            return None
        wanted = [name for name, _ in self.columns]
        order = tuple(dict.fromkeys([*(n for n in seen if n in wanted), *wanted]))
        if order in self.shapes:
            return None
        made = shape([(name, dict(self.columns)[name]) for name in order])
        if made is not None:
            self.shapes[order] = made
        return made


@cache
def orders(columns: Columns) -> Orders:
    """What was learnt in this process; workers outlive batches."""
    return Orders(columns)


def decode(values: pa.Array, columns: Columns) -> tuple[Any, Any]:
    """Of BINARY values: which could be read here, and a frame with the columns, null elsewhere; None: none could."""
    pl = engine()
    text = _texts(values)
    sure = _matching(text, orders(columns))
    if not sure.any():
        return sure, None
    read = _read(text, sure, columns)
    if read is None:  # one that has no comma, or a brace instead, between its fields: the grammar does not tell
        sure = sure & pl.Series([s and _is_json(t) for s, t in zip(sure, text, strict=True)], dtype=pl.Boolean)
        read = _read(text, sure, columns)
    if read is None:
        return pl.Series([False]).new_from_index(0, len(text)), None
    made = {name: _typed(read.struct.field(name), kind) for name, kind in columns}
    return sure, pl.DataFrame(made)


def _read(text: Any, sure: Any, columns: Columns) -> Any:
    """The records that are sure as structs; None: one of them is no JSON."""
    pl, kinds = engine(), _kinds()
    if not sure.all():
        text = pl.select(pl.when(sure).then(text)).to_series()
    try:
        return text.str.json_decode(pl.Struct({name: kinds[kind] for name, kind in columns}))
    except pl.exceptions.PolarsError:
        return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _texts(values: pa.Array) -> Any:
    """Bytes as text, null where they are none."""
    pl = engine()
    try:
        return pl.from_arrow(values).cast(pl.String)
    except pl.exceptions.PolarsError:  # which does not tell for which of them
        return pl.Series([_text(value) for value in values.to_pylist()], dtype=pl.String)


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _matching(text: Any, known: Orders) -> Any:
    """Which records are of a known shape; at most one shape is learnt from each batch."""
    pl = engine()
    short = text.str.len_bytes() <= LONGEST
    sure = pl.Series([False]).new_from_index(0, len(text))
    for made in tuple(known.shapes.values()):
        sure = sure | _matches(text, short, sure, made)
        if sure.all():
            return sure
    odd = text.filter(short.fill_null(value=False) & ~sure)
    learnt = known.learn(odd[0]) if len(odd) else None
    return sure if learnt is None else sure | _matches(text, short, sure, learnt)


def _matches(text: Any, short: Any, already: Any, made: str) -> Any:
    """The records of one shape among those that are not sure yet."""
    pl = engine()
    if not already.any():
        found = text.str.contains(made) & short
    else:
        found = pl.select(pl.when(~already & short).then(text)).to_series().str.contains(made)
    return found.fill_null(value=False)


@cache
def _kinds() -> dict[str, Any]:
    """As what a value is parsed; times are texts first."""
    pl = engine()
    return {
        "string": pl.String,
        "boolean": pl.Boolean,
        "tinyint": pl.Int8,
        "smallint": pl.Int16,
        "int": pl.Int32,
        "bigint": pl.Int64,
        "double": pl.Float64,
        "timestamp": pl.String,
        "date": pl.String,
    }


def _typed(series: Any, kind: str) -> Any:
    pl = engine()
    if kind == "date":
        return series.str.to_date("%Y-%m-%d")
    if kind != "timestamp":
        return series
    if series.null_count() == len(series):
        return series.cast(pl.Datetime("us", "UTC"))
    sign = series.str.slice(-6, 1)
    zoned = (sign == "+") | (sign == "-")
    if not zoned.any():
        return _moments(series.str.strip_suffix("Z"))
    # Written with a distance from UTC: read without it, and then put right.
    local = pl.select(pl.when(zoned).then(series.str.head(-6)).otherwise(series.str.strip_suffix("Z"))).to_series()
    hours, minutes = (series.str.slice(at, 2).cast(pl.Int64, strict=False) for at in (-5, -2))
    east = (hours * 60 + minutes) * 60_000_000
    shift = pl.select(pl.when(sign == "+").then(east).when(sign == "-").then(-east).otherwise(0)).to_series()
    return (_moments(local).cast(pl.Int64) - shift).cast(pl.Datetime("us", "UTC"))


def _moments(texts: Any) -> Any:
    """Times without a zone, all valid, as UTC."""
    import pyarrow as pa

    pl = engine()
    moments = texts.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.timestamp("us"))
    return pl.from_arrow(moments).dt.replace_time_zone("UTC")
