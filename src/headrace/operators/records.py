"""map and flat_map: each record becomes another one, or several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from headrace.expressions.expression import Expression
from headrace.model import Schema
from headrace.model.types import UNKNOWN, Array, Struct, TypeSyntaxError
from headrace.operators.base import Balance, Lowering, Operator, Say, operator
from headrace.operators.columns import Columns, reads, typed, typed_columns
from headrace.operators.functions import Function
from headrace.operators.letters import FAILED, failed_type
from headrace.operators.lowering import beside, computed, may_fail, ways
from headrace.options import refuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FunctionOption = Annotated[
    Function,
    BeforeValidator(lambda v: Function.parse({"python": v} if isinstance(v, str) else v)),
    PlainSerializer(lambda f: f.reference),
    WithJsonSchema({"type": "string", "examples": ["module:function"]}),
]


def _schema(step_returns: str, say: Say) -> Schema:
    try:
        return Schema.parse(step_returns)
    except TypeSyntaxError as error:
        say("bad-schema", f"the columns of the result: {error}", "returns", at=error.at)
        return Schema()


def of_function(returns: str, given: Schema, say: Say) -> Schema:
    """The columns a function gives; the time stays the time if it gives it on as it was."""
    made = _schema(returns, say)
    time = made.find(given.event_time) if given.event_time else None
    return made.timed(time.name if time and time.type == given[time.name] else None)


def through_python(function: Function, many: bool, frame: DataFrame, low: Lowering) -> DataFrame:
    """The frame through a record function, without the records it raised on, which are rejected."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    from headrace.expressions.spark import spark_schema

    columns = StructType([*spark_schema(low.schema["out"]), *(frame.schema[name] for name in low.carried)])
    columns = columns.add(FAILED, failed_type())
    batches = function.batches(low.step, to_arrow_schema(columns, timezone="UTC"), many, low.carried, low.calls)
    return low.reject(frame.mapInArrow(batches, columns), F.col(FAILED)).drop(FAILED)


@operator(
    "map",
    example="""
cleaned:
  from: orders
  map: {id: id, user: lower(trim(user)), total: price * quantity}
""",
)
class Map(Operator):
    """Make one new record of each: by expressions, or by a Python function of the whole record.

    A function takes the record as a dict and gives a dict with the columns stated in `returns`,
    or None for no record.
    """

    shorthand: ClassVar[str] = "columns"
    columns: Columns = Field((), description="The new record: `{name: expression}`.")
    python: FunctionOption | None = Field(None, description="A function of the record, `module:function`.")
    returns: str | None = Field(None, description="The columns the function gives, `name TYPE, …`.")

    @model_validator(mode="after")
    def _one_way(self) -> Map:
        if bool(self.columns) == (self.python is not None):
            raise refuse("bad-option", "map takes either columns or a python function")
        if self.python is not None and self.returns is None:
            raise refuse("missing-option", 'the function needs "returns"', "state the columns it gives: name TYPE, …")
        return self

    def output(self, given: Schema, say: Say) -> Schema:
        if self.python is not None:
            return of_function(self.returns or "", given, say)
        time = next((c.name for c in self.columns if getattr(c.value, "column_name", "") == given.event_time), None)
        return Schema.of(typed_columns(self.columns, given, say, "columns"), time)

    def remakes_columns(self) -> bool:
        return self.python is not None

    def rejects(self) -> bool:
        return self.python is not None or may_fail(c.value for c in self.columns)

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        if self.python is not None:
            return super().needs(wanted, given)
        return (reads(c.value for c in self.columns if c.name in wanted),)

    def how(self, given: tuple[Schema, ...]) -> str:
        return ways(self.columns) if self.python is None else "Python in Arrow batches: it takes whole records"

    def balance(self) -> Balance:
        return "each" if self.python is None else "others"  # a function may give no record

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        if self.python is not None:
            return {"out": through_python(self.python, False, frames[0], low)}
        frame, column = computed(frames[0], (c.value for c in self.columns), low)
        return {"out": frame.select(*(column(c.value).alias(c.name) for c in self.columns), *beside(low))}


@operator(
    "flat_map",
    example="""
words:
  from: lines
  flat_map: {each: "split(value, ' ')", as: word}
""",
)
class FlatMap(Operator):
    """Make any number of new records of each: one per element of an array, or by a Python function.

    An array of structs gives the struct's fields as columns; any other gives one column, named by `as`.
    A function takes the record as a dict and gives dicts with the columns stated in `returns`.
    """

    each: Expression | None = Field(None, description="An expression that gives an array.")
    as_: str = Field("value", alias="as", description="The column an element goes into.")
    python: FunctionOption | None = Field(None, description="A function of the record, `module:function`.")
    returns: str | None = Field(None, description="The columns the function gives, `name TYPE, …`.")

    @model_validator(mode="after")
    def _one_way(self) -> FlatMap:
        if (self.each is None) == (self.python is None):
            raise refuse("bad-option", 'flat_map takes either "each" or a python function')
        if self.python is not None and self.returns is None:
            raise refuse("missing-option", 'the function needs "returns"', "state the columns it gives: name TYPE, …")
        return self

    def output(self, given: Schema, say: Say) -> Schema:
        if self.python is not None:
            return of_function(self.returns or "", given, say)
        assert self.each is not None
        kind = typed(self.each, given, say, "each")
        if isinstance(kind, Array):
            item = kind.item
            return Schema(item.fields) if isinstance(item, Struct) else Schema.of([(self.as_, item)])
        if kind != UNKNOWN:
            say("type-mismatch", f"each must give an array, but {self.each} is {kind}", "each")
        return Schema.of([(self.as_, UNKNOWN)])

    def remakes_columns(self) -> bool:
        return self.python is not None

    def rejects(self) -> bool:
        return self.python is not None

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        return super().needs(wanted, given) if self.each is None else (self.each.columns(),)

    def how(self, given: tuple[Schema, ...]) -> str:
        return "native" if self.python is None else "Python in Arrow batches: it takes whole records"

    def balance(self) -> Balance:
        return "others"

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        from pyspark.sql import functions as F

        from headrace.expressions.spark import to_spark

        if self.python is not None:
            return {"out": through_python(self.python, True, frames[0], low)}
        assert self.each is not None
        exploded = frames[0].select(F.explode(to_spark(self.each)).alias(self.as_), *beside(low))
        inside = isinstance(typed(self.each, low.given[0], _silent), Array) and low.schema["out"].names != (self.as_,)
        return {"out": exploded.select(f"`{self.as_}`.*", *beside(low)) if inside else exploded}


def _silent(code: str, message: str, *option: str | int, **_: object) -> None:
    """Says nothing: the same was said when the flow was checked."""
