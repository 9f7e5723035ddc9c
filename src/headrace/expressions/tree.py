"""The one tree an expression is, whatever door it came through.

Few node kinds, so that every lowering (Spark, plain Python, Arrow) is a short match over all of them.
`at` is where the node stood in the author's text; it does not count for equality.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from headrace.model.types import DataType


@dataclass(frozen=True, kw_only=True)
class Node:
    """Base of all nodes."""

    at: int = field(default=0, compare=False, repr=False)

    def children(self) -> Iterator[Node]:
        """The nodes directly below, in the order they were written."""
        for f in fields(self):
            yield from _nodes(getattr(self, f.name))

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for child in self.children():
            yield from child.walk()


def _nodes(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _nodes(item)


@dataclass(frozen=True, kw_only=True)
class Literal(Node):
    """A value written out. The value is a plain Python one: None, bool, int, float, Decimal, str, bytes,
    date, datetime or timedelta (a day-time interval); months are an int of a year-month interval.
    """

    value: Any
    type: DataType


@dataclass(frozen=True, kw_only=True)
class Column(Node):
    """A column of the input, by name."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Field(Node):
    """A field of a struct (or a key of a map, as Spark reads `m.key`)."""

    of: Node
    name: str


@dataclass(frozen=True, kw_only=True)
class Item(Node):
    """An element of an array by position, or of a map by key."""

    of: Node
    key: Node


@dataclass(frozen=True, kw_only=True)
class Call(Node):
    """A function or operator applied: `upper(x)` is Call("upper"), `a + b` is Call("+")."""

    function: str
    args: tuple[Node, ...] = ()
    distinct: bool = False
    where: Node | None = None
    """`FILTER (WHERE …)` of an aggregate."""


@dataclass(frozen=True, kw_only=True)
class Cast(Node):
    """A value as another type; `attempt` gives null where a plain cast would fail."""

    of: Node
    type: DataType
    attempt: bool = False


@dataclass(frozen=True, kw_only=True)
class Case(Node):
    """`CASE WHEN … THEN … ELSE … END`; `CASE x WHEN` is rewritten to it."""

    whens: tuple[tuple[Node, Node], ...]
    otherwise: Node | None = None


@dataclass(frozen=True, kw_only=True)
class Lambda(Node):
    """A small function given to a higher-order one: `x -> x + 1`. Its parameters are Columns in the body."""

    parameters: tuple[str, ...]
    body: Node


@dataclass(frozen=True, kw_only=True)
class Named(Node):
    """A field of `struct(…)` with its name: `a AS x`."""

    name: str
    of: Node


@dataclass(frozen=True, kw_only=True)
class Star(Node):
    """The `*` of `count(*)`."""
