"""map_batches: Arrow batches or pandas frames in, the same out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from headrace.author.callables import travel_by_value
from headrace.model import Schema
from headrace.operators.base import Lowering, Operator, Say, operator
from headrace.operators.functions import failed
from headrace.operators.records import FunctionOption, of_function

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@operator(
    "map_batches",
    example="""
whole:
  from: orders
  map_batches:
    python: "headrace.operators.batches:complete"
    returns: user STRING, id BIGINT
""",
)
class MapBatches(Operator):
    """Make new records of many at once, by a Python function of an Arrow batch or a pandas frame.

    The function takes a `pyarrow.RecordBatch`, or a `pandas.DataFrame` if its parameter is annotated so or
    `as: pandas` is said, and gives one or several of either kind with the columns stated in `returns`; other columns
    of them are left out.

    How records are cut into batches is not promised (up to 20,000 in one, never across two batches of the stream), so
    a record must not depend on what else is in its batch: a repeated batch would give another answer.
    """

    python: FunctionOption = Field(description="A function of a batch, `module:function`.")
    returns: str = Field(description="The columns it gives, `name TYPE, …`.")
    as_: Literal["arrow", "pandas"] | None = Field(
        None,
        alias="as",
        description="What the function is given; unset: what its parameter is annotated as, else arrow.",
    )

    @property
    def kind(self) -> str:
        """What the function is given."""
        return self.as_ or ("pandas" if _wants_pandas(self.python.callable) else "arrow")

    def output(self, given: Schema, say: Say) -> Schema:
        return of_function(self.returns, given, say)

    def stops(self) -> str:
        return f"{self.python}: it takes whole batches, so which record it raised on is not known"

    def remakes_columns(self) -> bool:
        return True

    def how(self, given: tuple[Schema, ...]) -> str:
        return f"Python on whole {'pandas frames' if self.kind == 'pandas' else 'Arrow batches'}"

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        from pyspark.sql.pandas.types import to_arrow_schema

        from headrace.expressions.spark import spark_schema

        travel_by_value(self.python.callable)
        columns = spark_schema(low.schema["out"])
        schema = to_arrow_schema(columns, timezone="UTC")
        # Without what travels beside the records: the function is given the columns that its author knows.
        frame = frames[0].select(*(f"`{name}`" for name in low.given[0].names))
        return {"out": frame.mapInArrow(_batches(self.python.callable, self.kind, schema, low.step), columns)}


def complete(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A function for `map_batches`, as an example: only the rows without a null.

    >>> import pyarrow as pa
    >>> complete(pa.RecordBatch.from_pydict({"a": [1, None], "b": ["x", "y"]})).to_pylist()
    [{'a': 1, 'b': 'x'}]
    """
    import pyarrow.compute as pc

    keep = None
    for column in batch.columns:
        keep = pc.is_valid(column) if keep is None else pc.and_(keep, pc.is_valid(column))
    return batch if keep is None else batch.filter(keep)


def _wants_pandas(function: Callable[..., Any]) -> bool:
    parameter = next(iter(inspect.signature(function).parameters.values()), None)
    annotation = parameter.annotation if parameter is not None else ""
    said = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return said.rpartition(".")[2] == "DataFrame"


def _batches(
    function: Callable[..., Any], kind: str, schema: pa.Schema, step: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(incoming: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in incoming:
            if not batch.num_rows:
                continue
            try:
                answer = function(batch.to_pandas() if kind == "pandas" else batch)
                made = list(fitted(answer, schema))
            except Exception as error:
                first = batch.slice(0, 1).to_pylist()[0]
                raise failed(error, step, function, {"records": batch.num_rows, "first": first}) from error
            yield from made

    return run


def fitted(answer: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """What a function gave, as batches of the stated columns; raises what tells the author why it does not fit."""
    import pandas as pd
    import pyarrow as pa

    if answer is None:
        return
    if isinstance(answer, pd.DataFrame):
        answer = pa.Table.from_pandas(answer, preserve_index=False)
    if isinstance(answer, pa.RecordBatch):
        answer = pa.Table.from_batches([answer])
    if isinstance(answer, pa.Table):
        missing = [name for name in schema.names if name not in answer.schema.names]
        if missing:
            raise KeyError(f"it gave the columns {', '.join(answer.schema.names)}, but not {missing[0]!r}")
        yield from answer.select(schema.names).cast(schema).combine_chunks().to_batches()
        return
    if isinstance(answer, str | bytes | dict) or not isinstance(answer, Iterable):
        raise TypeError(
            f"it gave {type(answer).__name__}; it must give a RecordBatch, a Table, a DataFrame, or several"
        )
    for one in answer:
        yield from fitted(one, schema)
