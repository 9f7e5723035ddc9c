"""distinct: each record once, for ever or within a bound."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, model_validator

from headrace.model import Schema
from headrace.operators.base import WITHOUT_TIME, Balance, Lowering, Operator, Say, State, operator
from headrace.operators.columns import has_columns
from headrace.operators.marks import delayed, marked, marks_of, named
from headrace.options import Duration, Names, refuse, show_duration

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ROW, _ROWS, _AT, _TEXT = "_headrace_row", "_headrace_rows", "_headrace_at", "_headrace_text"


@operator(
    "distinct",
    example="""
first_visits:
  from: visits
  distinct: user
""",
)
class Distinct(Operator):
    """Let the first record of each key through and drop the others.

    Without `within` every key is remembered for ever. With it a repeat is dropped that is at most so much
    later than the record that was let through, by event time, and a key is forgotten once the watermark has passed that
    bound. A repeat still later begins anew; in a stream only if the watermark had passed the bound before
    its batch, so choose a bound within which a key does not return on purpose. A stream lets through the record that
    comes first, a batch run the earliest. Nulls are a key like any other.
    """

    shorthand: ClassVar[str] = "by"
    by: Names = Field((), description="Columns that identify a record; all of them if none is named.")
    within: Duration | None = Field(
        None,
        description="How long a key is remembered, by event time; unset: for ever.",
        examples=["10 minutes"],
    )

    @model_validator(mode="after")
    def _takes_time(self) -> Distinct:
        if self.within is not None and self.within <= timedelta(0):
            raise refuse("bad-option", "within must be longer than nothing", "write within: 10 minutes")
        return self

    def output(self, given: Schema, say: Say) -> Schema:
        has_columns(self.by, given, say, "by")
        if self.within is not None and given.event_time is None:
            say(
                "no-watermark",
                "a bound in time needs an event time, and the input has none",
                "within",
                hint=WITHOUT_TIME,
            )
        return given

    def balance(self) -> Balance:
        return "once"

    def sets_time(self) -> bool:
        return self.within is not None

    def state(self, given: tuple[Schema, ...]) -> State | None:
        bound = None
        if self.within is not None:
            bound = f"a key is forgotten when the watermark has passed its time by {show_duration(self.within)}"
        return State(what=f"one entry per {', '.join(self.by) or 'record'}", bound=bound)

    def in_real_time(self, given: tuple[Schema, ...]) -> str | None:
        return None if self.within is None else "Spark has no duplicates within a bound there"

    def real_time_instead(self) -> str:
        return "leave `within` out, if all keys can be remembered for ever"

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        frame = frames[0]
        if self.within is None:
            return {"out": frame.dropDuplicates(list(self.by) or None)}
        time = low.given[0].event_time
        assert time is not None
        known = frame.where(f"{named(time)} IS NOT NULL")
        if low.streaming:
            return {"out": self._streamed(known, time)}
        return {"out": marked(self._over_all(known, time), time, marks_of(frame, time))}

    def _streamed(self, frame: DataFrame, time: str) -> DataFrame:
        """Spark's own operator; it takes the bound from the mark on the time column, which is lent to it."""
        assert self.within is not None
        marks = marks_of(frame, time)
        lent = marked(frame, time, delayed(marks, self.within))
        once = lent.dropDuplicatesWithinWatermark(list(self.by) or lent.columns)
        return marked(once, time, marks)

    def _over_all(self, frame: DataFrame, time: str) -> DataFrame:
        """The same rule over everything: fold each key's records, by time, into those that are let through."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import ArrayType

        assert self.within is not None
        if not self.by:
            return frame.dropDuplicates()
        micros = round(self.within.total_seconds() * 1_000_000)
        row = F.struct(*(F.col(named(name)) for name in frame.columns))
        numbered = frame.select(
            *(F.col(named(name)).alias(f"_headrace_key{i}") for i, name in enumerate(self.by)),
            F.struct(F.col(named(time)).alias(_AT), F.to_json(row).alias(_TEXT), row.alias(_ROW)).alias(_ROW),
        )
        keys = [f"_headrace_key{i}" for i in range(len(self.by))]
        gathered = numbered.groupBy(*keys).agg(F.collect_list(_ROW).alias(_ROWS))

        def earlier(a: Column, b: Column) -> Column:  # of equal times the lesser text: arbitrary, but always the same
            before = (a[_AT] < b[_AT]) | ((a[_AT] == b[_AT]) & (a[_TEXT] < b[_TEXT]))
            same = (a[_AT] == b[_AT]) & (a[_TEXT] == b[_TEXT])
            return F.when(before, -1).when(same, 0).otherwise(1)

        in_order = F.transform(F.array_sort(_ROWS, earlier), lambda r: r[_ROW])
        none = F.array().cast(ArrayType(frame.schema))
        kept = F.aggregate(
            in_order,
            none,
            lambda kept, r: F.when(
                (F.size(kept) > 0)
                & (F.unix_micros(r[time]) <= F.unix_micros(F.element_at(kept, -1)[time]) + F.lit(micros)),
                kept,
            ).otherwise(F.concat(kept, F.array(r))),
        )
        return gathered.select(F.explode(kept).alias(_ROW)).select(f"{_ROW}.*")
