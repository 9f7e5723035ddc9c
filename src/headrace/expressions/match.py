"""Types given against types wanted: how one line of `functions.py` is read."""

from __future__ import annotations

import re
from functools import cache

from headrace.expressions.coerce import (
    as_decimal,
    common,
    implicit,
    is_day_interval,
    is_interval,
    is_ordered,
    meeting,
)
from headrace.expressions.functions import split_types
from headrace.model.types import (
    DAY_INTERVAL,
    DOUBLE,
    INT,
    STRING,
    UNKNOWN,
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
    parse_type,
)

_WORDS = {
    "any": "anything",
    "ordered": "what can be ordered",
    "integral": "a whole number",
    "numeric": "a number",
    "sortable": "an array that can be ordered",
    "struct": "a struct",
}


@cache
def _concrete(text: str) -> DataType:
    if text.startswith("interval"):
        return YEAR_INTERVAL if "year" in text else DAY_INTERVAL
    return parse_type(text)


class Binding:
    """What the letters of a signature stand for, found out argument by argument."""

    def __init__(self) -> None:
        self.bound: dict[str, DataType] = {}

    def take(self, wanted: str, given: DataType) -> DataType | None:
        """The type an argument is taken as; None if it does not fit."""
        if wanted.startswith("@"):
            return given
        choices = split_types(wanted, "|")
        if len(choices) > 1:
            exact = next((c for c in choices if self._exact(c, given)), None)
            if exact is not None:
                return self.take(exact, given)
            for choice in choices:
                found = self.take(choice, given)
                if found is not None:
                    return found
            return None
        if given == UNKNOWN and not wanted[0].isupper():
            return UNKNOWN
        if wanted.startswith("!"):
            inner = wanted[1:]
            return given if given == VOID or self._exact(inner, given) else None
        return self._kind(wanted, given)

    def _exact(self, wanted: str, given: DataType) -> bool:
        """True if a type is what is wanted, before anything is converted."""
        match wanted.lstrip("!"):
            case "numeric":
                return is_numeric(given)
            case "integral":
                return is_integer(given)
            case "decimal":
                return isinstance(given, Decimal)
            case "interval":
                return is_interval(given)
            case "dayinterval":
                return is_day_interval(given)
            case "array":
                return isinstance(given, Array)
            case "sortable":
                return isinstance(given, Array) and is_ordered(given)
            case "map":
                return isinstance(given, Map)
            case "struct":
                return isinstance(given, Struct)
            case "any":
                return True
            case "ordered":
                return is_ordered(given)
        if "<" in wanted or wanted[0].isupper():
            return False
        return _concrete(wanted.lstrip("!")) == given

    def _kind(self, wanted: str, given: DataType) -> DataType | None:
        if self._exact(wanted, given):
            return given
        match wanted:
            case "numeric":
                return DOUBLE if given in (STRING, VOID) else None
            case "integral":
                return INT if given == VOID else None
            case "decimal":
                if is_numeric(given):
                    return as_decimal(given)
                return Decimal(38, 18) if given in (STRING, VOID) else None
            case "interval" | "dayinterval":
                return DAY_INTERVAL if given == VOID else None
            case "array" | "sortable" | "map" | "struct" | "ordered":
                if given != VOID:
                    return None
                return Array(VOID) if wanted in ("array", "sortable") else Map(VOID, VOID) if wanted == "map" else VOID
        if len(wanted) == 1:
            join = meeting if wanted in "EK" else common
            both = join(self.bound[wanted], given) if wanted in self.bound else given
            if both is not None:
                self.bound[wanted] = both
            return both
        if "<" in wanted and re.search(r"\b[A-Z]\b", wanted):
            return self._parts(wanted, given)
        return implicit(given, _concrete(wanted))

    def _parts(self, wanted: str, given: DataType) -> DataType | None:
        inner = split_types(wanted[wanted.index("<") + 1 : -1])
        if given == VOID:
            taken = [self.take(i, VOID) for i in inner]
            return given if None not in taken else None
        if wanted.startswith("array<") and isinstance(given, Array):
            item = self.take(inner[0], given.item)
            return Array(item) if item is not None else None
        if wanted.startswith("map<") and isinstance(given, Map):
            key, value = self.take(inner[0], given.key), self.take(inner[1], given.value)
            return Map(key, value) if key is not None and value is not None else None
        return None

    def parameters(self, text: str) -> list[DataType]:
        """The types of a lambda's parameters: `(T,int)`."""
        return [self.result(p) for p in split_types(text.strip()[1:-1])]

    def result(self, text: str) -> DataType:
        """A type in which letters stand for what they are bound to."""
        if len(text) == 1:
            return self.bound.get(text, VOID)
        if re.search(r"\b[A-Z]\b", text):
            inner = split_types(text[text.index("<") + 1 : -1])
            if text.startswith("array<"):
                return Array(self.result(inner[0]))
            if text.startswith("map<"):
                return Map(self.result(inner[0]), self.result(inner[1]))
            fields = (part.partition(":") for part in inner)
            return Struct(tuple(Field(name, self.result(kind)) for name, _, kind in fields))
        return _concrete(text)

    def named(self, wanted: str) -> str:
        """What is wanted, in words."""
        parts = [_WORDS.get(p.lstrip("!"), p.lstrip("!")) for p in split_types(wanted, "|")]
        shown = [str(self.bound.get(p, p)) if len(p) == 1 else p for p in parts]
        return " or ".join(shown)
