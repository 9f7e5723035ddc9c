"""Values written out: how Spark SQL reads and writes numbers, strings, bytes, times and intervals.

Times without a zone are UTC, as every session of ours is set to it.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal as Number
from typing import Any

from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY_INTERVAL,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    VOID,
    YEAR_INTERVAL,
    Atom,
    DataType,
    Decimal,
)

INTERVAL_DAY = Atom("interval day")
"""The type of whole days written out: added to a date, they leave a date. Everywhere else it is DAY_INTERVAL."""
LIMITS = {TINYINT: 2**7, SMALLINT: 2**15, INT: 2**31, BIGINT: 2**63}
_SUFFIXES: dict[str, DataType] = {"L": BIGINT, "S": SMALLINT, "Y": TINYINT, "D": DOUBLE, "F": FLOAT}


_LONGEST = 1000
"""Characters of a number; Python refuses to read much longer ones."""


def read_number(text: str) -> tuple[Any, DataType]:
    """The value and type of a number as Spark reads it; raises ValueError.

    >>> read_number("12"), read_number("1.50")[1], read_number("1e3")
    ((12, Atom(name='int')), Decimal(precision=3, scale=2), (1000.0, Atom(name='double')))
    """
    match = re.fullmatch(r"(-?)([\d.]+)([eE][+-]?\d+)?(BD|[LSYDF])?", text, re.IGNORECASE)
    if match is None or match[2] in (".", "-"):
        raise ValueError(f"{text} is not a number")
    if len(match[2]) > _LONGEST:
        raise ValueError(f"a number of {len(match[2])} digits is too long")
    digits, suffix = f"{match[1]}{match[2]}{match[3] or ''}", (match[4] or "").upper()
    if suffix in ("L", "S", "Y"):
        whole = _SUFFIXES[suffix]
        if not re.fullmatch(r"-?\d+", digits) or not fits(int(digits), whole):
            raise ValueError(f"{text} is not a {whole}")
        return int(digits), whole
    if suffix in ("D", "F") or (match[3] and not suffix):
        value = float(digits)
        if math.isinf(value) or (suffix == "F" and abs(value) > 3.4028235677973366e38):
            raise ValueError(f"{text} is too large")
        return value, _SUFFIXES.get(suffix, DOUBLE)
    if re.fullmatch(r"-?\d+", digits) and not suffix:
        kind = next((t for t in (INT, BIGINT) if fits(int(digits), t)), None)
        if kind is not None:
            return int(digits), kind
    exact = Number(digits)
    if exact.is_finite() and exact.as_tuple().exponent > 0:  # type: ignore[operator]
        exact = exact.quantize(Number(1)) if exact.adjusted() < 38 else exact
    kind_of = decimal_type(exact)
    if kind_of is None:
        raise ValueError(f"{text} has more than 38 digits")
    return exact, kind_of


def fits(value: int, kind: DataType) -> bool:
    """True if a whole number is in the range of a whole-number type."""
    return kind in LIMITS and -LIMITS[kind] <= value < LIMITS[kind]


def decimal_type(value: Number) -> Decimal | None:
    """The narrowest decimal a number fits in, or None if it has too many digits."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    return Decimal(precision, scale) if precision <= 38 else None


_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.DOTALL)


def read_string(text: str) -> str:
    """The characters between the quotes of a string, escapes resolved as Spark does; raises ValueError."""

    def one(match: re.Match[str]) -> str:
        if match[1] or match[2]:
            return chr(int(match[1] or match[2], 16))
        return chr(int(match[3], 8)) if match[3] else _ESCAPES.get(match[4], match[4])

    value = _ESCAPE.sub(one, text[1:-1])
    if "\\u" in text or "\\U" in text:  # a pair of \u escapes is one character
        value = value.encode("utf-16", "surrogatepass").decode("utf-16", "strict")
    return value


def show_string(value: str) -> str:
    """A string as Spark reads it back.

    >>> show_string("it's")
    "'it\\\\'s'"
    """
    table = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
    return "'" + "".join(table.get(c, c) for c in value) + "'"


def read_time(kind: str, text: str) -> tuple[Any, DataType]:
    """The value of `DATE '…'`, `TIMESTAMP '…'` and their kind; raises ValueError."""
    if kind == "date":
        return read_date(text), DATE
    moment = read_timestamp(text)
    if kind == "timestamp_ntz":
        return moment.replace(tzinfo=None), TIMESTAMP_NTZ
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC), TIMESTAMP


def read_date(text: str) -> date:
    """A date as Spark reads it: `2024-01-31`, `2024-1`, `2024`, or a timestamp's first part."""
    match = re.fullmatch(r"(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", text.strip())
    if match is None or int(match[1]) > 9999:
        raise ValueError(f"{text!r} is not a date")
    return date(int(match[1]), int(match[2] or 1), int(match[3] or 1))


_CLOCK = r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?"
_ZONE = r"(Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)?"


def read_timestamp(text: str) -> datetime:
    """A timestamp as Spark reads it; with a zone it is aware, without it is not. Raises ValueError."""
    match = re.fullmatch(rf"(\d{{4}}(?:-\d{{1,2}}(?:-\d{{1,2}})?)?)(?:[ T]{_CLOCK}\s*{_ZONE})?", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a timestamp")
    day = read_date(match[1])
    micro = int((match[5] or "0").ljust(6, "0")[:6])
    hour, minute, second = (int(match[i] or 0) for i in (2, 3, 4))
    moment = datetime.combine(day, time(hour, minute, second, micro))
    return moment.replace(tzinfo=_zone(match[6])) if match[6] else moment


def _zone(text: str) -> timezone:
    if text[0] not in "+-":
        return UTC
    digits = re.fullmatch(r"[+-](\d{1,2}):?(\d{2})?", text)
    assert digits is not None
    offset = timedelta(hours=int(digits[1]), minutes=int(digits[2] or 0))
    return timezone(-offset if text[0] == "-" else offset)


UNITS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
MONTHS = {"month": 1, "year": 12}


def unit_name(word: str) -> str | None:
    """The singular of a unit of time, or None."""
    lower = word.lower()
    return next((u for u in (*UNITS, *MONTHS) if lower in (u, u + "s")), None)


def interval(parts: list[tuple[str, str]]) -> tuple[Any, DataType]:
    """The interval of amounts and units: `[("1", "hour"), ("30", "minutes")]`; raises ValueError."""
    months, span, kinds = 0, timedelta(), set()
    for amount, word in parts:
        unit = unit_name(word)
        if unit is None:
            raise ValueError(f"{word!r} is not a unit of time")
        if unit in MONTHS:
            if not re.fullmatch(r"[+-]?\d+", amount):
                raise ValueError(f"{amount!r} {word} is not a whole number of months")
            months += int(amount) * MONTHS[unit]
        else:
            pattern = r"[+-]?\d+(\.\d*)?" if unit == "second" else r"[+-]?\d+"
            if not re.fullmatch(pattern, amount):
                raise ValueError(f"{amount!r} is not a number of {word}")
            span += timedelta(microseconds=int(Number(amount) * (UNITS[unit] // UNITS["microsecond"])))
        kinds.add(unit in MONTHS)
    if kinds == {True, False}:
        raise ValueError("an interval is of months or of days and less, not of both")
    if kinds == {True}:
        return months, YEAR_INTERVAL
    whole = all(unit_name(word) in ("day", "week") for _, word in parts)
    return span, INTERVAL_DAY if whole else DAY_INTERVAL


_CLOCKS = {
    ("day", "hour"): r"(\d+) (\d{1,2})",
    ("day", "minute"): r"(\d+) (\d{1,2}):(\d{1,2})",
    ("day", "second"): r"(\d+) (\d{1,2}):(\d{1,2}):(\d{1,2}(?:\.\d{1,9})?)",
    ("hour", "minute"): r"(\d+):(\d{1,2})",
    ("hour", "second"): r"(\d+):(\d{1,2}):(\d{1,2}(?:\.\d{1,9})?)",
    ("minute", "second"): r"(\d+):(\d{1,2}(?:\.\d{1,9})?)",
    ("year", "month"): r"(\d+)-(\d{1,2})",
}
_ORDER = ("day", "hour", "minute", "second")


def interval_range(text: str, first: str, last: str) -> tuple[Any, DataType]:
    """The interval of `'1 02:03:04' DAY TO SECOND`; raises ValueError."""
    match = re.fullmatch(r"\s*([+-]?)" + _CLOCKS.get((first, last), r"(?!)") + r"\s*", text)
    if match is None:
        raise ValueError(f"{text!r} is not an interval {first} to {last}")
    units = ("year", "month") if first == "year" else _ORDER[_ORDER.index(first) : _ORDER.index(last) + 1]
    value, kind = interval(list(zip(match.groups()[1:], units, strict=True)))
    return (-value if match[1] == "-" else value), kind


def show_literal(value: Any, kind: DataType) -> str:
    """A value as Spark SQL text that is read back as the same value of the same type."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return show_string(value)
        case bytes() | bytearray():
            return f"X'{bytes(value).hex().upper()}'"
        case Number():
            text = format(value, "f")
            natural = "." in text or (read_number(text)[1] == kind)
            return text if natural else f"{text}BD"
        case float():
            text = repr(value).replace("e+", "E").replace("e", "E")
            return text + ("F" if kind == FLOAT else "D")
        case datetime():
            if kind == TIMESTAMP_NTZ:
                return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return f"TIMESTAMP '{aware.astimezone(UTC).replace(tzinfo=None).isoformat(sep=' ')}Z'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case timedelta():
            return f"INTERVAL '{value.days}' DAY" if kind == INTERVAL_DAY else _show_span(value)
        case int() if kind == YEAR_INTERVAL:
            years, months = divmod(abs(value), 12)
            return f"INTERVAL '{'-' if value < 0 else ''}{years}-{months}' YEAR TO MONTH"
        case int():
            suffix = {SMALLINT: "S", TINYINT: "Y"}.get(kind, "")  # type: ignore[call-overload]
            return f"{value}{'L' if kind == BIGINT and fits(value, INT) else suffix}"
    raise ValueError(f"{value!r} cannot be written as a value")


def _show_span(value: timedelta) -> str:
    total = abs(value) // timedelta(microseconds=1)
    seconds, micro = divmod(total, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    sign, fraction = "-" if value < timedelta() else "", f".{micro:06d}" if micro else ""
    return f"INTERVAL '{sign}{days} {hours:02d}:{minutes:02d}:{seconds:02d}{fraction}' DAY TO SECOND"


def type_of_value(value: Any) -> DataType | None:
    """The type a Python value has as a literal, or None if it cannot be one."""
    match value:
        case None:
            return VOID
        case bool():
            return BOOLEAN
        case int():
            return next((t for t in (INT, BIGINT) if fits(value, t)), None) or decimal_type(Number(value))
        case float():
            return DOUBLE if math.isfinite(value) else None
        case Number():
            return decimal_type(value)
        case str():
            return STRING
        case bytes():
            return BINARY
        case datetime():
            return TIMESTAMP if value.tzinfo else TIMESTAMP_NTZ
        case date():
            return DATE
        case timedelta():
            return DAY_INTERVAL
    return None
