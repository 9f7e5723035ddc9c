"""process: the author's own state per key, with timers."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from headrace.author.callables import travel_by_value
from headrace.model import Schema
from headrace.model.types import UNKNOWN, TypeSyntaxError
from headrace.operators.base import WITHOUT_TIME, Lowering, Operator, Say, State, operator
from headrace.operators.columns import has_columns
from headrace.operators.keyed import SHORT, ShortForm, Work, short_states, takes_two
from headrace.operators.records import FunctionOption
from headrace.operators.windows import ends_again
from headrace.options import Duration, Names, refuse, show_duration
from headrace.processor import Processor, StateDeclaration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@operator(
    "process",
    inputs=None,
    example="""
running:
  from: orders
  process:
    python: "headrace.processor:numbered"
    by: user
    state: n BIGINT
    returns: user STRING, id BIGINT, number BIGINT
    ttl: 30 days
""",
)
class Process(Operator):
    """Handle each record with the state of its key, by a Python function or a `Processor` class.

    A function is `f(record, state) -> (outputs, state)`: the record and the state are dicts, the state None at first;
    outputs are None, a dict or several; a state of None is forgotten. A class (`headrace.processor.Processor`) has
    value, list and map states and timers.

    Records of a key are handled one by one: those of a batch by event time, if the input has one, else as they
    came. `order: time` lets records wait until the watermark has passed them, so that records and timers are
    handled strictly in the order of their times, however they came. A second input that is a table (a source
    with `table`) is the initial state, read when the flow first starts.
    """

    python_state: ClassVar[bool] = True
    python: FunctionOption = Field(description="A function of record and state, or a Processor: `module:name`.")
    by: Names = Field(min_length=1, description="Columns that make the key.")
    keeps: str | None = Field(None, alias="state", description="The columns of a function's state, `name TYPE, …`.")
    returns: str | None = Field(None, description="The columns it gives, `name TYPE, …`; a class may say it itself.")
    ttl: Duration | None = Field(
        None, description="How long a function's state lives after it was last written, by event time if there is one."
    )
    order: Literal["arrival", "time"] = Field(
        "arrival", description="arrival: at once. time: when the watermark has passed, strictly in order of time."
    )
    bound: str | None = Field(
        None, description="What keeps the state from growing for ever, in words, where nothing here shows it."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Process:
        if self.processor is None:
            if self.keeps is None:
                raise refuse("missing-option", 'the function needs "state"', "state the columns it keeps: name TYPE, …")
            if not takes_two(self.python.callable):
                raise refuse("bad-function", f'function "{self.python}" does not take a record and a state')
        elif self.keeps is not None or self.ttl is not None:
            word = "state" if self.keeps is not None else "ttl"
            raise refuse("bad-option", f'"{word}" is for functions; {self.python} declares its states itself')
        if self.columns_text is None:
            raise refuse("missing-option", 'the function needs "returns"', "state the columns it gives: name TYPE, …")
        if self.ttl is not None and self.ttl <= timedelta(0):
            raise refuse("bad-option", "a time to live must be longer than nothing")
        return self

    @property
    def processor(self) -> type[Processor] | None:
        """The class, if it is one."""
        found: Any = self.python.callable
        return found if isinstance(found, type) and issubclass(found, Processor) else None

    @property
    def columns_text(self) -> str | None:
        return self.returns or (self.processor.returns if self.processor else "") or None

    @property
    def states(self) -> dict[str, StateDeclaration]:
        """What it keeps, by name."""
        return self.processor.states() if self.processor else short_states(self.keeps or "", self.ttl)

    @property
    def timed(self) -> bool:
        """Whether it needs a clock."""
        timers = self.processor is not None and self.processor.uses_timers()
        return timers or self.order == "time" or any(s.ttl is not None for s in self.states.values())

    def clock(self, given: Schema) -> Literal["event", "processing", "none"]:
        """What timers and lifetimes run on."""
        if not self.timed:
            return "none"
        if self.order == "time":
            return "event"
        if self.processor is not None:
            return self.processor.clock
        return "event" if given.event_time is not None else "processing"

    def ticks(self, given: tuple[Schema, ...]) -> bool:
        return self.clock(given[0]) == "processing"

    def outputs(self, given: tuple[Schema, ...], say: Say) -> dict[str, Schema]:
        stream = given[0]
        has_columns(self.by, stream, say, "by")
        self._check_states(say)
        self._check_clock(stream, say)
        self._check_initial(given, say)
        try:
            made = Schema.parse(self.columns_text or "")
        except TypeSyntaxError as error:
            say("bad-schema", f"the columns of the result: {error}", "returns", at=error.at)
            return {"out": Schema()}
        # On the processing clock late records are not dropped, and Spark would not let their times pass.
        marked = stream.event_time if self.clock(stream) != "processing" else None
        time = made.find(marked) if marked else None
        return {"out": made.timed(time.name if time and time.type == stream[time.name] else None)}

    def _check_states(self, say: Say) -> None:
        for name, state in self.states.items():
            whose = "" if name == SHORT and self.processor is None else f' "{name}" of {self.python}'
            try:
                empty = any(not schema.fields for schema in state.schemas())
                if state.life is not None and state.life <= timedelta(0):
                    say("bad-option", f"the time to live of state{whose} must be longer than nothing", "python")
            except TypeSyntaxError as error:
                option = "state" if not whose else "python"
                say("bad-schema", f"the columns of state{whose}: {error}", option, at=0 if whose else error.at)
            except ValueError as error:
                say("bad-option", f"state{whose}: {error}", "python")
            else:
                if empty:
                    say("bad-schema", f"state{whose} has no columns", "state" if not whose else "python")

    def _check_clock(self, given: Schema, say: Say) -> None:
        if self.clock(given) == "event" and given.event_time is None:
            what = "`order: time` needs" if self.order == "time" else "timers and lifetimes on the event clock need"
            say(
                "no-watermark",
                f"{what} an event time, and the input has none",
                "order" if self.order == "time" else "python",
                hint=WITHOUT_TIME + ("" if self.processor is None else ', or set clock = "processing" in the class'),
            )

    def _check_initial(self, given: tuple[Schema, ...], say: Say) -> None:
        if len(given) == 1:
            return
        if len(given) > 2 or not given[1].table:
            say(
                "unsupported",
                "takes one stream, and a table for its initial state",
                hint="put streams together with a union first; a source is a table with `table: true`",
            )
            return
        for name in self.by:
            mine, other = given[0].find(name), given[1].find(name)
            if mine and not other:
                say("unknown-column", f'the initial table has no column "{name}", which is the key', "by")
            elif mine and other and mine.type != other.type and UNKNOWN not in (mine.type, other.type):
                say("type-mismatch", f'"{name}" is {mine.type}, but {other.type} in the initial table', "by")
        if self.processor is not None and self.processor.on_initial is Processor.on_initial:
            say("bad-function", f"{self.python} has no on_initial method to take the initial table", "python")
        if self.processor is None:
            for field in self.states[SHORT].schemas()[0] if self.keeps else ():
                if field.name not in given[1]:
                    say("unknown-column", f'the initial table has no column "{field.name}" of the state', "state")

    def state(self, given: tuple[Schema, ...]) -> State | None:
        keys = ", ".join(self.by)
        states = self.states
        said = self.bound or (self.processor.bound if self.processor else None)
        forever = [name for name, s in states.items() if s.ttl is None]
        if self.processor is None:
            what = f"a state ({self.keeps}) per {keys}"
        else:
            what = f"{', '.join(forever if forever and said is None else states) or 'timers'} per {keys}"
        if said is not None:
            return State(what=what, bound=said)
        if forever:
            ask = "`ttl`" if self.processor is None else "ttl= to its declaration"
            hint = f"that is fine for a bounded set of keys; else add {ask}, or say with `bound` what clears it"
            return State(what=what, bound=None, hint=hint)
        lives = sorted({s.life for s in states.values() if s.life is not None})
        shown = " to ".join(show_duration(t) for t in (lives[0], lives[-1])[: len(lives)]) if lives else ""
        return State(what=what, bound=f"dropped {shown} after it was written" if lives else "timers end by themselves")

    def layout(self) -> str:
        return "; ".join(f"{name}: {state}" for name, state in self.states.items())

    def rejects(self) -> bool:
        return True

    def sets_time(self) -> bool:
        return True

    def how(self, given: tuple[Schema, ...]) -> str:
        order = {"arrival": "each batch by time" if given[0].event_time else "as they come", "time": "strictly by time"}
        clock = {"event": ", event clock", "processing": ", processing clock", "none": ""}[self.clock(given[0])]
        return f"Python keyed state, records handled {order[self.order]}{clock}: the author's own {self.kind}"

    @property
    def kind(self) -> str:
        return "function" if self.processor is None else "processor"

    def held(self) -> str | None:
        return "timers and lifetimes go by the watermark" if self.timed else None

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        from headrace.operators.process_spark import batch, stream

        travel_by_value(self.python.callable)
        work = self.work(low)
        initial = frames[1] if len(frames) > 1 else None
        made = (stream if low.streaming else batch)(work, frames[0], initial, low)
        return {"out": ends_again(made, low.schema["out"].event_time, frames[0])}

    def work(self, low: Lowering) -> Work:
        """What the workers do."""
        given = low.given[0]
        processor = self.processor
        return Work(
            step=low.step,
            make=processor if processor is not None else partial(ShortForm, self.python.callable),
            states=self.states,
            by=tuple(given.find(name).name for name in self.by),  # type: ignore[union-attr]
            time=given.event_time,
            given=given,
            clock=self.clock(given),
            ordered=self.order == "time",
            short=processor is None,
            failures=None if low.failures is None else str(low.failures),
            timers=processor is not None and processor.uses_timers(),
        )
