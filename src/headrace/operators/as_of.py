"""as_of: beside each record the other input's last one at or before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from headrace.model import Schema
from headrace.operators.base import Lowering, Say, State, operator
from headrace.operators.marks import named
from headrace.operators.sides import Sides, with_time
from headrace.operators.windows import ends_again
from headrace.options import Duration, refuse, show_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming import StatefulProcessor

_AT, _TIE, _FIRST, _SECOND, _KEY = "_at", "_tie", "_first", "_second", "_key"
Known = tuple[int, str, Any]
"""A record of the second input: its time in microseconds, its text, itself."""


@operator(
    "as_of",
    inputs=2,
    example="""
priced:
  from: [trades, quotes]
  as_of: {on: symbol, tolerance: 5 seconds, prefix: quote_}
""",
)
class AsOf(Sides):
    """Beside each record of the first input, the second's last record with equal `on` at or before its time.

    A record leaves when the watermark has passed its time, so that what comes late but in time counts: the answer
    is by event time, whatever the order of arrival. Of several records with the same time the one whose JSON text
    is greatest is taken, which is arbitrary, but the same in every run. The result has the first input's event time.
    """

    python_state: ClassVar[bool] = True
    tolerance: Duration | None = Field(
        None,
        description="How old the second input's record may be, by event time; unset: any age, and the last one of each "
        "key is remembered for ever.",
        examples=["5 seconds"],
    )
    kind: Literal["inner", "left"] = Field(
        "left", description="Whether a record for which there is none is kept, with nulls (left), or dropped (inner)."
    )

    @model_validator(mode="after")
    def _not_negative(self) -> AsOf:
        if self.tolerance is not None and self.tolerance < timedelta(0):
            raise refuse("bad-option", "tolerance cannot be negative")
        return self

    def outputs(self, given: tuple[Schema, ...], say: Say) -> dict[str, Schema]:
        if any(schema.table for schema in given):
            say("unsupported", "a table has no time to compare with", hint="use join, or read it as a stream")
        else:
            self.timed(given, say)
        return {"out": Schema.of(self.columns(given, say), given[0].event_time)}

    def state(self, given: tuple[Schema, ...]) -> State | None:
        keys = ", ".join(first for first, _ in self.on)
        what = f"records the watermark has not passed, and the last of the second input per {keys}"
        bound = None
        if self.tolerance is not None:
            bound = f"the last one is dropped when the watermark has passed its time by {show_duration(self.tolerance)}"
        return State(what=what, bound=bound)

    def sets_time(self) -> bool:
        return True

    def how(self, given: tuple[Schema, ...]) -> str:
        return "Python keyed state: Spark's joins of streams cannot choose the last of several"

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        # All of the second input's, because which of two equally late ones is taken must not depend on what is read.
        return super().needs(wanted, given)[0], frozenset(given[1].names)

    def held(self) -> str | None:
        return "records wait until the watermark has passed them"

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        both = self._together(frames, low)
        made = self._streamed(both, frames, low) if low.streaming else self._over_all(both, frames)
        return {"out": ends_again(made, low.given[0].event_time, frames[0])}

    def _together(self, frames: tuple[DataFrame, ...], low: Lowering) -> DataFrame:
        """Both inputs as one: key, time, and the record as a struct on its own side."""
        from pyspark.sql import functions as F

        sides = []
        for index, (frame, schema) in enumerate(zip(frames, low.given, strict=True)):
            record = F.struct(*(F.col(named(n)) for n in frame.columns))
            other = F.lit(None).cast(frames[1 - index].schema)
            keys = [pair[index] for pair in self.on]
            known = with_time(frame, schema.event_time)
            if index == 1:  # a null equals nothing; on the first side it must stay, to leave with nulls
                known = known.dropna(subset=keys) if keys else known
            sides.append(
                known.select(
                    *(F.col(named(k)).alias(f"{_KEY}{i}") for i, k in enumerate(keys)),
                    F.col(named(schema.event_time or "")).alias(_AT),
                    (F.to_json(record) if index == 1 else F.lit(None).cast("string")).alias(_TIE),
                    (record if index == 0 else other).alias(_FIRST),
                    (record if index == 1 else other).alias(_SECOND),
                )
            )
        return sides[0].union(sides[1])

    def _names(self, frames: tuple[DataFrame, ...]) -> list[tuple[str, str, str]]:
        """Side, name there and name in the result of each column."""
        first = [(_FIRST, n, n) for n in frames[0].columns]
        second = [(_SECOND, n, self.prefix + n) for n in frames[1].columns if n.lower() not in self.shared()]
        return first + second

    def _over_all(self, both: DataFrame, frames: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        keys = [f"{_KEY}{i}" for i in range(len(self.on))]
        # Of equal times the second input's come first (their text is not null), so that "at" counts as "before".
        order = Window.partitionBy(*keys).orderBy(F.col(_AT), F.col(_TIE).asc_nulls_last())
        before = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        found = F.last(F.when(F.col(_TIE).isNotNull(), F.struct(_AT, _SECOND)), ignorenulls=True).over(before)
        met = both.withColumn("_found", found).where(f"{_TIE} IS NULL")
        in_time = F.lit(True) if self.tolerance is None else _age(F.col(_AT), F.col(f"_found.{_AT}"), self.tolerance)
        second = F.when(in_time, F.col(f"_found.{_SECOND}"))
        paired = met.select(_FIRST, second.alias(_SECOND))
        if self.kind == "inner":
            paired = paired.where(f"{_SECOND} IS NOT NULL")
        return paired.select(*(F.col(side)[name].alias(out) for side, name, out in self._names(frames)))

    def _streamed(self, both: DataFrame, frames: tuple[DataFrame, ...], low: Lowering) -> DataFrame:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructField, StructType

        time = low.given[0].event_time
        first, second = (StructType([StructField(f.name, f.dataType) for f in frame.schema]) for frame in frames)
        made = StructType([StructField(_AT, both.schema[_AT].dataType), StructField(_FIRST, first)])
        made = StructType([*made.fields, StructField(_SECOND, second)])
        keys = [f"{_KEY}{i}" for i in range(len(self.on))]
        moments = both.withColumn("_micros", F.unix_micros(_AT))
        met = moments.groupBy(*keys).transformWithState(
            statefulProcessor=_matcher(first, second, self.tolerance, keep=self.kind == "left"),
            outputStructType=made,
            outputMode="Append",
            timeMode="EventTime",
            eventTimeColumnName=_AT,
        )
        return met.select(
            *(
                F.col(_AT).alias(out) if side == _FIRST and name == time else F.col(side)[name].alias(out)
                for side, name, out in self._names(frames)
            )
        )


def _age(at: Any, found: Any, tolerance: timedelta) -> Any:
    from pyspark.sql import functions as F

    return F.unix_micros(at) - F.unix_micros(found) <= _micros(tolerance)


def _micros(length: timedelta) -> int:
    return length // timedelta(microseconds=1)


def last_before(known: Iterable[Known], at: int, tolerance: int | None) -> Any:
    """The record with the greatest time, then text, at or before a time; None if there is none, or it is too old.

    >>> last_before([(1, "a", "x"), (3, "a", "y"), (3, "b", "z"), (5, "a", "w")], 4, None)
    'z'
    """
    best = max((k for k in known if k[0] <= at), key=lambda k: k[:2], default=None)
    return None if best is None or (tolerance is not None and at - best[0] > tolerance) else best[2]


def still_needed(known: Sequence[Known], since: int, tolerance: int | None) -> list[Known]:
    """What a record later than `since` could still be given: all later ones, and the last one at or before it."""
    later = [k for k in known if k[0] > since]
    last = max((k for k in known if k[0] <= since), key=lambda k: k[:2], default=None)
    return [last, *later] if last is not None and (tolerance is None or last[0] > since - tolerance) else later


def _matcher(first: Any, second: Any, tolerance: timedelta | None, *, keep: bool) -> StatefulProcessor:
    """A processor that holds records until the watermark has passed them; made here because its base is Spark's."""
    from pyspark.sql import Row as SparkRow
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
    from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

    oldest = None if tolerance is None else _micros(tolerance)
    waiting_type = StructType(
        [StructField("at", LongType()), StructField("time", TimestampType()), StructField("record", first)]
    )
    known_type = StructType(
        [StructField("at", LongType()), StructField("tie", StringType()), StructField("record", second)]
    )

    class Matcher(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._handle = handle
            self._waiting = handle.getListState("waiting", waiting_type)
            self._known = handle.getListState("known", known_type)

        def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
            fresh, news = [], []
            for row in rows:
                if row[_FIRST] is not None:
                    fresh.append((row["_micros"], row[_AT], row[_FIRST]))
                else:
                    news.append((row["_micros"], row[_TIE], row[_SECOND]))
            if fresh:
                self._waiting.appendList(fresh)
                self._wake(min(at for at, _, _ in fresh))
            if news:
                held = [at for at, _, _ in (tuple(w) for w in self._waiting.get())]
                passed = min([timerValues.getCurrentWatermarkInMs() * 1000, *(at - 1 for at in held)])
                known = [(k[0], k[1], k[2]) for k in self._known.get()]
                self._keep(known, [*known, *news], passed)
                if oldest is not None:
                    self._wake(max(at for at, _, _ in news) + oldest)
            yield from ()

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
            passed = timerValues.getCurrentWatermarkInMs() * 1000
            waiting = [(w[0], w[1], w[2]) for w in self._waiting.get()]
            known = [(k[0], k[1], k[2]) for k in self._known.get()]
            for at, time, record in waiting:
                if at <= passed:
                    found = last_before(known, at, oldest)
                    if found is not None or keep:
                        yield SparkRow(**{_AT: time, _FIRST: record, _SECOND: found})
            left = [w for w in waiting if w[0] > passed]
            if len(left) != len(waiting):
                if left:
                    self._waiting.put(left)
                    self._wake(min(at for at, _, _ in left))
                else:
                    self._waiting.clear()
            self._keep(known, known, min([passed, *(at - 1 for at, _, _ in left)]))

        def _keep(self, before: list[Known], now: list[Known], passed: int) -> None:
            kept = still_needed(now, passed, oldest)
            if kept and kept != before:
                self._known.put(kept)
            elif before and not kept:
                self._known.clear()

        def _wake(self, at: int) -> None:
            """A timer for when the watermark reaches a time."""
            self._handle.registerTimer(-(-at // 1000))

        def close(self) -> None:
            pass

    return Matcher()
