"""Rows counted on every wire of a query, for the ledger.

A wire of a stream is counted by a filter that every row passes, `spark_partition_id() >= -1000001`. Spark counts the
rows that leave a filter anyway, within generated code; and because the condition is not deterministic it neither
moves the filter nor puts it together with another. The number names the wire in the executed plan, from which the
count is read before the batch is committed. An `observe` would break the generated code in two at each wire.

What a condition leaves out is what comes to it less what goes on, both counted so, right before and right behind it.
Where only columns change between two such places, one filter counts for both. The newest time of a source's records is
what Spark itself has noted where it marks the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headrace.compile.observed import Counted, this_execution

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FIRST = 1_000_000
_REPEATED = "numDroppedDuplicateRows"
_FLAG = "_headrace_kept"
_WIRE, _KEPT = "wire", "kept"
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
        self._java: Any = session._jvm
        self._numbers: dict[tuple[str, str], int] = {}
        self._fields: dict[str, str] = {}

    def wire(self, frame: DataFrame, name: str) -> DataFrame:
        return self._counted(frame, "wire", name)

    def kept(self, frame: DataFrame, name: str, field: str, condition: Column) -> DataFrame:
        self._fields[name] = field
        return self._counted(self._counted(frame, "before", name).where(condition), "behind", name)

    def _counted(self, frame: DataFrame, where: str, name: str) -> DataFrame:
        key, same = (where, name), self._java.headrace.Counted.same(frame._jdf.queryExecution().analyzed())
        if same and self._numbers.get(key, same) == same:
            self._numbers[key] = same
            return frame
        number = self._numbers.setdefault(key, _FIRST + len(self._numbers))
        return in_place(frame, number)

    def read(self) -> Counts:
        """What was counted in the batch."""
        execution = this_execution(self._session)
        if execution is None:
            return Counts()
        rows = dict.fromkeys(self._numbers.values(), 0)  # where nothing came, Spark leaves out that part of the plan
        timed = {self._numbers["behind", name]: name for name in self._fields if name.endswith(TIMED)}
        state, newest, marked = list[list[int]](), dict[str, int](), list[int]()
        for line in str(self._java.headrace.Counted.read(execution.executedPlan())).splitlines():
            what, *numbers = line.split()
            first, *others = map(int, numbers)
            if what == "state":
                state.append([first, *others])
            elif what == "time":
                marked = [first]
            else:
                # A wire that two steps read is in the plan twice, with the same rows.
                rows[first] = max(rows[first], others[0])
                if first in timed and marked:  # right behind it the time is marked
                    newest[timed[first]], marked = max(marked[0], newest.get(timed[first], marked[0])), []
        repeated = [again for _, _, *more in state for again in more]
        count = {key: rows[number] for key, number in self._numbers.items()}
        return Counts(
            rows={name: number for (where, name), number in count.items() if where == "wire"},
            taken={n: {f: count["before", n] - count["behind", n]} for n, f in self._fields.items()},
            times={n.removesuffix(TIMED): Times(count["behind", n], newest.get(n)) for n in timed.values()},
            held=sum(held for held, *_ in state) if state else None,
            refused=sum(late for _, late, *_ in state) if state else None,
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


def in_place(frame: DataFrame, number: int = 1) -> DataFrame:
    """The same rows, by a filter that Spark neither moves nor lets a later one pass; the number tells which it is."""
    from pyspark.sql import functions as F

    return frame.where(F.spark_partition_id() >= F.lit(-number))


def flagged(frame: DataFrame, condition: Column) -> DataFrame:
    """The frame with the condition as a column, so that it is computed once; null is no.

    Spark must not see through a condition that never holds: it would leave out the counting before it as well.
    """
    from pyspark.sql import functions as F

    return frame.withColumn(_FLAG, F.when(F.spark_partition_id() >= F.lit(0), F.coalesce(condition, F.lit(False))))
