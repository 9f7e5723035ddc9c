"""Values from one type to another, as Spark's ANSI casts do it; in plain Python.

`EvaluationError` is raised where Spark would fail, `NotEvaluable` where the two are not proved equal.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, InvalidOperation
from decimal import Decimal as Number
from typing import Any

from headrace.expressions.coerce import is_day_interval
from headrace.expressions.literals import fits, read_date, read_timestamp
from headrace.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    UNKNOWN,
    VOID,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    is_integer,
)

WIDE = Context(prec=120)
"""Enough digits for any product or quotient of two decimals of 38."""


class NotEvaluable(Exception):  # noqa: N818 - a limit of the oracle, not an error of the flow
    """The oracle does not cover this."""


class EvaluationError(ArithmeticError):
    """The expression fails on this record, in Spark too."""


class OutOfRangeError(EvaluationError):
    """A whole number is beyond its type."""


_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")


def convert(value: Any, given: DataType, wanted: DataType) -> Any:
    """A value of one type as one of another; null stays null."""
    if value is None or given == wanted or UNKNOWN in (given, wanted):
        return value
    if is_integer(wanted):
        return _to_integer(value, given, wanted)
    if wanted in (FLOAT, DOUBLE):
        return _to_double(value, given, wanted)
    match wanted:
        case Decimal():
            return _to_decimal(value, given, wanted)
        case Array(item=item) if isinstance(given, Array):
            return [convert(v, given.item, item) for v in value]
        case Map() if isinstance(given, Map):
            return {convert(k, given.key, wanted.key): convert(v, given.value, wanted.value) for k, v in value.items()}
        case Struct() if isinstance(given, Struct):
            pairs = zip(given.fields, wanted.fields, strict=True)
            return {g.name: convert(value[f.name], f.type, g.type) for f, g in pairs}
    if wanted == STRING:
        return to_string(value, given)
    if wanted == BOOLEAN:
        return _to_boolean(value, given)
    if wanted in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return _to_time(value, given, wanted)
    if wanted == BINARY and given == STRING:
        return value.encode()
    if (is_day_interval(given) and is_day_interval(wanted)) or given == VOID:
        return value
    raise NotEvaluable(f"cast of {given} to {wanted}")


def _to_integer(value: Any, given: DataType, wanted: DataType) -> int:
    if given == STRING:
        if not re.fullmatch(r"[+-]?[0-9]+", value.strip(_BLANK)):
            raise EvaluationError(f"{value!r} is not a {wanted}")
        number = int(value.strip(_BLANK))
    elif given == TIMESTAMP:
        number = micros(value) // 1_000_000
    elif isinstance(value, float) and not math.isfinite(value):
        raise EvaluationError(f"{value} is not a {wanted}")
    elif isinstance(value, int | float | Number):
        number = int(value)
    else:
        raise NotEvaluable(f"cast of {given} to {wanted}")
    if not fits(number, wanted):
        raise OutOfRangeError(f"{value} is out of the range of {wanted}")
    return number


_BLANK = "".join(map(chr, range(33)))
_FLOATING = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _to_double(value: Any, given: DataType, wanted: DataType) -> float:
    if given == STRING:
        text = value.strip(_BLANK)
        if not _FLOATING.fullmatch(text):
            if text.lower().lstrip("+-") in ("nan", "inf", "infinity") or text[-1:].lower() in ("d", "f"):
                raise NotEvaluable(f"cast of {value!r} to {wanted}")
            raise EvaluationError(f"{value!r} is not a {wanted}")
        number = float(text)
    elif given == TIMESTAMP:
        number = micros(value) / 1_000_000
    elif isinstance(value, int | float | Number):
        number = float(value)
    else:
        raise NotEvaluable(f"cast of {given} to {wanted}")
    if wanted == FLOAT:
        raise NotEvaluable("float has less precision than Python's")
    return number


def _to_decimal(value: Any, given: DataType, wanted: Decimal) -> Number:
    if given == STRING:
        text = value.strip(_BLANK)
        if not _FLOATING.fullmatch(text):
            raise EvaluationError(f"{value!r} is not a {wanted}")
        return as_decimal_of(Number(text), wanted)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise EvaluationError(f"{value} is not a {wanted}")
        return as_decimal_of(Number(repr(value)), wanted)
    if isinstance(value, int | Number):
        return as_decimal_of(Number(value), wanted)
    raise NotEvaluable(f"cast of {given} to {wanted}")


def as_decimal_of(value: Number, wanted: Decimal) -> Number:
    """A number with the digits of a decimal type; raises EvaluationError if it has too many."""
    try:
        rounded = value.quantize(Number(1).scaleb(-wanted.scale), rounding=ROUND_HALF_UP, context=WIDE)
    except InvalidOperation:
        raise EvaluationError(f"{value} does not fit {wanted}") from None
    if rounded and rounded.adjusted() >= wanted.precision - wanted.scale:
        raise EvaluationError(f"{value} does not fit {wanted}")
    return rounded


def _to_boolean(value: Any, given: DataType) -> bool:
    if given == STRING:
        word = value.strip(_BLANK).lower()
        if word not in (*_TRUE, *_FALSE):
            raise EvaluationError(f"{value!r} is not a boolean")
        return word in _TRUE
    if isinstance(value, int | float | Number):
        return value != 0
    raise NotEvaluable(f"cast of {given} to boolean")


def _to_time(value: Any, given: DataType, wanted: DataType) -> Any:
    if given == STRING:
        try:
            if wanted == DATE:
                return read_date(value)
            moment = read_timestamp(value)
        except ValueError:
            raise EvaluationError(f"{value!r} is not a {wanted}") from None
        if wanted == TIMESTAMP_NTZ:
            return moment.replace(tzinfo=None)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    if isinstance(value, datetime):
        plain = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return plain.date() if wanted == DATE else plain.replace(tzinfo=UTC if wanted == TIMESTAMP else None)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC if wanted == TIMESTAMP else None)
    if is_integer(given) and wanted == TIMESTAMP:
        return from_micros(value * 1_000_000)
    raise NotEvaluable(f"cast of {given} to {wanted}")


def micros(value: datetime) -> int:
    """Microseconds since 1970, UTC."""
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def from_micros(value: int) -> datetime:
    """The moment so many microseconds after 1970."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    except OverflowError:
        raise NotEvaluable("a time outside the years 1 to 9999") from None


def to_string(value: Any, given: DataType) -> str:
    """A value as Spark writes it in text."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | str():
            return str(value)
        case Number():
            if value and value.adjusted() < -6:
                raise NotEvaluable("Java writes very small decimals with an exponent")
            return format(value, "f")
        case float():
            return _java(value)
        case datetime():
            plain = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            text = plain.isoformat(sep=" ")
            return text.rstrip("0") if "." in text else text
        case date():
            return value.isoformat()
        case bytes():
            raise NotEvaluable("bytes as text")
    raise NotEvaluable(f"cast of {given} to string")


def _java(value: float) -> str:
    """A double in Java's notation, where every Java agrees on it."""
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    digits = repr(value)
    if not math.isfinite(value) or not 1e-3 <= abs(value) < 1e7 or len(digits.strip("-")) > 15:
        raise NotEvaluable("Java versions write this number differently")
    return digits


def truncated(value: Number) -> int:
    """The whole part of a decimal."""
    return int(value.to_integral_value(rounding=ROUND_DOWN))
