"""Which JSON records a native parser may be trusted with: a grammar, as one regular expression.

JSON leaves much open (two fields of one name, numbers in quotes, numbers too large, odd escapes), and each parser has
its own answer. A record that matches is one about which all parsers must agree: one object, each wanted field at most
once and with a value that plainly is of its column's type, nothing unusual elsewhere. Any other record is left to
Spark, whose answer is the one that counts. The expression is of the kind that is matched in one pass, without going
back (no look-around, no back-reference).

This runs in Spark's Python workers, so nothing of ours is imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

LONGEST = 40_000
"""Bytes; Spark's parser has limits of its own for what is longer, such as the name of a field."""
_DEPTHS = (2, 1, 0)
"""How deep objects and lists that nobody asked for may be nested; the more columns, the less."""
_LARGEST = 60_000
"""Characters; a longer expression is matched 200 times slower, since its states no longer fit the engine's cache."""
_SPACE = r"[ \t\r\n]*"
_PLAIN = r'[^"\\\x00-\x1f]'
# Halves of a surrogate pair are left out: one without the other is no text, and parsers differ on it.
_ESCAPE = r'\\(?:["\\/bfnrt]|u(?:[0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))'
_TEXT = f'"(?:{_PLAIN}|{_ESCAPE})*"'
_NAME = f'"{_PLAIN}*"'
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,2})?"
_SCALAR = rf"(?:{_TEXT}|{_NUMBER}|true|false|null)"
_YEAR = "(?:19|20|21)[0-9]{2}"
# Not the 29th of February: whether there is one depends on the year.
_DAY = (
    f"{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_ZONE = "(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])?"
_MOMENT = rf"{_DAY}[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,6}})?{_ZONE}"


def _whole(digits: int) -> str:
    return rf"-?(?:0|[1-9][0-9]{{0,{digits - 1}}})"


VALUES: Mapping[str, str] = {
    "string": _TEXT,
    "boolean": "true|false",
    "tinyint": _whole(2),
    "smallint": _whole(4),
    "int": _whole(9),
    "bigint": _whole(18),
    "double": _NUMBER,
    "timestamp": f'"{_MOMENT}"',
    "date": f'"{_DAY}"',
}
"""By type, what in a record is read natively; `null` always is."""


def nested(depth: int) -> str:
    """Any value, with lists and objects no deeper than that."""
    if not depth:
        return _SCALAR
    inner = nested(depth - 1)
    pair = f"{_NAME}{_SPACE}:{_SPACE}{inner}{_SPACE}"
    lists = rf"\[{_SPACE}(?:{inner}{_SPACE}(?:,{_SPACE}{inner}{_SPACE})*)?\]"
    objects = rf"\{{{_SPACE}(?:{pair}(?:,{_SPACE}{pair})*)?\}}"
    return f"(?:{_SCALAR}|{lists}|{objects})"


def other_than(names: Iterable[str]) -> str:
    r"""The inside of any plain name but these.

    >>> rule = re.compile(other_than(["ab", "a"]))
    >>> [name for name in ("", "a", "ab", "abc", "b", "ac") if rule.fullmatch(name)]
    ['', 'abc', 'b', 'ac']
    """
    begins: dict[str, list[str]] = {}
    for name in names:
        if name:
            begins.setdefault(name[0], []).append(name[1:])
    listed = "".join(re.escape(c) for c in sorted(begins))
    others = f'[^"\\\\\\x00-\\x1f{listed}]{_PLAIN}*'
    longer = [f"{re.escape(c)}{other_than(rest)}" for c, rest in sorted(begins.items())]
    ends_here = "" if "" in names else "|"
    return f"(?:{'|'.join([others, *longer])}{ends_here})"


def shape(columns: Sequence[tuple[str, str]]) -> str | None:
    """The expression for records with these columns, by name and type, in this order; None: they are too many.

    Any of them may be missing from a record.
    """
    made = (_shape(columns, depth) for depth in _DEPTHS)
    return next((text for text in made if len(text) <= _LARGEST), None)


def _shape(columns: Sequence[tuple[str, str]], depth: int) -> str:
    key = other_than([name for name, _ in columns])
    other = rf'(?:[{{,]{_SPACE}"{key}"{_SPACE}:{_SPACE}{nested(depth)}{_SPACE})*'
    # A comma or a brace before each field: what is wrong with that, the parser says.
    wanted = [
        rf'(?:[{{,]{_SPACE}"{re.escape(name)}"{_SPACE}:{_SPACE}(?:{VALUES[kind]}|null){_SPACE})?'
        for name, kind in columns
    ]
    return rf"^{_SPACE}{other}{other.join(wanted)}{other}\}}{_SPACE}$"


def plain_name(name: str) -> bool:
    """Whether a column's name is one that can be found without reading escapes."""
    return re.fullmatch(_PLAIN + "+", name) is not None
