"""aggregate: counts, sums and the like, per key, running or per window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from headrace.expressions.typing import type_of
from headrace.model import Changes, Schema
from headrace.model.types import TIMESTAMP, DataType
from headrace.operators.base import Lowering, Operator, Say, State, operator
from headrace.operators.columns import Columns, NamedValue, Value, reads, typed_columns
from headrace.operators.functions import Function
from headrace.operators.lowering import spark_columns
from headrace.operators.windows import END, START, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@operator(
    "aggregate",
    example="""
per_tag:
  from: tags
  aggregate:
    by: tag
    window: {tumbling: 10 seconds}
    compute: {n: count(*), longest: max(length(text))}
""",
)
class Aggregate(Operator):
    """Compute one row per key, or per key and window, from all its records.

    Without a window the answer runs on: each batch gives new values for the keys it touched. With one,
    `emit: final` gives each window once, when the watermark has passed its end; `emit: changes` gives
    new values as records come. A windowed result begins with `window_start` and `window_end`.
    """

    by: Columns = Field((), description="What is grouped by: column names or `{name: expression}`.")
    window: Window | None = Field(None, description="`{tumbling: …}` or `{hopping: …, every: …}` over the event time.")
    compute: Columns = Field(description="The answers: `{name: aggregate expression}`.", min_length=1)
    emit: Literal["final", "changes"] | None = Field(
        None, description="When answers are given; final with a window, changes without."
    )

    @property
    def emission(self) -> str:
        return self.emit or ("final" if self.window else "changes")

    def output(self, given: Schema, say: Say) -> Schema:
        keys = typed_columns(self.by, given, say, "by")
        made = [(c.name, self._computed(c, given, say)) for c in self.compute]
        times: list[tuple[str, DataType]] = [(START, TIMESTAMP), (END, TIMESTAMP)] if self.window else []
        names = [name for name, _ in (*times, *keys, *made)]
        for index, name in enumerate(names):
            if name in names[:index]:
                say("duplicate-name", f'two columns would be named "{name}"', "compute", name)
        self._check_time(given, say)
        return Schema.of([*times, *keys, *made])

    def _computed(self, column: NamedValue, given: Schema, say: Say) -> DataType:
        option = ("compute", column.name)
        if isinstance(column.value, Function):
            say("unsupported", "a Python function cannot aggregate yet", *option, hint="use an aggregate expression")
            return column.value.column_type(given, say, *option)

        def place(code: str, message: str, *, hint: str = "", at: int = 0) -> None:
            say(code, message, *option, hint=hint, at=at)

        grouped = frozenset(name for c in self.by if (name := getattr(c.value, "column_name", None)))
        return type_of(column.value, given, place, aggregate=True, grouped=grouped)

    def _check_time(self, given: Schema, say: Say) -> None:
        if self.window is None:
            if self.emission == "final":
                say(
                    "no-watermark",
                    "a running aggregate is never final",
                    "emit",
                    hint="give it a window, or emit changes",
                )
            return
        if given.event_time is None:
            say(
                "no-watermark",
                "windows need an event time, and the input has none",
                "window",
                hint='give the source `time: {column: …, watermark: "10 seconds"}` and keep that column',
            )

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        time = {given[0].event_time} if self.window and given[0].event_time else set()
        values: list[Value] = [*(c.value for c in self.by), *(c.value for c in self.compute)]
        return (reads(values) | frozenset(time),)

    def changes(self, given: tuple[Changes, ...]) -> Changes:
        return Changes.APPEND if self.emission == "final" else Changes.UPDATE

    def identifies(self) -> tuple[str, ...]:
        times = (START, END) if self.window else ()
        return (*times, *(c.name for c in self.by)) if self.emission == "changes" else ()

    def state(self, given: tuple[Schema, ...]) -> State | None:
        keys = ", ".join(c.name for c in self.by)
        if self.window:
            what = f"one row per window and {keys}" if keys else "one row per window"
            return State(what=what, bound="windows are dropped when the watermark has passed their end")
        if not keys:
            return State(what="one row", bound="there is only one row")
        return State(what=f"one row per {keys}", bound=None)

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        from pyspark.sql import functions as F

        keys = spark_columns(self.by, low)
        answers = spark_columns(self.compute, low)
        if self.window is None:
            return {"out": frames[0].groupBy(*keys).agg(*answers)}
        assert low.given[0].event_time is not None
        grouped = frames[0].groupBy(self.window.column(low.given[0].event_time).alias("window"), *keys).agg(*answers)
        names = [F.col(f"`{name}`") for name in low.schema["out"].names[2:]]
        return {"out": grouped.select(F.col("window.start").alias(START), F.col("window.end").alias(END), *names)}
