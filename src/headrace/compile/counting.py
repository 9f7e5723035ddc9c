"""Rows counted on every wire of a query, for the ledger.

A wire of a stream is counted by a filter that every row passes, `spark_partition_id() >= -1000001`. Spark counts the
rows that leave a filter anyway, within generated code; and because the condition is not deterministic it neither
moves the filter nor puts it together with another. The number names the wire in the executed plan, from which the
count is read before the batch is committed. An `observe` would break the generated code in two at each wire.

What a condition leaves out is what comes to it less what goes on, both counted so, right before and right behind it.
The newest time of a source's records is what Spark itself has noted where it marks the time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headrace.compile.observed import Counted, this_execution

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FIRST = 1_000_000
_MARK = re.compile(r"SPARK_PARTITION_ID\(\) >= -(\d+)\)", re.IGNORECASE)
_KEEPS_STATE = re.compile(r"StateStoreSave|SymmetricHashJoin|StreamingDeduplicate|TransformWithState")
_MARKS_TIME = "EventTimeWatermark"
_REPEATED = "numDroppedDuplicateRows"
_FLAG = "_headrace_kept"
_WIRE, _KEPT = "wire", "kept"
_NO_TIME = -(2**63)
TIMED = ".time"
"""How the name ends under which a source's records without a time that is believed are counted."""


class Times(NamedTuple):
    """What is known of the times of a source's records in a batch."""

    records: int
    """Those with a time that is believed."""
    newest: int | None
    """In milliseconds."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What was counted in a batch."""

    rows: Mapping[str, int] = field(default_factory=dict)
    """By the name of the wire."""
    taken: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By name and field: what conditions have left out along the way."""
    times: Mapping[str, Times] = field(default_factory=dict)
    """By source, what is known of the times of its records."""
    held: int | None = None
    """Rows in state when the batch ended."""
    refused: int | None = None
    """Rows that state refused as too late, as Spark counts them."""
    repeated: int | None = None
    """Rows that were left out because one with their key had been there, as Spark counts them."""


class Counter(Protocol):
    """How rows are counted in one lowering."""

    def wire(self, frame: DataFrame, name: str) -> DataFrame:
        """The same rows, counted."""
        ...

    def kept(self, frame: DataFrame, name: str, field: str, condition: Column) -> DataFrame:
        """The rows for which the condition holds; the others are counted under the name, as the field."""
        ...


class Uncounted:
    """Counts nothing."""

    def wire(self, frame: DataFrame, name: str) -> DataFrame:
        return frame

    def kept(self, frame: DataFrame, name: str, field: str, condition: Column) -> DataFrame:
        return frame.where(condition)


class Stream:
    """Counts in a stream; `read` is called in `foreachBatch`, after the batch was computed."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._numbers: dict[tuple[str, str], int] = {}
        self._fields: dict[str, str] = {}

    def wire(self, frame: DataFrame, name: str) -> DataFrame:
        return self._counted(frame, "wire", name)

    def kept(self, frame: DataFrame, name: str, field: str, condition: Column) -> DataFrame:
        self._fields[name] = field
        return self._counted(self._counted(frame, "before", name).where(condition), "behind", name)

    def _counted(self, frame: DataFrame, where: str, name: str) -> DataFrame:
        from pyspark.sql import functions as F

        number = self._numbers.setdefault((where, name), _FIRST + len(self._numbers))
        return frame.where(F.spark_partition_id() >= F.lit(-number))

    def read(self) -> Counts:
        """What was counted in the batch."""
        execution = this_execution(self._session)
        if execution is None:
            return Counts()
        rows = dict.fromkeys(self._numbers, 0)  # where nothing came, Spark leaves out that part of the plan
        keys = {number: key for key, number in self._numbers.items()}
        held, refused, repeated, newest, marked = [], [], list[int](), dict[str, int](), _NO_TIME
        for text, node in _nodes(execution.executedPlan()):
            found = _MARK.search(text)
            if found is not None and (key := keys.get(int(found[1]))) is not None:
                # A wire that two steps read is in the plan twice, with the same rows.
                rows[key] = max(rows[key], _metric(node(), "numOutputRows") or 0)
                if marked > _NO_TIME and key[0] == "behind" and key[1].endswith(TIMED):
                    newest[key[1]], marked = max(newest.get(key[1], marked), marked), _NO_TIME
            elif _keeps_state(text):
                held.append(_metric(node(), "numTotalStateRows") or 0)
                refused.append(_metric(node(), "numRowsDroppedByWatermark") or 0)
                if (again := _metric(node(), _REPEATED)) is not None:
                    repeated.append(again)
            elif text.startswith(_MARKS_TIME):
                stats = node().eventTimeStats().value()
                marked = int(stats.max()) if stats.count() else _NO_TIME
        return Counts(
            rows={name: number for (where, name), number in rows.items() if where == "wire"},
            taken={n: {f: rows["before", n] - rows["behind", n]} for n, f in self._fields.items()},
            times={
                n.removesuffix(TIMED): Times(rows["behind", n], newest.get(n))
                for n in self._fields
                if n.endswith(TIMED)
            },
            held=sum(held) if held else None,
            refused=sum(refused) if refused else None,
            repeated=sum(repeated) if repeated else None,
        )


class Observed:
    """Counts in a stream in real-time mode, with `observe`: the counts come with Spark's report of a batch.

    There is no moment at which the executed plan of a batch could be read. A row that is sent on at once gains nothing
    from generated code in one piece.
    """

    def __init__(self) -> None:
        self._names: dict[str, int] = {}

    def wire(self, frame: DataFrame, name: str) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.observe(self._named(_WIRE, name), F.count(F.lit(1)).alias("rows"))

    def kept(self, frame: DataFrame, name: str, field: str, condition: Column) -> DataFrame:
        from pyspark.sql import functions as F

        out = F.count_if(~F.col(_FLAG)).alias(field)
        return flagged(frame, condition).observe(self._named(_KEPT, name), out).where(_FLAG).drop(_FLAG)

    def _named(self, what: str, name: str) -> str:
        """A name of its own: what is read by two steps may be lowered twice, and Spark takes no name twice."""
        number = self._names[name] = self._names.get(name, 0) + 1
        return f"{what} {number} {name}"

    @staticmethod
    def read(report: Mapping[str, Any]) -> Counts:
        """What was counted in a batch, from Spark's report of it."""
        rows: dict[str, int] = {}
        taken: dict[str, dict[str, int]] = {}
        for named, metrics in (report.get("observedMetrics") or {}).items():
            what, _, rest = named.partition(" ")
            name = rest.partition(" ")[2]
            if what == _WIRE:  # counted twice, it is the same rows
                rows[name] = max(rows.get(name, 0), int(metrics["rows"]))
            elif what == _KEPT:
                here = taken.setdefault(name, {})
                here |= {field: max(here.get(field, 0), int(number or 0)) for field, number in metrics.items()}
        state = report.get("stateOperators") or ()
        return Counts(
            rows=rows,
            taken=taken,
            held=sum(int(o.get("numRowsTotal", 0)) for o in state) if state else None,
            refused=sum(int(o.get("numRowsDroppedByWatermark", 0)) for o in state) if state else None,
            repeated=next((int(m[_REPEATED]) for o in state if _REPEATED in (m := o.get("customMetrics") or {})), None),
        )


class Once:
    """Counts in frames that are no streams, each by the first action that takes it."""

    def __init__(self, session: SparkSession) -> None:
        self._counted = Counted(session)

    def wire(self, frame: DataFrame, name: str) -> DataFrame:
        from pyspark.sql import functions as F

        return self._counted.observe(frame, name, F.count(F.lit(1)).alias("rows"))

    def kept(self, frame: DataFrame, name: str, field: str, condition: Column) -> DataFrame:
        from pyspark.sql import functions as F

        out = F.count_if(~F.col(_FLAG)).alias(field)
        return self._counted.observe(flagged(frame, condition), name, out).where(_FLAG).drop(_FLAG)

    @property
    def used(self) -> bool:
        """Whether there is anything to count."""
        return self._counted.used

    def read(self) -> Counts:
        """What was counted."""
        found = self._counted.read()
        rows = {name: int(metrics["rows"]) for name, metrics in found.items() if "rows" in metrics}
        return Counts(rows=rows, taken={name: m for name, m in found.items() if "rows" not in m})


def flagged(frame: DataFrame, condition: Column) -> DataFrame:
    """The frame with the condition as a column, so that it is computed once; null is no.

    Spark must not see through a condition that never holds: it would leave out the counting before it as well.
    """
    from pyspark.sql import functions as F

    return frame.withColumn(_FLAG, F.when(F.spark_partition_id() >= F.lit(0), F.coalesce(condition, F.lit(False))))


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
    return _MARK.search(text) is not None or _keeps_state(text) or text.startswith(_MARKS_TIME)


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
