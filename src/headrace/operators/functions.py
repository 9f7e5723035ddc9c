"""Python functions of the author's: named, typed, called inside a boundary that tells where they failed.

Two shapes. A *column function* has columns as its parameters and gives one value:

    def tax(price: float, country: str) -> float: ...

A *record function* has one parameter, the whole record as a dict, and gives a dict (`map`) or several
(`flat_map`); its columns are stated in `returns`.

A parameter annotated `float` is never given a null: a null argument gives a null result without a call.
One annotated `float | None` is given None.
"""

from __future__ import annotations

import base64
import inspect
import json
import traceback
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal as PyDecimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.author.aggregator import Aggregator
from headrace.author.callables import load, reference_of, travel_by_value
from headrace.errors import DataError
from headrace.expressions.expression import Expression
from headrace.expressions.pyfunction import Refusal, from_python, tried
from headrace.expressions.typing import type_of
from headrace.model import Schema
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    UNKNOWN,
    Array,
    DataType,
    Decimal,
    TypeSyntaxError,
    is_integer,
    parse_type,
)
from headrace.operators.base import Lowering, Say
from headrace.operators.calls import UNNOTED, Calls, call_of, digest_of
from headrace.operators.groupings import TASK
from headrace.operators.letters import FAILED, failed_type
from headrace.options import refuse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

Answers = tuple[dict[str, Any], list[Mapping[str, Any]]]
"""What a record function gave for a record: what is carried beside it, and the rows."""
MARKER = "HEADRACE-FUNCTION-ERROR "
"""What stands before the JSON of a failed call in an exception's text, so that it survives Spark's wrapping."""

_TYPES: dict[object, DataType] = {
    int: BIGINT,
    float: DOUBLE,
    str: STRING,
    bool: BOOLEAN,
    bytes: BINARY,
    datetime: TIMESTAMP,
    date: DATE,
    PyDecimal: Decimal(38, 18),
}


_tried = lru_cache(maxsize=256)(tried)
"""Asked several times for each function; trying it takes a few milliseconds."""


class UserFunctionError(DataError):
    """A function of the author's raised; the message is MARKER and one line of JSON."""

    record: str = ""
    """All of the record, as JSON; known in the process that raised it."""


@dataclass(frozen=True)
class Function:
    """A function by name, "module:function", and the callable itself once it is loaded."""

    reference: str
    returns: str | None = None
    call: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def is_one(value: object) -> bool:
        """True for what the author may write for a function."""
        if isinstance(value, Mapping):
            return "python" in value
        return isinstance(value, Function) or (callable(value) and not hasattr(value, "expression"))

    @classmethod
    def parse(cls, value: object) -> Function:
        """From a callable, `{python: "module:function", returns: TYPE}` or a Function."""
        if isinstance(value, Function):
            return value
        if isinstance(value, Mapping):
            unknown = set(value) - {"python", "returns"}
            reference, returns = value.get("python"), value.get("returns")
            if unknown:
                raise refuse("unknown-option", f"a function has no option {sorted(map(str, unknown))[0]!r}")
            if callable(reference):
                return cls(reference_of(reference), None if returns is None else str(returns), reference)
            if not isinstance(reference, str) or reference.count(":") != 1:
                raise refuse("bad-function", f"{reference!r} does not name a function", 'write "module:function"')
            return cls(reference, None if returns is None else str(returns), load(reference))
        assert callable(value)
        return cls(reference_of(value), None, value)

    @property
    def name(self) -> str | None:
        """The function's own name, unless it has none (a lambda)."""
        name = self.reference.partition(":")[2].rpartition(".")[2]
        return None if "<" in name else name

    def plain(self) -> dict[str, str]:
        """The flow-file form."""
        return {"python": self.reference} | ({"returns": self.returns} if self.returns else {})

    def __str__(self) -> str:
        return self.reference

    @property
    def callable(self) -> Callable[..., Any]:
        """The function itself, loaded if need be."""
        return self.call if self.call is not None else load(self.reference)

    def parameters(self) -> tuple[str, ...]:
        """The columns it takes, in order: its parameters; of an aggregator those of `add` behind the state."""
        made: Any = self.callable
        if isinstance(made, type) and issubclass(made, Aggregator):
            return tuple(inspect.signature(made.add).parameters)[2:]
        return tuple(inspect.signature(made).parameters)

    def columns(self) -> frozenset[str]:
        """The columns a column function reads."""
        return frozenset(self.parameters())

    def compiled(self) -> Expression | Refusal:
        """The function as an expression, or why it must stay Python."""
        made = self.callable
        return _tried(made) if isinstance(made, types.FunctionType) else from_python(made)

    def column_type(self, given: Schema, say: Say, *option: str | int) -> DataType:
        """The type of its result as a column function; parameters that are not columns are said."""
        from headrace.errors import nearest

        for name in self.columns():
            if name not in given:
                hint = nearest(name, given.names).replace("It takes", "The input has")
                say(
                    "unknown-column", f'function "{self}" reads column "{name}", which is not there', *option, hint=hint
                )
        self._check_annotations(given, say, *option)
        if self.returns is not None:
            try:
                return parse_type(self.returns)
            except TypeSyntaxError as error:
                say("bad-schema", f"the result type of {self}: {error}", *option)
                return UNKNOWN
        found = annotated_type(hints_of(self.callable).get("return"))
        if found is not None:
            return found
        compiled = self.compiled()
        if isinstance(compiled, Expression):
            return type_of(compiled, given, lambda *_, **__: None)
        say(
            "bad-function",
            f'the result type of function "{self}" is not known',
            *option,
            hint='annotate it, "-> float", or write {python: …, returns: double}',
        )
        return UNKNOWN

    def _check_annotations(self, given: Schema, say: Say, *option: str | int) -> None:
        """Says which parameters are annotated as something else than their column is."""
        hints = hints_of(self.callable)
        for name in sorted(self.columns()):
            column, wanted = given.find(name), annotated_type(hints.get(name))
            if column is not None and wanted is not None and not _fits(column.type, wanted):
                say(
                    "type-mismatch",
                    f'function "{self}" takes "{name}" as {wanted}, but the column is {column.type}',
                    *option,
                    hint="change the annotation, or cast the column first",
                )

    def is_compiled(self) -> bool:
        """Whether it runs as a native expression."""
        return isinstance(self.compiled(), Expression)

    def how(self) -> str:
        """How it will run, for `explain`."""
        compiled = self.compiled()
        if isinstance(compiled, Expression):
            return "compiled to a native expression"
        return f"Python in Arrow batches: {compiled.reason}"

    def column(self, given: Schema, step: str) -> Column:
        """The Spark column: the compiled expression, or an Arrow UDF."""
        from pyspark.sql import functions as F

        from headrace.expressions.spark import spark_type, to_spark

        compiled = self.compiled()
        kind = self.column_type(given, _silent)
        if isinstance(compiled, Expression):
            return to_spark(compiled).cast(spark_type(kind))
        travel_by_value(self.callable)
        names = list(inspect.signature(self.callable).parameters)
        wrapped = boundary(self.callable, step, names, _strict(self.callable))
        udf = F.udf(wrapped, spark_type(kind), useArrow=True)
        return udf(*(F.col(f"`{name}`") for name in names))

    def attempt(self, low: Lowering, number: int, record: Column) -> Column:
        """The Spark column of an Arrow UDF that does not fail: a struct of `value` and `failed`, a FAILED_TYPE.

        It is the step's function of that number; `record` is a digest of what it is called for.
        """
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        from headrace.expressions.spark import spark_type

        travel_by_value(self.callable)
        names = list(inspect.signature(self.callable).parameters)
        step, calls = low.step, low.calls
        wrapped = boundary(self.callable, step, names, _strict(self.callable))

        def call(digest: int, *arguments: Any) -> tuple[Any, Any]:
            this = call_of(step, number, digest)
            told = calls.before(this)
            if told is None:
                try:
                    return wrapped(*arguments), None
                except UserFunctionError as error:
                    told = calls.raised(this, step, failure_of(error), whole=False)
            return None, tuple(told.values())

        given = self.column_type(low.given[0], _silent)
        kind = StructType().add("value", spark_type(given)).add("failed", failed_type())
        # Spark would call what it takes for deterministic once for its value and once for its failure.
        udf = F.udf(call, kind, useArrow=True).asNondeterministic()
        return udf(record, *(F.col(f"`{name}`") for name in names))

    def batches(
        self, step: str, schema: pa.Schema, many: bool, carried: tuple[str, ...] = (), calls: Calls = UNNOTED
    ) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """For mapInArrow: the record function over whole batches; `many`: it gives several records for one.

        A record it raised on, or for which it gave what does not fit the schema, has only its FAILED column set.
        """
        travel_by_value(self.callable)
        authors = self.callable

        def original(batch: pa.RecordBatch, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
            """A record as it came, whatever the function did to it, and what is carried beside it."""
            record: dict[str, Any] = batch.slice(number, 1).to_pylist()[0]
            return record, {name: record.pop(name) for name in carried}

        def refused(record: dict[str, Any], failure: dict[str, str]) -> dict[str, Any]:
            """What is left of a record on which it raised."""
            told = calls.raised(_call_of(step, record), step, failure, whole=True)
            return {FAILED: told | {"record": failure["record"]}}

        def answers(batch: pa.RecordBatch, number: int, record: dict[str, Any]) -> Answers:
            beside = {name: record.pop(name) for name in carried}
            told = calls.before(_call_of(step, record)) if calls.known else None
            if told is not None:
                return beside, [{FAILED: told | {"record": as_json(record)}}]
            try:
                answer = authors(record)
                return beside, list(answer if answer is not None else ()) if many else [answer] * (answer is not None)
            except Exception as error:  # noqa: BLE001 - whatever the author's function raises, a generator's too
                whole, _ = original(batch, number)
                return beside, [refused(whole, failure_of(failed(error, step, authors, whole)))]

        def made(every: list[Answers]) -> pa.RecordBatch:
            import pyarrow as pa

            rows = [{**row, **beside} if beside else row for beside, rows in every for row in rows]
            return pa.RecordBatch.from_pylist(rows, schema=schema)

        def fitting(batch: pa.RecordBatch, number: int, answer: Answers) -> pa.RecordBatch:
            import pyarrow as pa

            try:
                return made([answer])
            except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError) as error:
                whole, beside = original(batch, number)
                return made([(beside, [refused(whole, misfit(error, authors, whole))])])

        def run(incoming: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            for batch in incoming:
                every = [answers(batch, number, record) for number, record in enumerate(batch.to_pylist())]
                try:
                    whole = [made(every)]
                except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
                    # Some answer does not fit the columns it should; one by one it shows which.
                    whole = [fitting(batch, number, answer) for number, answer in enumerate(every)]
                yield from whole

        return run


def _call_of(step: str, record: dict[str, Any]) -> str:
    # To which task of a bolt a record goes is not part of it, and may be another when it is read again.
    return call_of(step, 0, digest_of(as_json({name: v for name, v in record.items() if name != TASK})))


def _silent(code: str, message: str, *option: str | int, **_: object) -> None:
    """Says nothing: the same was said when the flow was checked."""


def _fits(column: DataType, wanted: DataType) -> bool:
    """Whether values of a column are what a parameter of that type expects."""
    if column in (UNKNOWN, wanted):
        return True
    if isinstance(column, Array) and isinstance(wanted, Array):
        return _fits(column.item, wanted.item)
    if isinstance(column, Decimal) and isinstance(wanted, Decimal):
        return True
    return (is_integer(column) and wanted in (BIGINT, DOUBLE)) or (column == FLOAT and wanted == DOUBLE)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function, evaluated; those that cannot be are as good as none."""
    found: dict[str, Any] = {}
    for name, said in getattr(function, "__annotations__", {}).items():
        one = type("One", (), {"__annotations__": {name: said}})
        # A name that only a type checker knows raises whatever it likes.
        with suppress(Exception):
            found |= typing.get_type_hints(one, getattr(function, "__globals__", None))
    return found


def annotated_type(annotation: object) -> DataType | None:
    """The column type a Python annotation stands for; None if it stands for none.

    >>> str(annotated_type(list[int])), str(annotated_type(float | None))
    ('array<bigint>', 'double')
    """
    if annotation in _TYPES:
        return _TYPES[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [a for a in arguments if a is not type(None)]
        return annotated_type(rest[0]) if len(rest) == 1 else None
    if origin in (list, tuple) and arguments:
        item = annotated_type(arguments[0])
        return None if item is None else Array(item)
    return None


def _strict(function: Callable[..., Any]) -> frozenset[int]:
    """Positions of parameters that are never given a null: those annotated without None."""
    hints = hints_of(function)
    names = list(inspect.signature(function).parameters)
    return frozenset(
        i for i, name in enumerate(names) if name in hints and type(None) not in typing.get_args(hints[name])
    )


def boundary(
    function: Callable[..., Any], step: str, names: list[str] | None, strict: frozenset[int]
) -> Callable[..., Any]:
    """The function in a wrapper that skips nulls where it must and says which step, line and record failed."""

    def call(*arguments: Any) -> Any:
        if any(arguments[i] is None for i in strict):
            return None
        try:
            return function(*arguments)
        except Exception as error:
            record = arguments[0] if names is None else dict(zip(names, arguments, strict=True))
            raise failed(error, step, function, record) from error

    return call


def failed(error: Exception, step: str, function: Callable[..., Any], record: object) -> UserFunctionError:
    """The error to raise for one that a function of the author's raised: it tells step, file, line and record."""
    whole = as_json(record)
    made = UserFunctionError(MARKER + _failure(error, step, reference_of(function), whole))
    made.record = whole
    return made


def as_json(record: object) -> str:
    """A record as JSON, with bytes in base64."""
    return json.dumps(record, default=_jsonable)


def _jsonable(value: object) -> object:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def misfit(error: Exception, function: Callable[..., Any], record: object) -> dict[str, str]:
    """What a dead letter tells about an answer that is not what the function said it would give."""
    code = getattr(function, "__code__", None)
    return {
        "reason": f"what it gave does not fit its columns: {type(error).__name__}: {error}"[:500],
        "function": reference_of(function),
        "place": f"{code.co_filename}:{code.co_firstlineno}" if code else "",
        "record": as_json(record),
    }


def failure_of(error: UserFunctionError) -> dict[str, str]:
    """What a dead letter tells about a failed call."""
    said = json.loads(str(error.args[0]).removeprefix(MARKER))
    place = f"{said['file']}:{said['line']}" if said["line"] else str(said["file"])
    return {"reason": said["error"], "function": said["function"], "place": place, "record": error.record}


def _failure(error: Exception, step: str, reference: str, shown: str) -> str:
    """One line of JSON that tells which call failed, where in the author's file, and on what."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    ours = str(Path(__file__).parents[1])
    authors = [f for f in frames if "site-packages" not in f.filename and not f.filename.startswith(ours)]
    where = authors[-1] if authors else frames[-1] if frames else None
    return json.dumps(
        {
            "step": step,
            "function": reference,
            "file": where.filename if where else "",
            "line": where.lineno if where else 0,
            "error": f"{type(error).__name__}: {error}"[:500],
            "record": shown if len(shown) <= 2000 else shown[:2000] + "…",
        }
    )
