"""Rows counted on every wire of a query, for the ledger.

A wire of a stream is counted by a filter that every row passes, `spark_partition_id() >= -1000001`. Spark counts the
rows that leave a filter anyway, within generated code; and because the condition is not deterministic it neither
moves the filter nor puts it together with another. The number names the wire in the executed plan, from which the
count is read before the batch is committed. An `observe` would break the generated code in two at each wire.

What a filter leaves out is not told by that count, so it is counted apart, by its condition (`Wires.kept`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from headrace.compile.observed import Counted, of_this_batch, this_execution

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FIRST = 1_000_000
_MARK = re.compile(r"SPARK_PARTITION_ID\(\) >= -(\d+)\)", re.IGNORECASE)
_KEEPS_STATE = re.compile(r"StateStoreSave|SymmetricHashJoin|StreamingDeduplicate|TransformWithState")
_FLAG = "_headrace_kept"


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What was counted in a batch."""

    rows: Mapping[str, int] = field(default_factory=dict)
    """By the name of the wire."""
    observed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name: what was counted by conditions along the way."""
    held: int | None = None
    """Rows in state when the batch ended."""
    late: int | None = None
    """Rows that state refused as too late, as Spark counts them."""


class Wires(Protocol):
    """How the wires of one lowering are counted."""

    def wire(self, frame: DataFrame, name: str) -> DataFrame:
        """The same rows, counted."""
        ...

    def kept(self, frame: DataFrame, name: str, condition: Column) -> DataFrame:
        """The rows for which the condition holds; the others are counted as "filtered" under the name."""
        ...


class Uncounted:
    """Counts nothing."""

    def wire(self, frame: DataFrame, name: str) -> DataFrame:
        return frame

    def kept(self, frame: DataFrame, name: str, condition: Column) -> DataFrame:
        return frame.where(condition)

    def read(self) -> Counts:
        return Counts()


class Stream:
    """Counts the wires of a stream; `read` is called in `foreachBatch`, after the batch was computed."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}

    def wire(self, frame: DataFrame, name: str) -> DataFrame:
        from pyspark.sql import functions as F

        number = self._names.setdefault(name, _FIRST + len(self._names))
        return frame.where(F.spark_partition_id() >= F.lit(-number))

    def kept(self, frame: DataFrame, name: str, condition: Column) -> DataFrame:
        from pyspark.sql import functions as F

        filtered = F.count_if(~F.col(_FLAG)).alias("filtered")
        return flagged(frame, condition).observe(name, filtered).where(_FLAG).drop(_FLAG)

    def read(self, session: SparkSession) -> Counts:
        """What was counted in the batch."""
        execution = this_execution(session)
        if execution is None:
            return Counts()
        rows = dict.fromkeys(self._names, 0)  # where nothing came, Spark leaves out that part of the plan
        names = {number: name for name, number in self._names.items()}
        held, late = [], []
        for text, node in _nodes(execution.executedPlan()):
            found = _MARK.search(text)
            if found is not None and (name := names.get(int(found[1]))) is not None:
                # A wire that two steps read is in the plan twice, with the same rows.
                rows[name] = max(rows[name], _metric(node(), "numOutputRows") or 0)
            elif _keeps_state(text):
                held.append(_metric(node(), "numTotalStateRows") or 0)
                late.append(_metric(node(), "numRowsDroppedByWatermark") or 0)
        return Counts(
            rows=rows,
            observed=of_this_batch(session),
            held=sum(held) if held else None,
            late=sum(late) if late else None,
        )


class Once:
    """Counts the wires of frames that are no streams, each by the first action that takes it."""

    def __init__(self, counted: Counted) -> None:
        self._counted = counted

    def wire(self, frame: DataFrame, name: str) -> DataFrame:
        from pyspark.sql import functions as F

        return self._counted.observe(frame, name, F.count(F.lit(1)).alias("rows"))

    def kept(self, frame: DataFrame, name: str, condition: Column) -> DataFrame:
        from pyspark.sql import functions as F

        filtered = F.count_if(~F.col(_FLAG)).alias("filtered")
        return self._counted.observe(flagged(frame, condition), name, filtered).where(_FLAG).drop(_FLAG)

    def read(self) -> Counts:
        """What was counted."""
        found = self._counted.read()
        rows = {name: int(metrics["rows"]) for name, metrics in found.items() if "rows" in metrics}
        return Counts(rows=rows, observed={name: m for name, m in found.items() if "rows" not in m})


def flagged(frame: DataFrame, condition: Column) -> DataFrame:
    """The frame with the condition as a column, so that it is computed once; null is no."""
    from pyspark.sql import functions as F

    return frame.withColumn(_FLAG, F.coalesce(condition, F.lit(False)))


def _nodes(plan: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every node of an executed plan: its text, and how to get it.

    Each question to Java takes its time, so the text of all is had in one, and only those that matter are fetched.
    """
    tree = str(plan.treeString())
    places = None if "AdaptiveSparkPlan" in tree else numbered(tree)
    if places is None or not all(_is_there(plan, *place) for place in places if _matters(place[1])):
        yield from _walk(plan)
        return
    for number, text in places:
        yield text, partial(plan.apply, number)


def _matters(text: str) -> bool:
    return _MARK.search(text) is not None or _keeps_state(text)


def _keeps_state(text: str) -> bool:
    return _KEEPS_STATE.search(text.split("[")[0].split("(")[0]) is not None


def _is_there(plan: Any, number: int, text: str) -> bool:
    """Whether the node of that number is the one with that text; else the text was not understood."""
    node = plan.apply(number)
    return (
        node is not None
        and _MARK.findall(str(node.simpleString(100))) == _MARK.findall(text)
        and _matters(str(node.simpleString(100)))
    )


def numbered(tree: str) -> list[tuple[int, str]]:
    """The lines of a plan's text, with the number of each node as Spark counts them.

    The text leaves out the nodes around generated code and tells by `*(1)` what is inside, so they are counted here.

    >>> numbered("*(2) Project [a]\\n+- CollectMetrics\\n   +- *(1) Filter (a)")
    [(1, 'Project [a]'), (3, 'CollectMetrics'), (5, 'Filter (a)')]
    """
    found: list[tuple[int, str]] = []
    above: list[tuple[int, str]] = []
    number = -1
    for line in tree.splitlines():
        shape = re.match(r"((?:   |:  )*(?:[+:]- )?)(?:\*\((\d+)\) )?(.*)", line)
        assert shape is not None
        depth, stage = len(shape[1]), shape[2] or ""
        while above and above[-1][0] >= depth:
            above.pop()
        parent = above[-1][1] if above else ""
        entered = stage != parent
        # An adapter where generated code takes rows from outside, and a node around each piece of it.
        number += 1 + bool(entered and parent) + bool(entered and stage)
        found.append((number, shape[3]))
        above.append((depth, stage))
    return found


def _walk(node: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    name = str(node.nodeName())
    if name.startswith("AdaptiveSparkPlan"):
        yield from _walk(node.executedPlan())
        return
    if "QueryStage" in name:
        yield from _walk(node.plan())
        return
    yield str(node.simpleString(100)), lambda: node
    children = node.children()
    for index in range(children.size()):
        yield from _walk(children.apply(index))


def _metric(node: Any, name: str) -> int | None:
    found = node.metrics().get(name)
    return int(found.get().value()) if found.isDefined() else None
