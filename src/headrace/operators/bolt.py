"""bolt: records handled by a class of the author's, shared out among its tasks as a grouping says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from headrace.author.callables import ClassOption, travel_by_value
from headrace.author.topology import Bolt, KeyValue, Out, Record, Store
from headrace.model import Schema
from headrace.model.types import INT, STRING, TypeSyntaxError
from headrace.operators.base import Lowering, Operator, Say, State, operator
from headrace.operators.columns import has_columns
from headrace.operators.functions import Function
from headrace.operators.groupings import TASK, Grouping, Groupings
from headrace.operators.keyed import Work
from headrace.operators.records import of_function, through_python
from headrace.operators.windows import ends_again
from headrace.options import refuse, show_duration
from headrace.processor import Processor, StateDeclaration

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FROM = "_from"


@operator(
    "bolt",
    inputs=None,
    example="""
counts:
  from: orders
  bolt:
    python: "headrace.operators.bolt:Counted"
    grouping: {fields: user}
    parallelism: 4
""",
)
class BoltStep(Operator):
    """Handle each record by a `headrace.Bolt` or `headrace.Task` class, in one of its tasks.

    Which, says the grouping: `shuffle` any, `{fields: …}` the same for equal values, `all` every one, `global` the
    first; several inputs may have one each. States belong to a task, and their content survives. How many tasks there
    are (`parallelism`) decides which task has a key, so it cannot change without a fresh start. Records of several
    inputs have the columns of all, null where an input lacks one; `record.source` names the input.
    A bolt without states is run where its records are, and the grouping matters only for `all`.
    """

    python: ClassOption = Field(description="A Bolt or Task class, `module:Class`.")
    grouping: Groupings = Field(
        (Grouping("shuffle"),), description="`shuffle`, `{fields: …}`, `all` or `global`; a list: one for each input."
    )
    parallelism: int = Field(1, ge=1, le=10_000, description="How many tasks share the records.", examples=[4])
    arguments: dict[str, Any] = Field({}, description="What the class is made with, by name.")
    bound: str | None = Field(None, description="What keeps its states from growing for ever, in words.")

    @model_validator(mode="after")
    def _is_one(self) -> BoltStep:
        made = self.python.made
        if not (isinstance(made, type) and issubclass(made, Bolt)):
            raise refuse(
                "bad-function", f"{self.python} is not a Bolt", "derive it from headrace.Bolt or headrace.Task"
            )
        if not made.returns:
            raise refuse("missing-option", f"{self.python} does not say its columns", 'returns = "name TYPE, …"')
        return self

    @property
    def states(self) -> dict[str, StateDeclaration]:
        """What a task keeps, by name."""
        found: dict[str, StateDeclaration] = self.python.made.states()
        return found

    @property
    def python_state(self) -> bool:  # type: ignore[override]
        return bool(self.states)

    def groupings(self, inputs: int) -> tuple[Grouping, ...]:
        """The grouping of each input."""
        return self.grouping * inputs if len(self.grouping) == 1 else self.grouping

    def outputs(self, given: tuple[Schema, ...], say: Say) -> dict[str, Schema]:
        if len(self.grouping) not in (1, len(given)):
            say("bad-option", f"{len(self.grouping)} groupings for {len(given)} inputs", "grouping")
        else:
            for grouping, schema in zip(self.groupings(len(given)), given, strict=True):
                has_columns(grouping.fields, schema, say, "grouping", "fields")
        for name, state in self.states.items():
            try:
                state.schemas()
            except TypeSyntaxError as error:
                say("bad-schema", f'the columns of state "{name}" of {self.python}: {error}', "python")
        return {"out": of_function(self.python.made.returns, self._merged(given, say), say)}

    def _merged(self, given: tuple[Schema, ...], say: Say | None = None) -> Schema:
        """The columns of all inputs."""
        found = dict[str, Any]()
        for schema in given:
            for field in schema:
                if say is not None and found.get(field.name, field.type) != field.type:
                    message = f'column "{field.name}" is {found[field.name]} in one input and {field.type} in another'
                    say("schema-mismatch", message, "python")
                found.setdefault(field.name, field.type)
        times = {schema.event_time for schema in given}
        return Schema.of(found.items(), times.pop() if len(times) == 1 else None)

    def ticks(self, given: tuple[Schema, ...]) -> bool:
        return self._clock(self._merged(given)) == "processing"

    def _clock(self, merged: Schema) -> Literal["event", "processing", "none"]:
        """What the lifetimes of its states run on."""
        if not any(s.life is not None for s in self.states.values()):
            return "none"
        return "event" if merged.event_time else "processing"

    def state(self, given: tuple[Schema, ...]) -> State | None:
        if not self.states:
            return None
        tasks = "1 task" if self.parallelism == 1 else f"{self.parallelism} tasks"
        what = f"{', '.join(self.states)} of {tasks}"
        said = self.bound or self.python.made.bound
        lives = [s.life for s in self.states.values()]
        if said is None and all(life is not None for life in lives):
            said = f"dropped {show_duration(max(life for life in lives if life is not None))} after it was written"
        hint = (
            "that is fine for a bounded set of keys; else give its states a ttl, or say with `bound` what clears them"
        )
        return State(what=what, bound=said, hint=hint)

    def layout(self) -> str:
        return "; ".join(f"{name}: {state}" for name, state in self.states.items())

    def rejects(self) -> bool:
        return True

    def remakes_columns(self) -> bool:
        return not self.states

    def sets_time(self) -> bool:
        return bool(self.states)

    def how(self, given: tuple[Schema, ...]) -> str:
        ways = ", ".join(str(g) for g in self.groupings(len(given)))
        kept = f"Python keyed state, one key for each of {self.parallelism} tasks" if self.states else "Python"
        return f"{kept}; grouping {ways}: the author's own bolt"

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        from headrace.operators.process_spark import batch, stream

        travel_by_value(self.python.made)
        merged = self._merged(low.given)
        frame = self._shared_out(frames, low, merged)
        if not self.states:
            return {"out": self._stateless(frame, low)}
        work = self._work(merged, low)
        made = (stream if low.streaming else batch)(work, frame, None, low)
        return {"out": ends_again(made, low.schema["out"].event_time, frame)}

    def _shared_out(self, frames: tuple[DataFrame, ...], low: Lowering, merged: Schema) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.expressions.spark import spark_type

        whole: DataFrame | None = None
        for index, (frame, grouping) in enumerate(zip(frames, self.groupings(len(frames)), strict=True)):
            numbered = grouping.numbered(frame, self.parallelism)
            missing = [f for f in merged if f.name not in frame.columns]
            columns = [
                F.lit(None).cast(spark_type(f.type)).alias(f.name) if f in missing else F.col(f"`{f.name}`")
                for f in merged
            ]
            source = low.inputs[index] if index < len(low.inputs) else ""
            one = numbered.select(*columns, F.lit(source).alias(FROM), F.col(TASK), *_beside(frame, frames, low))
            whole = one if whole is None else whole.unionByName(one)
        assert whole is not None
        return whole

    def _stateless(self, frame: DataFrame, low: Lowering) -> DataFrame:
        calls = _Calls(self.python.made, self.arguments, low.schema["out"].names)
        return through_python(Function(str(self.python), None, calls), True, frame, low)

    def _work(self, merged: Schema, low: Lowering) -> Work:
        given = Schema.of([*((f.name, f.type) for f in merged), (FROM, STRING), (TASK, INT)], merged.event_time)
        return Work(
            step=low.step,
            make=partial(_Tasks, self.python.made, self.arguments, low.schema["out"].names),
            states=self.states,
            by=(TASK,),
            time=merged.event_time,
            given=given,
            clock=self._clock(merged),
            failures=None if low.failures is None else str(low.failures),
        )


class Counted(Bolt):
    """A bolt as an example: each record's user with how many records of that user there were."""

    returns = "user STRING, n BIGINT"
    counts = Store("user STRING", "n BIGINT")

    def execute(self, record: Record, out: Out) -> None:
        user = record["user"]
        n = self.counts.get(user, 0) + 1  # type: ignore[attr-defined]
        self.counts[user] = n  # type: ignore[index]
        out.emit(user, n)


def _beside(frame: DataFrame, frames: tuple[DataFrame, ...], low: Lowering) -> list[Column]:
    """The columns that travel with the records; null where an input has them not."""
    from pyspark.sql import functions as F

    kinds = {name: next(f.schema[name].dataType for f in frames if name in f.columns) for name in low.carried}
    return [
        F.col(f"`{name}`") if name in frame.columns else F.lit(None).cast(kind).alias(name)
        for name, kind in kinds.items()
    ]


class _Tasks(Processor):
    """The tasks of a bolt that one worker has, behind the interface of keyed processors."""

    def __init__(self, made: type[Bolt], arguments: dict[str, Any], names: tuple[str, ...]) -> None:
        self._made, self._arguments, self._names = made, arguments, names
        self._tasks: dict[int, Bolt] = {}
        self.on_record = _Executing(self)  # type: ignore[method-assign]

    def task(self, number: int, state: Any) -> Bolt:
        """The author's object for a task, set up when its first record comes."""
        if number not in self._tasks:
            bolt = self._made(**self._arguments)
            for name, declared in self._made.states().items():
                held = getattr(state, name)
                setattr(bolt, name, KeyValue(held) if isinstance(declared, Store) else held)
            bolt.prepare(number)
            self._tasks[number] = bolt
        return self._tasks[number]


class _Executing:
    """`execute` in the shape of `on_record`; errors name the author's method."""

    def __init__(self, tasks: _Tasks) -> None:
        self._tasks = tasks
        self.authors = tasks._made.execute

    def __call__(self, record: dict[str, Any], state: Any, timers: Any) -> list[dict[str, Any]]:
        out = Out(self._tasks._names)
        self._tasks.task(record[TASK], state).execute(_record(record), out)
        return out.rows


def _record(row: dict[str, Any]) -> Record:
    record = Record(row)
    record.source = record.pop(FROM)
    record.pop(TASK)
    return record


class _Calls:
    """A bolt without states as a function of records, named as the author's method."""

    def __init__(self, made: type[Bolt], arguments: dict[str, Any], names: tuple[str, ...]) -> None:
        self._tasks, self._names = _Tasks(made, arguments, names), names
        self.__module__, self.__qualname__ = made.__module__, f"{made.__qualname__}.execute"

    def __call__(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        out = Out(self._names)
        self._tasks.task(row[TASK], None).execute(_record(row), out)
        return out.rows
