"""Our types and values as Arrow's: how rows written by hand become columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from decimal import InvalidOperation, localcontext
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from headrace.model import Schema
from headrace.model import types as T

if TYPE_CHECKING:
    import pyarrow as pa

_BITS = {T.TINYINT: 8, T.SMALLINT: 16, T.INT: 32, T.BIGINT: 64}


class MisfitError(ValueError):
    """A value that does not fit its column; `path` says where, from the column's name inwards."""

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.message, self.path = message, path

    def within(self, step: str | int) -> MisfitError:
        return MisfitError(self.message, step, *self.path)

    def __str__(self) -> str:
        place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path).lstrip(".")
        return f'column "{place}": {self.message}' if place else self.message


def arrow_schema(schema: Schema) -> pa.Schema:
    """The schema as Arrow has it; timestamps in UTC."""
    import pyarrow as pa

    return pa.schema([pa.field(f.name, arrow_type(f.type)) for f in schema])


def arrow_type(kind: T.DataType) -> pa.DataType:
    """The type as Arrow has it."""
    import pyarrow as pa

    match kind:
        case T.Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case T.Array(item):
            return pa.list_(arrow_type(item))
        case T.Map(key, value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case T.Struct(fields):
            return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in fields])
    atoms = {
        T.BOOLEAN: pa.bool_(),
        T.TINYINT: pa.int8(),
        T.SMALLINT: pa.int16(),
        T.INT: pa.int32(),
        T.BIGINT: pa.int64(),
        T.FLOAT: pa.float32(),
        T.DOUBLE: pa.float64(),
        T.STRING: pa.string(),
        T.BINARY: pa.binary(),
        T.DATE: pa.date32(),
        T.TIMESTAMP: pa.timestamp("us", tz="UTC"),
        T.TIMESTAMP_NTZ: pa.timestamp("us"),
    }
    if kind not in atoms:
        raise MisfitError(f"there is no way to write a value of type {kind} by hand")
    return atoms[kind]


def fit_row(row: Mapping[str, Any] | list[Any] | tuple[Any, ...], schema: Schema, zone: str = "UTC") -> dict[str, Any]:
    """A row by column name with the value of each fitted to its type; raises MisfitError. What is not named is null."""
    if isinstance(row, Mapping):
        given = {str(name): value for name, value in row.items()}
        for name in given:
            if schema.find(name) is None:
                raise MisfitError(f'there is no column "{name}"; the schema has {", ".join(schema.names)}')
        lower = {name.lower(): value for name, value in given.items()}
        values = [lower.get(f.name.lower()) for f in schema]
    else:
        if len(row) != len(schema.names):
            raise MisfitError(f"{len(row)} values for {len(schema.names)} columns ({', '.join(schema.names)})")
        values = list(row)
    return {f.name: _inside(value, f.type, f.name, zone) for f, value in zip(schema, values, strict=True)}


def _inside(value: Any, kind: T.DataType, step: str | int, zone: str) -> Any:
    try:
        return fit(value, kind, zone)
    except MisfitError as error:
        raise error.within(step) from None


def fit(value: Any, kind: T.DataType, zone: str = "UTC") -> Any:
    """A value as Arrow takes it for that type, from what YAML, JSON or Python have; raises MisfitError.

    Nothing is rounded or cut: 1.5 is no BIGINT. Times are ISO 8601 text; bytes are bytes, or text as UTF-8.
    """
    if value is None:
        return None
    match kind:
        case T.Array(item) if isinstance(value, list | tuple):
            return [_inside(v, item, n, zone) for n, v in enumerate(value)]
        case T.Map(key, item) if isinstance(value, Mapping):
            return [(fit(k, key, zone), _inside(v, item, str(k), zone)) for k, v in value.items()]
        case T.Struct(fields) if isinstance(value, Mapping | list | tuple):
            return fit_row(value, Schema(fields), zone)
        case T.Decimal():
            return _decimal(value, kind)
        case T.Atom():
            return _atom(value, kind, zone)
    raise MisfitError(f"{value!r} is not of type {kind}")


def _atom(value: Any, kind: T.Atom, zone: str) -> Any:
    wrong = MisfitError(f"{value!r} is not of type {kind}")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in _BITS and number and math.isfinite(value) and value == int(value):
        if abs(2 * int(value) + 1) >= 1 << _BITS[kind]:
            raise MisfitError(f"{value} is out of range for {kind}")
        return int(value)
    if kind in (T.FLOAT, T.DOUBLE) and (number or str(value).lower() in ("nan", ".nan", "inf", "-inf")):
        return float(value)
    if kind == T.BOOLEAN and isinstance(value, bool):
        return value
    if kind == T.STRING and isinstance(value, str | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if kind == T.STRING and isinstance(value, date):
        return value.isoformat()
    if kind == T.BINARY and isinstance(value, str | bytes):
        return value.encode() if isinstance(value, str) else value
    if kind in (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ):
        return _time(value, kind, zone)
    raise wrong


def _time(value: Any, kind: T.Atom, zone: str) -> date | datetime:
    try:
        if kind == T.DATE:
            if isinstance(value, datetime):
                return value.date()
            return value if isinstance(value, date) else date.fromisoformat(str(value))
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime.combine(value, time.min)
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise MisfitError(f"{value!r} is not a {kind}; write it as ISO 8601 text") from None
    if kind == T.TIMESTAMP_NTZ:
        if moment.tzinfo is not None:
            raise MisfitError(f"{value!r} has a time zone, which a timestamp_ntz has not")
        return moment
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)


def _decimal(value: Any, kind: T.Decimal) -> Number:
    try:
        if isinstance(value, bool):
            raise InvalidOperation
        number = value if isinstance(value, Number) else Number(str(value))
    except InvalidOperation:
        raise MisfitError(f"{value!r} is not of type {kind}") from None
    if not number.is_finite():
        raise MisfitError(f"{value!r} is not of type {kind}")
    with localcontext(prec=100):  # Python's own precision would round what has more than 28 digits
        return _scaled(number, kind)


def _scaled(number: Number, kind: T.Decimal) -> Number:
    _, digits, exponent = number.normalize().as_tuple()
    assert isinstance(exponent, int)
    if -exponent > kind.scale:
        raise MisfitError(f"{number} has more than {kind.scale} digits after the point, which {kind} has not")
    if len(digits) + exponent > kind.precision - kind.scale:
        raise MisfitError(f"{number} is out of range for {kind}")
    return number.quantize(Number(1).scaleb(-kind.scale))
