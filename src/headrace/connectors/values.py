"""Values: rows written in the flow itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import Field as Option

from headrace.connectors.arrow import MisfitError, arrow_schema, arrow_type, fit_row
from headrace.connectors.base import Fault, Reading, ReplayableSource, connector
from headrace.connectors.indexed import ROW, Numbered, read_numbers
from headrace.errors import FlowError, Problem
from headrace.model import Schema
from headrace.options import Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class ValuesOptions(Options):
    """The rows."""

    shorthand = "rows"

    rows: tuple[dict[str, Any] | tuple[Any, ...], ...] = Option(
        description="Each row as a mapping by column name, or as a list in the order of the schema.",
        examples=[[{"user": "ann", "amount": 3}, ["bob", 4]]],
    )
    per_batch: int | None = Option(
        None, ge=1, description="Rows in one batch of a stream; unset: all in one.", examples=[2]
    )


@connector(
    "values",
    options=ValuesOptions,
    example="""
people:
  values:
    rows:
      - {user: ann, amount: 3.50}
      - {user: bob, amount: 4}
  schema: user STRING, amount DECIMAL(10,2)
""",
)
class ValuesSource(ReplayableSource[ValuesOptions]):
    """The rows in order, then it is finished. Columns that a row does not name are null.

    Values must fit their columns: nothing is rounded. Times are ISO 8601 text, without a zone in the session's
    (UTC); bytes are written as text.
    """

    fixed = True

    def faults(self, schema: Schema) -> Iterator[Fault]:
        for number, row in enumerate(self.options.rows):
            try:
                fit_row(row, schema)
            except MisfitError as error:
                yield Fault(code="type-mismatch", message=f"row {number + 1}: {error}", option=("rows", number))

    def read(self, reading: Reading) -> DataFrame:
        schema = reading.schema
        if schema is None:
            raise FlowError(
                Problem(
                    code="schema-required",
                    message=f'source "{reading.place.step}" (values) is not told its columns',
                    step=reading.place.step,
                    hint="add `schema: name TYPE, …`",
                )
            )
        from pyspark.sql import Column

        numbered = Numbered(total=len(self.options.rows), per_batch=self.options.per_batch)
        numbers = read_numbers(numbered, reading)
        table = reading.session.createDataFrame(self._arrow(schema, reading), schema.ddl())
        java: Any = reading.session._jvm
        row = java.headrace.Given.row(table._jdf, numbers[ROW]._jc)
        return numbers.select(Column(row).alias(ROW)).select(f"{ROW}.*")

    def _arrow(self, schema: Schema, reading: Reading) -> pa.Table:
        import pyarrow as pa

        zone = str(reading.session.conf.get("spark.sql.session.timeZone", "UTC"))
        problems, fitted = [], []
        for number, row in enumerate(self.options.rows):
            try:
                fitted.append(fit_row(row, schema, zone))
            except MisfitError as error:
                message = f'row {number + 1} of source "{reading.place.step}": {error}'
                problems.append(Problem(code="type-mismatch", message=message, step=reading.place.step))
        if problems:
            raise FlowError(*problems)
        # Column by column: `from_pylist` would leave out the type of a column that is always null.
        columns = [pa.array([row[f.name] for row in fitted], type=arrow_type(f.type)) for f in schema]
        return pa.Table.from_arrays(columns, schema=arrow_schema(schema))
