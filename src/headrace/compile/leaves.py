"""Which sources a streaming frame reads, in the order in which Spark writes their offsets.

A line of `offsets/N` says how far a source is, but not which. Spark walks the analysed plan from the root, left to
right, and gives each streaming leaf it meets a line, one that it meets twice two; each different leaf has a folder
`sources/<i>`. So that leaves can be told apart, each source's frame carries an alias, which costs nothing: the
optimizer drops it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TAG = "headrace source "


@dataclass(frozen=True)
class Leaf:
    """A line of the offset log: which source it is of, and the number of the source's folder."""

    source: str
    folder: int


def tagged(frame: DataFrame, source: str) -> DataFrame:
    """The frame, known as that source's."""
    return frame.alias(f"{_TAG}{source}")


def leaves(frame: DataFrame) -> tuple[Leaf, ...]:
    """The streaming leaves of a frame made of tagged ones."""
    different: list[Any] = []
    found = []
    for source, node in _walk(frame._jdf.queryExecution().analyzed(), ""):
        number = next((i for i, other in enumerate(different) if other.equals(node)), len(different))
        if number == len(different):
            different.append(node)
        found.append(Leaf(source, number))
    return tuple(found)


def _walk(node: Any, source: str) -> Iterator[tuple[str, Any]]:
    if not node.isStreaming():
        return
    if node.nodeName() == "SubqueryAlias" and str(node.alias()).startswith(_TAG):
        source = str(node.alias()).removeprefix(_TAG)
    children = node.children()
    if children.size() == 0:
        yield source, node
    for index in range(children.size()):
        yield from _walk(children.apply(index), source)
