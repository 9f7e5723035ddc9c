"""The types of values, as Spark SQL spells them, without Spark.

>>> parse_type("array<struct<name: string, n: int>>")
Array(item=Struct(fields=(Field(name='name', type=Atom(name='string')), Field(name='n', type=Atom(name='int')))))
>>> str(parse_type("Decimal(10,2)"))
'decimal(10,2)'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches


class DataType:
    """Base of all types; `str(type)` is its Spark DDL."""

    __slots__ = ()


@dataclass(frozen=True)
class Atom(DataType):
    """A type without parts, known by its name alone."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Decimal(DataType):
    """An exact number of at most 38 digits, `scale` of them after the point."""

    precision: int = 10
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True)
class Array(DataType):
    """A list of values of one type."""

    item: DataType

    def __str__(self) -> str:
        return f"array<{self.item}>"


@dataclass(frozen=True)
class Map(DataType):
    """Keys of one type to values of another."""

    key: DataType
    value: DataType

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True)
class Field:
    """A named part of a struct or a schema."""

    name: str
    type: DataType

    def __str__(self) -> str:
        return f"{quote(self.name)}:{self.type}"


@dataclass(frozen=True)
class Struct(DataType):
    """Named fields in order."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(str(f) for f in self.fields)}>"

    def get(self, name: str) -> DataType | None:
        """The type of a field by its name (any case, as Spark resolves it), or None."""
        return next((f.type for f in self.fields if f.name.lower() == name.lower()), None)


BOOLEAN, TINYINT, SMALLINT, INT, BIGINT = map(Atom, ("boolean", "tinyint", "smallint", "int", "bigint"))
FLOAT, DOUBLE, STRING, BINARY = map(Atom, ("float", "double", "string", "binary"))
DATE, TIMESTAMP, TIMESTAMP_NTZ = map(Atom, ("date", "timestamp", "timestamp_ntz"))
DAY_INTERVAL, YEAR_INTERVAL = Atom("interval day to second"), Atom("interval year to month")
VARIANT, VOID = Atom("variant"), Atom("void")
UNKNOWN = Atom("unknown")
"""The type of what could not be typed; it agrees with everything, so one mistake gives one problem."""

INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)
_ATOMS = {
    t.name: t
    for t in (BOOLEAN, *INTEGERS, FLOAT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, VARIANT, VOID)
}
_ALIASES = {
    "byte": TINYINT,
    "short": SMALLINT,
    "integer": INT,
    "long": BIGINT,
    "real": FLOAT,
    "timestamp_ltz": TIMESTAMP,
}
TYPE_NAMES = (*_ATOMS, "decimal(p,s)", "array<t>", "map<k,v>", "struct<name: t, …>")


DEEPEST = 100
"""Types that may be inside each other."""
_LONGEST_NUMBER = 9


def _known(word: str) -> str:
    close = get_close_matches(word, (*_ATOMS, *_ALIASES, "decimal", "array", "map", "struct"), n=1)
    return (f'did you mean "{close[0]}"? ' if close else "") + f"The types are {', '.join(TYPE_NAMES)}."


def is_integer(t: DataType) -> bool:
    """True for the whole-number types."""
    return t in INTEGERS


def is_numeric(t: DataType) -> bool:
    """True for every type one can add up."""
    return t in INTEGERS or t in (FLOAT, DOUBLE) or isinstance(t, Decimal)


def quote(name: str) -> str:
    """A column name as SQL wants it: bare if it can be, else in backticks.

    >>> quote("user"), quote("user id")
    ('user', '`user id`')
    """
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


class TypeSyntaxError(ValueError):
    """A type or schema text that cannot be read; `at` is the offset of the trouble."""

    def __init__(self, message: str, at: int, hint: str = "") -> None:
        super().__init__(message)
        self.at, self.hint = at, hint


_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([A-Za-z_][A-Za-z0-9_]*)|(\d+)|([<>(),:]))")


class _Reader:
    """A recursive-descent reader of DDL; small enough to be read at one sitting."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens = text, list(self._tokens(text))
        self.next = self.depth = 0

    @staticmethod
    def _tokens(text: str) -> Iterator[tuple[str, int]]:
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise TypeSyntaxError(f"unexpected {text[at:].strip()[:1]!r}", at)
            yield match.group().strip(), match.end() - len(match.group().strip())
            at = match.end()

    def peek(self) -> str:
        return self.tokens[self.next][0] if self.next < len(self.tokens) else ""

    def at(self) -> int:
        return self.tokens[self.next][1] if self.next < len(self.tokens) else len(self.text)

    def take(self, *wanted: str) -> str:
        token = self.peek()
        if wanted and token not in wanted:
            raise TypeSyntaxError(f"expected {' or '.join(map(repr, wanted))}, found {token or 'the end'!r}", self.at())
        self.next += 1
        return token

    def name(self) -> str:
        token = self.peek()
        if not token or not (token[0] == "`" or token[0].isalpha() or token[0] == "_"):
            raise TypeSyntaxError(f"expected a name, found {token or 'the end'!r}", self.at())
        self.next += 1
        return token[1:-1].replace("``", "`") if token[0] == "`" else token

    def type(self) -> DataType:
        at = self.at()
        if self.depth >= DEEPEST:
            raise TypeSyntaxError(f"types are nested more than {DEEPEST} deep", at)
        self.depth += 1
        found = self._type(at)
        self.depth -= 1
        return found

    def _type(self, at: int) -> DataType:
        word = self.name().lower()
        if word in ("decimal", "dec", "numeric"):
            return self._decimal()
        if word == "array":
            self.take("<")
            item = self.type()
            self.take(">")
            return Array(item)
        if word == "map":
            self.take("<")
            key = self.type()
            self.take(",")
            value = self.type()
            self.take(">")
            return Map(key, value)
        if word == "struct":
            self.take("<")
            fields = self.fields(">")
            self.take(">")
            return Struct(fields)
        found = _ATOMS.get(word) or _ALIASES.get(word)
        if found is None:
            raise TypeSyntaxError(f"there is no type {word!r}", at, _known(word))
        return found

    def _decimal(self) -> Decimal:
        if self.peek() != "(":
            return Decimal()
        self.take("(")
        at, digits = self.at(), [self._number()]
        if self.take(",", ")") == ",":
            digits.append(self._number())
            self.take(")")
        precision, scale = digits[0], digits[1] if len(digits) == 2 else 0
        if not (1 <= precision <= 38 and scale <= precision):
            raise TypeSyntaxError(f"decimal({precision},{scale}) is out of range: at most 38 digits", at)
        return Decimal(precision, scale)

    def _number(self) -> int:
        token = self.peek()
        if not token.isdigit():
            raise TypeSyntaxError(f"expected a number, found {token or 'the end'!r}", self.at())
        if len(token) > _LONGEST_NUMBER:
            raise TypeSyntaxError(f"a number of {len(token)} digits is out of range", self.at())
        self.next += 1
        return int(token)

    def fields(self, end: str) -> tuple[Field, ...]:
        found: list[Field] = []
        while self.peek() != end:
            at = self.at()
            name = self.name()
            if any(f.name.lower() == name.lower() for f in found):
                raise TypeSyntaxError(f"column {name!r} is named twice", at)
            if self.peek() == ":":
                self.take(":")
            found.append(Field(name, self.type()))
            if self.peek().lower() == "not":
                self.take()
                self.take("null", "NULL", "Null")
            if self.peek() == end:
                break
            self.take(",")
        return tuple(found)


def parse_type(text: str) -> DataType:
    """The type a DDL text names; raises TypeSyntaxError."""
    reader = _Reader(text)
    found = reader.type()
    if reader.peek():
        raise TypeSyntaxError(f"unexpected {reader.peek()!r} after the type", reader.at())
    return found


def parse_fields(text: str) -> tuple[Field, ...]:
    """The fields of a schema text, `name TYPE, name TYPE`; raises TypeSyntaxError."""
    reader = _Reader(text)
    return reader.fields("")
