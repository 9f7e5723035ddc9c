"""Which type two values meet in, and which a value may become by itself: Spark's ANSI rules.

Spark 4 runs in ANSI mode: text becomes a number, a time or a truth value where one is wanted, whole numbers
widen, and nothing else changes kind in silence.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.expressions.literals import INTERVAL_DAY
from headrace.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DAY_INTERVAL,
    DOUBLE,
    FLOAT,
    INTEGERS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    UNKNOWN,
    VARIANT,
    VOID,
    YEAR_INTERVAL,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Struct,
    is_integer,
    is_numeric,
)

INTERVALS = (DAY_INTERVAL, YEAR_INTERVAL, INTERVAL_DAY)
TIMES = (DATE, TIMESTAMP, TIMESTAMP_NTZ)
_AS_DECIMAL = {"tinyint": (3, 0), "smallint": (5, 0), "int": (10, 0), "bigint": (20, 0), "float": (14, 7)}
_PRECEDENCE: tuple[DataType, ...] = (*INTEGERS, FLOAT, DOUBLE)


def is_atomic(t: DataType) -> bool:
    """True for types without parts."""
    return not isinstance(t, Array | Map | Struct) and t not in (VOID, UNKNOWN)


def is_interval(t: DataType) -> bool:
    """True for lengths of time."""
    return t in INTERVALS


def is_day_interval(t: DataType) -> bool:
    """True for lengths of time in days and less."""
    return t in (DAY_INTERVAL, INTERVAL_DAY)


def is_ordered(t: DataType) -> bool:
    """True if two values can be compared for order (and so for equality)."""
    match t:
        case Map():
            return False
        case Array():
            return is_ordered(t.item)
        case Struct():
            return all(is_ordered(f.type) for f in t.fields)
    return t != VARIANT


def has_unknown(t: DataType) -> bool:
    """True if any part of a type could not be told."""
    match t:
        case Array():
            return has_unknown(t.item)
        case Map():
            return has_unknown(t.key) or has_unknown(t.value)
        case Struct():
            return any(has_unknown(f.type) for f in t.fields)
    return t == UNKNOWN


def as_decimal(t: DataType) -> Decimal:
    """The decimal every value of a number type fits in."""
    if isinstance(t, Decimal):
        return t
    return Decimal(*_AS_DECIMAL.get(str(t), (30, 15)))


def bounded(precision: int, scale: int) -> Decimal:
    """A decimal cut to 38 digits, at the cost of digits on both sides."""
    return Decimal(min(precision, 38), min(scale, 38))


def adjusted(precision: int, scale: int) -> Decimal:
    """A decimal cut to 38 digits as arithmetic does: whole digits are kept, at least 6 after the point if there are."""
    if precision <= 38:
        return Decimal(precision, scale)
    return Decimal(38, max(38 - (precision - scale), min(scale, 6)))


def wider_decimal(a: Decimal, b: Decimal) -> Decimal:
    """The decimal that holds all values of both."""
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    return bounded(precision, scale) if precision <= 38 else Decimal(38, max(0, scale - (precision - 38)))


def tightest(a: DataType, b: DataType) -> DataType | None:
    """The narrowest type that both become without loss; text stays text."""
    if a == b:
        return a
    if UNKNOWN in (a, b):
        return UNKNOWN
    if VOID in (a, b):
        return b if a == VOID else a
    if a in _PRECEDENCE and b in _PRECEDENCE:
        wider = max(a, b, key=_PRECEDENCE.index)
        return DOUBLE if wider == FLOAT and (is_integer(a) or is_integer(b)) else wider
    if (isinstance(a, Decimal) and is_integer(b)) or (isinstance(b, Decimal) and is_integer(a)):
        exact, whole = (a, as_decimal(b)) if isinstance(a, Decimal) else (as_decimal(b), as_decimal(a))
        fits = exact.precision - exact.scale >= whole.precision
        return exact if fits else None
    if a in TIMES and b in TIMES:
        return TIMESTAMP if TIMESTAMP in (a, b) else TIMESTAMP_NTZ
    if is_day_interval(a) and is_day_interval(b):
        return DAY_INTERVAL
    return _parts(a, b, tightest)


def _parts(a: DataType, b: DataType, join: Callable[[DataType, DataType], DataType | None]) -> DataType | None:
    if isinstance(a, Array) and isinstance(b, Array):
        item = join(a.item, b.item)
        return Array(item) if item is not None else None
    if isinstance(a, Map) and isinstance(b, Map):
        key, value = meeting(a.key, b.key), join(a.value, b.value)  # a key that fails to convert would be lost
        return Map(key, value) if key is not None and value is not None else None
    if isinstance(a, Struct) and isinstance(b, Struct) and len(a.fields) == len(b.fields):
        fields = []
        for f, g in zip(a.fields, b.fields, strict=True):
            kind = join(f.type, g.type)
            if kind is None or f.name.lower() != g.name.lower():
                return None
            fields.append(Field(f.name, kind))
        return Struct(tuple(fields))
    return None


def promoted(a: DataType, b: DataType) -> DataType | None:
    """What text and something else meet in; None if neither is text or they do not."""
    if a != STRING and b != STRING:
        return None
    other = b if a == STRING else a
    if is_integer(other):
        return BIGINT
    if is_numeric(other):
        return DOUBLE
    if other in (VOID, STRING):
        return STRING
    return other if is_atomic(other) and other not in INTERVALS else None


def common(a: DataType, b: DataType) -> DataType | None:
    """The type two branches, items or sides of a comparison meet in, or None if they do not."""
    return meeting(a, b) or promoted(a, b) or _parts(a, b, common)


def meeting(a: DataType, b: DataType) -> DataType | None:
    """As `common`, but text does not become anything else."""
    found = tightest(a, b)
    if found is not None:
        return found
    if (isinstance(a, Decimal) and is_numeric(b)) or (isinstance(b, Decimal) and is_numeric(a)):
        if {a, b} & {FLOAT, DOUBLE}:
            return DOUBLE
        return wider_decimal(as_decimal(a), as_decimal(b))
    return _parts(a, b, meeting)


def assignable(given: DataType, wanted: DataType) -> bool:
    """True if a value may be stored as another type, as the SQL standard sees it."""
    if given in (wanted, VOID) or UNKNOWN in (given, wanted):
        return True
    if is_numeric(given) and is_numeric(wanted):
        return True
    if wanted == STRING:
        return is_atomic(given)
    if (given in TIMES and wanted in TIMES) or (is_day_interval(given) and is_day_interval(wanted)):
        return True
    if isinstance(given, Array) and isinstance(wanted, Array):
        return assignable(given.item, wanted.item)
    if isinstance(given, Map) and isinstance(wanted, Map):
        return assignable(given.key, wanted.key) and assignable(given.value, wanted.value)
    if isinstance(given, Struct) and isinstance(wanted, Struct) and len(given.fields) == len(wanted.fields):
        pairs = zip(given.fields, wanted.fields, strict=True)
        return all(f.name == g.name and assignable(f.type, g.type) for f, g in pairs)
    return False


def implicit(given: DataType, wanted: DataType) -> DataType | None:
    """The type a value is taken as where one of a certain type is wanted; None if it does not fit."""
    if given in (UNKNOWN, wanted) or wanted == UNKNOWN:
        return given if wanted == UNKNOWN else wanted
    if given == VOID or (given == STRING and is_atomic(wanted)):
        return wanted
    return wanted if assignable(given, wanted) else None


def castable(given: DataType, wanted: DataType) -> bool:
    """True if `CAST(given AS wanted)` is allowed in ANSI mode."""
    if given in (wanted, VOID, VARIANT) or UNKNOWN in (given, wanted):
        return True
    if given == STRING:
        return is_atomic(wanted)
    if wanted == STRING:
        return True
    if given == BOOLEAN:
        return is_numeric(wanted)
    if is_numeric(given):
        if wanted == TIMESTAMP:
            return True
        return is_numeric(wanted) or wanted == BOOLEAN or (wanted in INTERVALS and given not in (FLOAT, DOUBLE))
    if given in TIMES:
        return wanted in TIMES or (given == TIMESTAMP and is_numeric(wanted))
    if given in INTERVALS:
        same = is_interval(wanted) and is_day_interval(given) == is_day_interval(wanted)
        return same or is_integer(wanted) or isinstance(wanted, Decimal)
    if isinstance(given, Array) and isinstance(wanted, Array):
        return castable(given.item, wanted.item)
    if isinstance(given, Map) and isinstance(wanted, Map):
        return castable(given.key, wanted.key) and castable(given.value, wanted.value)
    if isinstance(given, Struct) and isinstance(wanted, Struct) and len(given.fields) == len(wanted.fields):
        pairs = zip(given.fields, wanted.fields, strict=True)
        return all(castable(f.type, g.type) for f, g in pairs)
    return wanted == VARIANT and is_atomic(given)
