"""aggregate: counts, sums and the like, per key, running or per window."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from headrace.expressions.expression import Expression
from headrace.expressions.tree import Call
from headrace.expressions.typing import type_of
from headrace.model import OUT, REMOVED, Changes, Schema
from headrace.model.types import BIGINT, TIMESTAMP, DataType
from headrace.operators import aggregators, arrays
from headrace.operators.arrays import FROM, FUNCTIONS, GONE, TO, Taken, around, calls, each_window, fits
from headrace.operators.base import WITHOUT_TIME, Lowering, Operator, Say, State, operator
from headrace.operators.columns import Columns, NamedValue, Value, reads, typed_columns
from headrace.operators.folds import Fold
from headrace.operators.functions import Function
from headrace.operators.late import LATE, LATE_BY, late_schema, late_under, watched
from headrace.operators.lowering import computed, may_fail, spark_columns
from headrace.operators.ordered import windows_in_order
from headrace.operators.windows import (
    END,
    ENDS,
    MARK,
    NUMBER,
    START,
    WATERMARKED,
    Window,
    marked_again,
    moment,
    momentary,
    span,
)
from headrace.options import Duration, Options, show_duration

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Early(Options):
    """Answers before a window is complete, every so often; the last one given for a window is its final one."""

    early: Duration = Field(description="How long at least between two answers.", gt=timedelta(0))


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
    new values as records come. A windowed result begins with `window_start` and `window_end`. Given once, it
    happened at its `window_end` and can be put into windows again: seconds into minutes, minutes into hours.

    Where answers change, `window_start`, `window_end` and the keys tell a row. A session is told by its start alone,
    since its end moves; when two become one, or one begins earlier than was known, the row that was given is taken
    back. Windows by count are given from their first record on, and told by `window_number`, a column of theirs then.
    """

    by: Columns = Field((), description="What is grouped by: column names or `{name: expression}`.")
    window: Window | None = Field(None, description="`{tumbling: …}`, `{hopping: …, every: …}` or `{session: …}`.")
    compute: Columns = Field(description="The answers: `{name: aggregate expression}`.", min_length=1)
    emit: Literal["final", "changes"] | Early | None = Field(
        None,
        description="When answers are given: `final`, the default with a window; `changes`, the default without; or "
        "`{early: 5 seconds}`, changes not more often than that.",
    )
    late: Literal["drop", "port", "correct"] = Field(
        "drop",
        description="What happens to a record all of whose windows are complete: it is dropped and counted, leaves by "
        "the port `late`, or corrects the answers given, for `allowance` more.",
    )
    allowance: Duration | None = Field(
        None, description="With `late: correct`, how long after its end a window can still be corrected."
    )

    @property
    def emission(self) -> str:
        if isinstance(self.emit, Early):
            return "changes"
        return self.emit or ("final" if self.window else "changes")

    def every(self) -> timedelta | None:
        return self.emit.early if isinstance(self.emit, Early) else None

    def ports(self) -> tuple[str, ...]:
        return (OUT, LATE) if self.late == "port" else (OUT,)

    def sides(self) -> tuple[str, ...]:
        return (LATE,) if self.late == "port" else ()

    def outputs(self, given: tuple[Schema, ...], say: Say) -> dict[str, Schema]:
        made = {OUT: self.output(given[0], say)}
        if self.late != "port":
            return made
        if LATE_BY in given[0]:
            say("duplicate-name", f'two columns of the late port would be named "{LATE_BY}"', "late")
        return made | {LATE: late_schema(given[0])}

    def output(self, given: Schema, say: Say) -> Schema:
        keys = typed_columns(self.by, given, say, "by")
        made = [(c.name, self._computed(c, given, say)) for c in self.compute]
        times: list[tuple[str, DataType]] = [(name, BIGINT if name == NUMBER else TIMESTAMP) for name in self.times()]
        names = [name for name, _ in (*times, *keys, *made)]
        for index, name in enumerate(names):
            if name in names[:index]:
                say("duplicate-name", f'two columns would be named "{name}"', "compute", name)
        self._check_time(given, say)
        # A window that is given once is a fact that happened at its end, so it can be windowed again.
        again = self.window is not None and self.fold() is None and self.emission == "final"
        return Schema.of([*times, *keys, *made], END if again else None)

    def _computed(self, column: NamedValue, given: Schema, say: Say) -> DataType:
        option = ("compute", column.name)
        if isinstance(column.value, Function):
            self._check_python(column.value, say, *option)
            return aggregators.check(column.value, given, say, *option)

        def place(code: str, message: str, *, hint: str = "", at: int = 0) -> None:
            say(code, message, *option, hint=hint, at=at)

        if self.fold() is not None:
            for call in calls(column.value.tree):
                if not fits(call):
                    say(
                        "unsupported",
                        f"{call.function} cannot be computed over windows of records in order",
                        *option,
                        hint=f"these can: {', '.join(sorted(FUNCTIONS))}",
                    )
        return type_of(column.value, given, place, aggregate=True, grouped=self._grouped())

    def _check_python(self, function: Function, say: Say, *option: str | int) -> None:
        if self.window is None:
            say(
                "unsupported",
                f'aggregate "{function}" in Python needs a window',
                *option,
                detail="all values it takes are kept until the answer is given, and a running answer never ends",
                hint="give it a window, or use `process`, whose state is what you make it",
            )
        elif self.fold() is not None:
            say(
                "unsupported",
                f'aggregate "{function}" in Python cannot be computed over windows of records in order',
                *option,
                hint="use a tumbling or hopping window, or a session that is given once (`emit: final`); "
                "or collect_list(…) and a function behind it",
            )

    def _python(self) -> dict[str, Function]:
        """The answers that Python gives, by name."""
        return {c.name: c.value for c in self.compute if isinstance(c.value, Function)}

    def _grouped(self) -> frozenset[str]:
        return frozenset(name for c in self.by if (name := getattr(c.value, "column_name", None)))

    def _check_late(self, say: Say) -> None:
        if self.late != "drop" and self.window is None:
            say("bad-option", "without a window nothing is late", "late", hint="give it a window")
        elif self.late == "correct" and self.emission != "changes":
            hint = "emit changes, for a sink that can replace a row"
            say("bad-option", "an answer that is given once cannot be corrected", "late", hint=hint)
        elif self.late == "correct" and not self.allowance:
            hint = "add `allowance: 1 hour`"
            say("missing-option", "late records can correct only for a stated time", "late", hint=hint)
        if self.allowance and self.late != "correct":
            say("bad-option", "an allowance goes with `late: correct`", "allowance")

    def _check_time(self, given: Schema, say: Say) -> None:
        self._check_late(say)
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
                hint=WITHOUT_TIME,
            )

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        time = {given[0].event_time} if self.window and given[0].event_time else set()
        values: list[Value] = [*(c.value for c in self.by), *(c.value for c in self.compute)]
        passed_on = wanted & frozenset(given[0].names) if self.late == "port" else frozenset()
        return (reads(values) | frozenset(time) | passed_on,)

    def changes(self, given: tuple[Changes, ...]) -> Changes:
        return Changes.APPEND if self.emission == "final" else Changes.UPDATE

    def fold(self) -> Fold | None:
        """How its windows are made of a key's records in order; None: Spark has a native way, or there are none."""
        if self.window is None:
            return None
        return self.window.fold(changing=self.emission == "changes", allowance=self.allowance)

    def times(self) -> tuple[str, ...]:
        """The columns that tell the window; its result begins with them."""
        if self.window is None:
            return ()
        numbered = self.window.count is not None and self.emission == "changes"
        return (START, END, NUMBER) if numbered else (START, END)

    def identifies(self) -> tuple[str, ...]:
        if self.emission != "changes":
            return ()
        times = self.times()
        if NUMBER in times:
            times = (NUMBER,)
        elif self.window is not None and self.window.session:
            times = (START,)
        return (*times, *(c.name for c in self.by))

    def state(self, given: tuple[Schema, ...]) -> State | None:
        keys = ", ".join(c.name for c in self.by)
        if self.window and self.fold() is not None:
            what = f"the records of a window for each {keys}" if keys else "the records of a window"
            kept = f" by {show_duration(self.allowance)}" if self.allowance else ""
            bound = f"records are dropped when the watermark has passed their window{kept}"
            if self.window.count:
                hint = "a key that no longer comes keeps its last, incomplete window"
                return State(what=what, bound=None, hint=hint)
            return State(what=what, bound=bound)
        if self.window:
            what = f"one row per window and {keys}" if keys else "one row per window"
            kept = f" by {show_duration(self.allowance)}" if self.allowance else ""
            if self._python():
                what += f", and every value that {', '.join(str(f) for f in self._python().values())} takes"
            return State(what=what, bound=f"windows are dropped when the watermark has passed their end{kept}")
        if not keys:
            return State(what="one row", bound="there is only one row")
        return State(what=f"one row per {keys}", bound=None)

    def in_rocksdb_only(self) -> bool:
        return self.fold() is not None

    def layout(self) -> str:
        if self.window is None:
            return ""
        if (fold := self.fold()) is not None:
            return "records in order, changing" if fold.changing else "records in order"
        return "windows by their end" if self.window.tumbling and not self.window.zone else ""

    def how(self, given: tuple[Schema, ...]) -> str:
        if self.fold() is not None:
            return "keyed state of our own, in Java, keeps the records in order; Spark computes the answers"
        looks = "; on the way in, Python looks for late records in Arrow batches" if self.late == "port" else ""
        python = ", ".join(f"{name}: Python over the values of a window" for name in self._python())
        return f"{python or 'native'}{looks}"

    def rejects(self) -> bool:
        return self.rejects_entering()

    def rejects_entering(self) -> bool:
        return may_fail(c.value for c in self.by)

    def stops(self) -> str:
        made = ", ".join(str(function) for function in self._python().values())
        return f"{made}: it takes all values of a window, so there is no one record to put aside" if made else ""

    def in_real_time(self, given: tuple[Schema, ...]) -> str | None:
        if self.fold() is not None:
            return "its windows are of records in order, which are kept from batch to batch"
        if self.window is not None and self.emission == "final":
            return "each of its windows is given once, when it is complete, and only changes are given there"
        if self.every() is not None:
            return "it holds answers back, to give them not more often than asked for"
        if self._python() or any(isinstance(c.value, Function) and "Python" in c.value.how() for c in self.by):
            return "records would wait for each other in the buffers between Java and Python"
        return None

    def real_time_instead(self) -> str:
        ordered = self.window is not None and self.window.fold(changing=True) is not None
        return "" if self._python() or ordered else "write `emit: changes`"

    def late_rows(self, frame: DataFrame, time: str, mark: int) -> DataFrame:
        """Of its input, the records that are too late under a watermark (in microseconds), as the port has them."""
        assert self.window is not None
        return late_under(frame, time, self.window.closes(moment(frame, time)), mark)

    def sets_time(self) -> bool:
        return self.window is not None

    def time_instead(self) -> str:
        if self.emission == "changes":
            return "give each of its windows once (`window: …`, `emit: final`)"
        return (
            "its windows are of records, and end in no order; use a tumbling, hopping or session window there, "
            "or write them to a topic and read it with a `time`"
        )

    def drops_late(self) -> bool:
        return self.window is not None

    def settled(self, frame: DataFrame, watermark: int) -> DataFrame:
        from pyspark.sql import functions as F

        if self.window is None or self.emission != "final":
            return frame
        kept = self.allowance or timedelta(0)
        return frame.where(F.unix_micros(F.col(END) + span(kept)) <= watermark)

    def held(self) -> str | None:
        if self.window is not None and self.window.at_most is not None and self.emission == "final":
            return "a session with at_most ends with a later record"
        return None

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        from pyspark.sql import functions as F

        frame, time = frames[0], low.given[0].event_time
        python = self._python()
        answers = [
            *spark_columns((c for c in self.compute if c.name not in python), low),
            *(aggregators.gathered(function, time).alias(f"_headrace_{name}") for name, function in python.items()),
        ]
        if self.late == "port" and low.aside is not None:
            assert self.window is not None
            assert time is not None
            seen = watched(frame, time, self.window.closes(moment(frame, time)), low.aside)
            frame = marked_again(seen, time, frame)
        again = {LATE: self._late_again(frame, time, low)} if self.late == "port" and MARK in frame.columns else {}
        frame, column = computed(frame, (c.value for c in self.by), low)
        keys = [column(c.value).alias(c.name) for c in self.by]
        if self.window is None:
            return {"out": frame.groupBy(*keys).agg(*answers)}
        assert time is not None
        if (fold := self.fold()) is not None:
            if MARK in frame.columns:
                frame = self.window.in_time(frame, F.col(f"`{time}`"), self.allowance or timedelta(0))
            return {"out": self._in_order(frame, fold, time, keys, low), **again}
        frame, time = momentary(frame, time)
        allowance = self.allowance or timedelta(0)
        frame = low.in_time(frame, partial(self.window.is_open, F.col(f"`{time}`"), allowance=allowance))
        grouped = self.window.group(frame, time, keys, allowance).agg(*answers)
        for name, function in python.items():
            made = aggregators.answer(
                function, F.col(f"`_headrace_{name}`"), low.schema["out"][name], low.step, timed=True
            )
            grouped = grouped.withColumn(name, made)
        names = [F.col(f"`{name}`") for name in low.schema["out"].names[2:]]
        start, ended = self.window.bounds(grouped, allowance)
        if self.window.session and not low.streaming:
            # Spark would move a later condition on the end below the merging, where each record has its own session.
            ended = F.when(F.monotonically_increasing_id() >= 0, ended)
        end = ended.alias(END, metadata={WATERMARKED: 0, ENDS: True})
        return {"out": grouped.select(start.alias(START), end, *names), **again}

    def _late_again(self, frame: DataFrame, time: str | None, low: Lowering) -> DataFrame:
        """The records that a stream has put aside, by their marks."""
        from pyspark.sql import functions as F

        assert self.window is not None
        assert time is not None
        late = frame.where(F.unix_micros(self.window.closes(moment(frame, time))) <= F.col(MARK))
        behind = (F.col(MARK) - F.unix_micros(F.col(f"`{time}`"))).cast("double") / F.lit(1_000_000.0)
        names = [name for name in low.schema[LATE].names if name in frame.columns]
        return late.select(*(f"`{name}`" for name in names), behind.alias(LATE_BY))

    def _in_order(self, frame: DataFrame, fold: Fold, time: str, keys: list[Column], low: Lowering) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.expressions.spark import to_spark

        trees = {c.name: c.value.tree for c in self.compute if isinstance(c.value, Expression)}
        found = dict.fromkeys(call for tree in trees.values() for call in calls(tree))
        taken = [Taken(call=call, number=number) for number, call in enumerate(found)]
        values = [to_spark(e).alias(name) for t in taken for name, e in t.columns().items()]
        many = windows_in_order(frame, fold, time, keys, values, streaming=low.streaming)
        each = each_window({t.answer: t.sql(self._type(t.call, low.given[0])) for t in taken})
        named = [F.col(f"`{c.name}`") for c in self.by]
        answered = many.select(*named, GONE, F.inline(F.expr(each)))
        grouped = {name: c.name for c in self.by if (name := getattr(c.value, "column_name", None))}
        known = {t.call: t.answer for t in taken}
        made = [to_spark(Expression(around(tree, known, grouped))).alias(name) for name, tree in trees.items()]
        times = [F.timestamp_micros(c).alias(n) for c, n in ((FROM, START), (TO, END))]
        if NUMBER in self.times():
            times.append(F.col(arrays.NUMBER).alias(NUMBER))
        removed = [F.col(GONE).alias(REMOVED)] if fold.kind == "session" and fold.changing and low.streaming else []
        return answered.select(*times, *named, *made, *removed)

    def _type(self, call: Call, given: Schema) -> str:
        return str(type_of(Expression(call), given, _silent, aggregate=True, grouped=self._grouped()))


def _silent(code: str, message: str, *, hint: str = "", at: int = 0) -> None:
    """Says nothing: the same was said when the flow was checked."""
