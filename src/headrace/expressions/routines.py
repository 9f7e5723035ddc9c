"""The functions of the oracle in plain Python, each equal to Spark's on what it accepts.

A routine is given the values, their types, the type wanted and the nodes; null in any argument gives null,
unless the function is about nulls.
"""

from __future__ import annotations

import hashlib
import math
import re
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP
from decimal import Decimal as Number
from typing import Any

from headrace.expressions.casts import (
    EvaluationError,
    NotEvaluable,
    OutOfRangeError,
    as_decimal_of,
    convert,
    from_micros,
    micros,
)
from headrace.expressions.coerce import common
from headrace.expressions.literals import fits
from headrace.expressions.tree import Named, Node
from headrace.model.types import (
    BIGINT,
    BINARY,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    VOID,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    is_integer,
)

Routine = Callable[[Sequence[Any], Sequence[DataType], DataType, Sequence[Node]], Any]


def compare(a: Any, b: Any) -> int:
    """-1, 0 or 1, in Spark's order: NaN above all numbers, text by its bytes, null first inside arrays."""
    if a is None or b is None:
        return (a is not None) - (b is not None)
    if isinstance(a, list | tuple):
        for x, y in zip(a, b, strict=False):
            order = compare(x, y)
            if order:
                return order
        return (len(a) > len(b)) - (len(a) < len(b))
    if isinstance(a, dict):
        return compare(list(a.values()), list(b.values()))
    if isinstance(a, float) and isinstance(b, float) and (math.isnan(a) or math.isnan(b)):
        return math.isnan(a) - math.isnan(b)
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    return int(a > b) - int(a < b)


def _plain(*texts: str) -> None:
    """Lets only ASCII pass: case and regular expressions differ between Java and Python beyond it."""
    if not all(t.isascii() for t in texts):
        raise NotEvaluable("case and patterns of letters beyond ASCII")


def texts(function: Callable[..., Any], *wanted: DataType) -> Routine:
    """A routine over arguments taken as certain types, text by default; null if any is null."""

    def routine(values: Sequence[Any], kinds: Sequence[DataType], result: DataType, nodes: Sequence[Node]) -> Any:
        if None in values:
            return None
        if BINARY in kinds and (not wanted or wanted[0] != BINARY):
            raise NotEvaluable("bytes as text")
        types = (*wanted, *([STRING] * len(values)))
        return function(*(convert(v, k, w) for v, k, w in zip(values, kinds, types, strict=False)))

    return routine


def _upper(s: str) -> str:
    _plain(s)
    return s.upper()


def _lower(s: str) -> str:
    _plain(s)
    return s.lower()


def _substring(s: str, start: int, length: int = 2**31 - 1) -> str:
    begin = start - 1 if start > 0 else len(s) + start if start < 0 else 0
    end = begin + length
    return s[max(begin, 0) : max(end, 0)] if length > 0 else ""


def _pad(s: str, size: int, fill: str, left: bool) -> str:
    if size <= len(s) or not fill:
        return s[: max(size, 0)]
    padding = (fill * size)[: size - len(s)]
    return padding + s if left else s + padding


def _like(s: str, pattern: str, escape: str = "\\", flags: int = 0) -> bool:
    out, i = "", 0
    while i < len(pattern):
        c = pattern[i]
        if c == escape:
            if i + 1 >= len(pattern) or pattern[i + 1] not in ("_", "%", escape):
                raise EvaluationError(f"the pattern {pattern!r} has a stray escape")
            i += 1
            out += re.escape(pattern[i])
        else:
            out += "." if c == "_" else ".*" if c == "%" else re.escape(c)
        i += 1
    return re.fullmatch(out, s, re.DOTALL | flags) is not None


def _ilike(s: str, pattern: str, escape: str = "\\") -> bool:
    _plain(s, pattern)
    return _like(s, pattern, escape, re.IGNORECASE)


def _rlike(s: str, pattern: str) -> bool:
    _plain(s, pattern)
    if not re.fullmatch(r"[A-Za-z0-9 _.*+?|^()\[\],:@/-]*", pattern) or "\n" in s or "\r" in s:
        raise NotEvaluable("a pattern that Java and Python may read differently")
    try:
        return re.search(pattern, s) is not None
    except re.error:
        raise NotEvaluable("a pattern Python cannot read") from None


def _split(s: str, pattern: str) -> list[str]:
    if len(pattern) != 1 or pattern in "\\^$.|?*+()[]{}":
        raise NotEvaluable("split by a pattern")
    return s.split(pattern)


def _substring_index(s: str, mark: str, count: int) -> str:
    if not mark or count == 0:
        return ""
    parts = s.split(mark)
    return mark.join(parts[:count] if count > 0 else parts[count:])


def _concat(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
    if None in values:
        return None
    taken = [convert(v, k, wanted) for v, k in zip(values, kinds, strict=True)]
    if isinstance(wanted, Array):
        return [item for part in taken for item in part]
    return b"".join(taken) if wanted == BINARY else "".join(taken)


def _concat_ws(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
    if values[0] is None:
        return None
    parts: list[str] = []
    for value, kind in zip(values[1:], kinds[1:], strict=True):
        if isinstance(kind, Array):
            parts += [convert(v, kind.item, STRING) for v in value or () if v is not None]
        elif value is not None:
            parts.append(convert(value, kind, STRING))
    return str(values[0]).join(parts)


def _extreme(sign: int) -> Routine:
    def routine(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
        best = None
        for value, kind in zip(values, kinds, strict=True):
            taken = convert(value, kind, wanted)
            if taken is not None and (best is None or sign * compare(taken, best) > 0):
                best = taken
        return best

    return routine


def _abs(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
    value = convert(values[0], kinds[0], wanted)
    if value is None:
        return None
    if is_integer(wanted) and not fits(abs(value), wanted):
        raise OutOfRangeError(f"{value} has no absolute value in {wanted}")
    return abs(value)


def _step(rounding: str) -> Routine:
    def routine(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
        if len(values) > 1:
            raise NotEvaluable("ceil and floor to some digits")
        value = values[0]
        if value is None or isinstance(value, int):
            return value
        if isinstance(value, Number):
            return (
                as_decimal_of(value.to_integral_value(rounding=rounding), wanted)
                if isinstance(wanted, Decimal)
                else None
            )
        if not isinstance(value, float) or not math.isfinite(value):
            raise NotEvaluable("ceil and floor of what is no number")
        whole = math.ceil(value) if rounding == ROUND_CEILING else math.floor(value)
        if not fits(whole, BIGINT):
            raise NotEvaluable("a double beyond bigint")
        return whole

    return routine


def _round(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
    if None in values:
        return None
    value, digits = values[0], values[1] if len(values) > 1 else 0
    if isinstance(value, Number) and isinstance(wanted, Decimal):
        scale = min(digits, kinds[0].scale if isinstance(kinds[0], Decimal) else 0)
        rounded = value.quantize(Number(1).scaleb(-scale), rounding=ROUND_HALF_UP)
        return as_decimal_of(rounded, wanted)
    if isinstance(value, int) and not isinstance(value, bool):
        if digits >= 0:
            return value
        rounded_int = int(Number(value).quantize(Number(1).scaleb(-digits), rounding=ROUND_HALF_UP))
        if not fits(rounded_int, wanted):
            raise EvaluationError(f"{value} rounded is out of the range of {wanted}")
        return rounded_int
    if isinstance(value, float) and wanted == DOUBLE:
        if not math.isfinite(value):
            return value
        if abs(digits) > 15 or abs(value) > 1e15:
            raise NotEvaluable("rounding of a double this large")
        return float(Number(repr(value)).quantize(Number(1).scaleb(-digits), rounding=ROUND_HALF_UP))
    raise NotEvaluable(f"round of {kinds[0]}")


def _size(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
    return None if values[0] is None else len(values[0])


def _element_at(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
    of, key = values
    if of is None or key is None:
        return None
    kind = kinds[0]
    if isinstance(kind, Map):
        return of.get(convert(key, kinds[1], kind.key))
    if key == 0 or abs(key) > len(of):
        raise EvaluationError(f"the array has no item {key}")
    return of[key - 1 if key > 0 else key]


def _get(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
    if None in values:
        return None
    return values[0][values[1]] if 0 <= values[1] < len(values[0]) else None


def _array(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
    item = wanted.item if isinstance(wanted, Array) else VOID
    return [convert(v, k, item) for v, k in zip(values, kinds, strict=True)]


def _contains(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
    items, sought = values
    if items is None or sought is None or not isinstance(kinds[0], Array):
        return None
    met = common(kinds[0].item, kinds[1])
    if met is None:
        raise NotEvaluable("array_contains of another type")
    target = convert(sought, kinds[1], met)
    found = any(v is not None and compare(convert(v, kinds[0].item, met), target) == 0 for v in items)
    return True if found else None if any(v is None for v in items) else False


def _struct(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
    assert isinstance(wanted, Struct)
    given = (
        values[1::2] if nodes and not isinstance(nodes[0], Named) and len(wanted.fields) * 2 == len(values) else values
    )
    return dict(zip((f.name for f in wanted.fields), given, strict=True))


def _days(value: Any, kind: DataType) -> date:
    found: date = convert(value, kind, DATE)
    return found


def dated(function: Callable[[date], Any]) -> Routine:
    """A routine over one date."""

    def routine(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
        return None if values[0] is None else function(_days(values[0], kinds[0]))

    return routine


def timed(function: Callable[[datetime], Any]) -> Routine:
    """A routine over one timestamp, in UTC."""

    def routine(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
        return None if values[0] is None else function(convert(values[0], kinds[0], TIMESTAMP).astimezone(UTC))

    return routine


def _shifted(sign: int) -> Routine:
    def routine(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
        if None in values:
            return None
        try:
            return _days(values[0], kinds[0]) + timedelta(days=sign * convert(values[1], kinds[1], INT))
        except OverflowError:
            raise NotEvaluable("a time outside the years 1 to 9999") from None

    return routine


def _datediff(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
    return None if None in values else (_days(values[0], kinds[0]) - _days(values[1], kinds[1])).days


_TRUNCATED = {
    "year": ("month", "day", "hour", "minute", "second", "microsecond"),
    "month": ("day", "hour", "minute", "second", "microsecond"),
    "day": ("hour", "minute", "second", "microsecond"),
    "hour": ("minute", "second", "microsecond"),
    "minute": ("second", "microsecond"),
    "second": ("microsecond",),
}


def _date_trunc(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
    if None in values:
        return None
    if str(values[0]).lower() not in _TRUNCATED:
        raise NotEvaluable(f"date_trunc by {values[0]}")
    moment = convert(values[1], kinds[1], TIMESTAMP).astimezone(UTC)
    smallest = {"month": 1, "day": 1}
    return moment.replace(**{unit: smallest.get(unit, 0) for unit in _TRUNCATED[str(values[0]).lower()]})


def _of_micros(factor: int) -> Routine:
    def routine(values: Sequence[Any], kinds: Sequence[DataType], wanted: DataType, nodes: Sequence[Node]) -> Any:
        if values[0] is None:
            return None
        if not isinstance(values[0], int):
            raise NotEvaluable("seconds that are not whole")
        return from_micros(values[0] * factor)

    return routine


def _digest(name: str) -> Callable[[bytes], str]:
    return lambda data: hashlib.new(name, data, usedforsecurity=False).hexdigest()


def _sha2(data: bytes, bits: int) -> str | None:
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return None if name is None else _digest(name)(data)


def _sqrt(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


ROUTINES: dict[str, Routine] = {
    "upper": texts(_upper),
    "ucase": texts(_upper),
    "lower": texts(_lower),
    "lcase": texts(_lower),
    **dict.fromkeys(("length", "len", "char_length", "character_length"), texts(len)),
    "octet_length": texts(lambda s: len(s.encode())),
    "trim": texts(lambda s, *of: of[0].strip(s) if of else s.strip(" ")),
    "ltrim": texts(lambda s, *of: of[0].lstrip(s) if of else s.lstrip(" ")),
    "rtrim": texts(lambda s, *of: of[0].rstrip(s) if of else s.rstrip(" ")),
    "btrim": texts(lambda s, *of: s.strip(of[0] if of else " ")),
    "substring": texts(_substring, STRING, INT, INT),
    "substr": texts(_substring, STRING, INT, INT),
    "left": texts(lambda s, n: s[: max(n, 0)], STRING, INT),
    "right": texts(lambda s, n: s[-n:] if n > 0 else "", STRING, INT),
    "replace": texts(lambda s, old, new="": s.replace(old, new) if old else s),
    "repeat": texts(lambda s, n: s * max(n, 0), STRING, INT),
    "reverse": texts(lambda s: s[::-1]),
    "startswith": texts(lambda s, x: s.startswith(x)),
    "endswith": texts(lambda s, x: s.endswith(x)),
    "contains": texts(lambda s, x: x in s),
    "instr": texts(lambda s, x: s.find(x) + 1),
    "lpad": texts(lambda s, n, f=" ": _pad(s, n, f, True), STRING, INT),
    "rpad": texts(lambda s, n, f=" ": _pad(s, n, f, False), STRING, INT),
    "substring_index": texts(_substring_index, STRING, STRING, INT),
    "split": texts(_split),
    "like": texts(_like),
    "ilike": texts(_ilike),
    **dict.fromkeys(("rlike", "regexp", "regexp_like"), texts(_rlike)),
    "md5": texts(_digest("md5"), BINARY),
    "sha1": texts(_digest("sha1"), BINARY),
    "sha": texts(_digest("sha1"), BINARY),
    "sha2": texts(_sha2, BINARY, INT),
    "crc32": texts(zlib.crc32, BINARY),
    "concat": _concat,
    "concat_ws": _concat_ws,
    "greatest": _extreme(1),
    "least": _extreme(-1),
    "abs": _abs,
    "ceil": _step(ROUND_CEILING),
    "ceiling": _step(ROUND_CEILING),
    "floor": _step(ROUND_FLOOR),
    "round": _round,
    "isnan": lambda values, kinds, wanted, nodes: isinstance(values[0], float) and math.isnan(values[0]),
    "sqrt": texts(_sqrt, DOUBLE),
    "size": _size,
    "cardinality": _size,
    "array_size": _size,
    "element_at": _element_at,
    "get": _get,
    "array": _array,
    "array_contains": _contains,
    "struct": _struct,
    "named_struct": _struct,
    "year": dated(lambda d: d.year),
    "month": dated(lambda d: d.month),
    "quarter": dated(lambda d: (d.month + 2) // 3),
    "day": dated(lambda d: d.day),
    "dayofmonth": dated(lambda d: d.day),
    "dayofweek": dated(lambda d: d.isoweekday() % 7 + 1),
    "weekday": dated(lambda d: d.weekday()),
    "dayofyear": dated(lambda d: d.timetuple().tm_yday),
    "weekofyear": dated(lambda d: d.isocalendar()[1]),
    "hour": timed(lambda t: t.hour),
    "minute": timed(lambda t: t.minute),
    "second": timed(lambda t: t.second),
    "unix_date": dated(lambda d: (d - date(1970, 1, 1)).days),
    "unix_micros": timed(micros),
    "unix_millis": timed(lambda t: micros(t) // 1000),
    "unix_seconds": timed(lambda t: micros(t) // 1_000_000),
    "timestamp_micros": _of_micros(1),
    "timestamp_millis": _of_micros(1000),
    "timestamp_seconds": _of_micros(1_000_000),
    "date_add": _shifted(1),
    "dateadd": _shifted(1),
    "date_sub": _shifted(-1),
    "datediff": _datediff,
    "date_diff": _datediff,
    "date_trunc": _date_trunc,
}
