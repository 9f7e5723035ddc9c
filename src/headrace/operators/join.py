"""join: two streams within an interval of time, or a stream and a table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from headrace.model import Schema
from headrace.operators.base import Balance, Lowering, Say, State, operator
from headrace.operators.marks import marks_of, noted, unmarked
from headrace.operators.sides import Sides, renamed, with_time
from headrace.options import Duration, Options, parse_duration, refuse, show_duration

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Interval(Options):
    """How far apart in time two records may be: the second's time from `before` ahead of the first's to `after` it."""

    before: Duration = Field(timedelta(0), description="How much earlier the second input's record may be.")
    after: Duration = Field(timedelta(0), description="How much later the second input's record may be.")


def _parse_interval(given: object) -> object:
    if isinstance(given, str | timedelta):
        length = parse_duration(given)
        return Interval(before=length, after=length)
    return given


def _show_interval(interval: Interval | None) -> Any:
    if interval is None:
        return None
    if interval.before == interval.after:
        return show_duration(interval.before)
    return interval.model_dump(mode="json", exclude_defaults=True)


IntervalOption = Annotated[
    Interval | None,
    BeforeValidator(_parse_interval),
    PlainSerializer(_show_interval),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "format": "duration"},
                {"type": "object", "properties": {"before": {"type": "string"}, "after": {"type": "string"}}},
            ]
        }
    ),
]


@operator(
    "join",
    inputs=2,
    example="""
paid:
  from: [orders, payments]
  join: {on: {id: order_id}, within: 10 minutes, kind: left, prefix: payment_}
""",
)
class Join(Sides):
    """Put records of two inputs together where the columns in `on` are equal.

    Two streams: records match whose event times are at most `within` apart. Pairs leave as soon as both records are
    there. A record without a partner leaves, with nulls, when the watermark has passed the time in which one could
    still come: of the first input with `kind: left`, of the second with `right`, of both with `full`.
    The event time of the result is the first input's; with `right` the second's; with `full` there is none.

    A stream and a table (a source with `table`): the second input is the table, `kind` is inner or left, nothing is
    remembered, and each record meets the table as it stands when its batch runs.

    Nulls in `on` equal nothing. A column named the same on both sides of `on` comes once; other names must differ, or
    be told apart by `prefix`.
    """

    within: IntervalOption = Field(
        None, description="How far apart in time two records may be: a length, or `{before: …, after: …}`."
    )
    kind: Literal["inner", "left", "right", "full"] = Field(
        "inner", description="Which records without a partner are kept: none, the first input's, the second's, both."
    )

    @model_validator(mode="after")
    def _possible(self) -> Join:
        if self.within is None and self.kind in ("right", "full"):
            raise refuse(
                "bad-option",
                f"a {self.kind} join needs within: rows of a table are not waited for",
                "a stream and a table can be joined inner or left; two streams need `within: 10 minutes`",
            )
        return self

    def outputs(self, given: tuple[Schema, ...], say: Say) -> dict[str, Schema]:
        self._check_time(given, say)
        return {"out": Schema.of(self.columns(given, say), self._time(given))}

    def _check_time(self, given: tuple[Schema, ...], say: Say) -> None:
        left, right = given
        if left.table:
            say(
                "unsupported",
                "the first input is a table, which does not bring records",
                hint="name the stream first: `from: [stream, table]`",
            )
        elif right.table:
            if self.within is not None:
                say(
                    "bad-option",
                    "a table has no time that `within` could hold to",
                    "within",
                    hint="remove within, or read the second input as a stream",
                )
        elif self.within is None:
            say(
                "state-unbounded",
                "two streams joined without `within` would be kept for ever",
                hint="say how far apart in time records may be, `within: 10 minutes`, or make one source a `table`",
            )
        else:
            self.timed(given, say, "within")

    def _time(self, given: tuple[Schema, ...]) -> str | None:
        left, right = given
        if self.kind == "full":
            return None
        if self.kind == "right":
            return None if right.event_time is None else self.named_in_result(right.event_time)
        return left.event_time

    def state(self, given: tuple[Schema, ...]) -> State | None:
        if self.within is None:
            return None
        before, after = show_duration(self.within.before), show_duration(self.within.after)
        bound = f"a record is dropped when the watermark has passed its time by {after}"
        if before != after:
            bound += f" (first input) or {before} (second input)"
        return State(what="the records of both inputs", bound=bound)

    def holds_time_back(self) -> bool:
        return self.within is not None

    def time_instead(self) -> str:
        return "in a full join either may be null; use left or right, or write it to a topic and read it with a `time`"

    def sets_time(self) -> bool:
        return self.within is not None

    def decides_by(self) -> frozenset[str]:
        return frozenset(a for a, _ in self.on) if self.kind == "inner" else frozenset()

    def balance(self) -> Balance:
        return "others" if self.within is None else "state"

    def how(self, given: tuple[Schema, ...]) -> str:
        return "native" if self.within is not None else "native: the table is sent to every task"

    def held(self) -> str | None:
        return "a record without a match waits for one" if self.within is not None and self.kind != "inner" else None

    def in_real_time(self, given: tuple[Schema, ...]) -> str | None:
        return None if self.within is None else "Spark joins no two streams there"

    def real_time_instead(self) -> str:
        return "make one of the sources a `table`"

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        from pyspark.sql import functions as F

        if self.within is not None:
            frames = tuple(with_time(f, s.event_time) for f, s in zip(frames, low.given, strict=True))
        (left, first), (right, second) = renamed(frames[0], "l"), renamed(frames[1], "r")
        matches = F.lit(True)
        for a, b in self.on:
            mine, other = F.col(first[a.lower()]), F.col(second[b.lower()])
            # Said again, because Spark's full join of two streams takes one null for another.
            matches = matches & (mine == other) & mine.isNotNull() & other.isNotNull()
        if self.within is None:
            joined = left.join(F.broadcast(right), matches, self.kind)
        else:
            matches = matches & self._near(first, second, low)
            joined = left.join(right, matches, self.kind)
        return {"out": joined.select(*self._result(frames, joined, first, second, low))}

    def _near(self, first: Mapping[str, str], second: Mapping[str, str], low: Lowering) -> Column:
        from pyspark.sql import functions as F

        assert self.within is not None
        mine, other = low.given[0].event_time, low.given[1].event_time
        assert mine is not None
        assert other is not None
        at, partner = first[mine.lower()], F.col(second[other.lower()])
        early = F.expr(f"{at} - INTERVAL '{_seconds(self.within.before)}' SECOND")
        late = F.expr(f"{at} + INTERVAL '{_seconds(self.within.after)}' SECOND")
        return (partner >= early) & (partner <= late)

    def _result(
        self,
        frames: tuple[DataFrame, ...],
        joined: DataFrame,
        first: Mapping[str, str],
        second: Mapping[str, str],
        low: Lowering,
    ) -> list[Column]:
        """The columns under their names, with at most one that Spark takes for the time."""
        from pyspark.sql import functions as F

        same = {a.lower(): second[b.lower()] for a, b in self.on if a.lower() == b.lower()}
        made: list[tuple[str, str, Column]] = []
        for name in frames[0].columns:
            column = F.col(first[name.lower()])
            if name.lower() in same and self.kind in ("right", "full"):
                column = F.coalesce(column, F.col(same[name.lower()]))
            made.append((name, first[name.lower()], column))
        made += [
            (self.prefix + n, second[n.lower()], F.col(second[n.lower()]))
            for n in frames[1].columns
            if n.lower() not in self.shared()
        ]
        time = low.schema["out"].event_time
        marks = {name: marks_of(joined, held) for name, held, _ in made}
        return [noted(column, n, marks[n] if n == time else unmarked(marks[n])) for n, _, column in made]


def _seconds(length: timedelta) -> str:
    return f"{length.total_seconds():.3f}"
