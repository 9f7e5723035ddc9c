"""What the SQL sinks share: options, column types, and the statements that write a row once.

Names go into statements only through `quoted`; values only as parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field as Option
from pydantic import model_validator

from headrace.connectors.arrow import arrow_type, fit
from headrace.connectors.base import Place, TransactionalSink
from headrace.connectors.before import noted_before
from headrace.formats.json import EXACT_TIMES
from headrace.model import Schema
from headrace.model.types import BOOLEAN, STRING, Array, Map, Struct
from headrace.options import Names, Options, refuse

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

O = TypeVar("O", bound="TableOptions")  # noqa: E741

LEDGER = "_headrace_batches"
"""The table with the last batch of each writer; it is written in the transaction that writes the rows."""
NESTED = ("array", "map", "struct", "variant")


class TableOptions(Options):
    """Which table to write, and how."""

    table: str = Option(min_length=1, description="Table to write to.", examples=["totals"])
    key: Names = Option(
        (),
        description="Columns that identify a row: a row with the same values is replaced. Unset: rows are added.",
        examples=["user", ["user", "day"]],
    )
    latest_by: str | None = Option(
        None,
        description="Column that says which of two rows with one key is newer; unset: the one that came later.",
        examples=["at"],
    )
    create: bool = Option(True, description="Create the table, from the columns, if it is not there.")

    @model_validator(mode="after")
    def _latest_needs_key(self) -> TableOptions:
        if self.latest_by is not None and not self.key:
            raise refuse("missing-option", '"latest_by" chooses between rows with one key, but there is no "key"')
        return self


class TableSink(TransactionalSink[O]):
    """A sink that writes rows to a table of a database."""

    in_real_time = True

    def takes_updates(self) -> bool:
        return bool(self.options.key)

    def key(self) -> tuple[str, ...]:
        return self.options.key

    @property
    def newest_by(self) -> str | None:  # type: ignore[override]
        return self.options.latest_by

    def held_before(self, place: Place) -> int:
        return int(noted_before(place) or 0)

    def requires(self, given: Schema) -> tuple[str, ...]:
        return () if self.options.latest_by is None else (self.options.latest_by,)


def quoted(*names: str) -> str:
    """A name, or a qualified one, as SQL has it, whatever is in it.

    >>> quoted("public", 'a "b" c')
    '"public"."a ""b"" c"'
    """
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def column_types(frame: DataFrame, types: Mapping[str, str]) -> dict[str, str]:
    """The SQL type of each column; `types` is by Spark's name of a type."""
    return {f.name: _sql_type(f.dataType, types) for f in frame.schema.fields}


def _sql_type(kind: DataType, types: Mapping[str, str]) -> str:
    name = kind.typeName()
    pattern = types.get("nested" if name in NESTED else name, types["string"])
    return pattern.format(precision=getattr(kind, "precision", 0), scale=getattr(kind, "scale", 0))


def in_case_of(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The wanted columns spelled as the frame spells them."""
    spelled = {name.lower(): name for name in names}
    return [spelled[name.lower()] for name in wanted]


def create_statement(table: str, types: Mapping[str, str], constraint: str) -> str:
    """`CREATE TABLE` for the columns, if it is not there."""
    columns = [f"{quoted(name)} {kind}" for name, kind in types.items()]
    return f"CREATE TABLE IF NOT EXISTS {table} ({', '.join([*columns, *([constraint] if constraint else [])])})"


def conflict_clause(table: str, names: Sequence[str], key: Sequence[str], latest_by: str | None) -> str:
    """What to do with a row whose key is there: replace it, unless it is newer. SQLite and PostgreSQL alike."""
    if not key:
        return ""
    where = ", ".join(quoted(k) for k in key)
    others = [name for name in names if name not in key]
    if not others:
        return f"ON CONFLICT ({where}) DO NOTHING"
    update = ", ".join(f"{quoted(n)} = excluded.{quoted(n)}" for n in others)
    clause = f"ON CONFLICT ({where}) DO UPDATE SET {update}"
    if latest_by is not None:
        old, new = f"{table}.{quoted(latest_by)}", f"excluded.{quoted(latest_by)}"
        clause += f" WHERE {old} IS NULL OR {new} >= {old}"
    return clause


def held_frame(session: SparkSession, rows: Sequence[Sequence[Any]], schema: Schema) -> DataFrame:
    """Rows as a database gave them, as a frame with the columns they were written from."""
    import pyarrow as pa
    from pyspark.sql import functions as F

    from headrace.expressions.spark import spark_type

    nested = {f.name for f in schema if isinstance(f.type, Array | Map | Struct)}
    columns = []
    for number, field in enumerate(schema):
        kind = STRING if field.name in nested else field.type
        values = [fit(_plain(row[number], kind), kind) for row in rows]
        columns.append(pa.array(values, type=arrow_type(kind)))
    held = pa.Table.from_arrays(columns, names=[f"c{n}" for n in range(len(columns))])
    made = [
        (F.from_json(f"c{n}", spark_type(f.type).simpleString()) if f.name in nested else F.col(f"c{n}")).alias(f.name)
        for n, f in enumerate(schema)
    ]
    return session.createDataFrame(held).select(*made)


def _plain(value: Any, kind: Any) -> Any:
    if kind == BOOLEAN and isinstance(value, int):
        return bool(value)
    return bytes(value) if isinstance(value, memoryview) else value


def as_sql_values(frame: DataFrame, special: Mapping[str, Any]) -> DataFrame:
    """The frame with what no database column can take made into what one can: nested values as JSON text.

    `special` has a function of a column for some of Spark's type names, such as "binary".
    """
    from pyspark.sql import functions as F

    def value(name: str, kind: DataType) -> Column:
        column, type_name = F.col(f"`{name.replace('`', '``')}`"), kind.typeName()
        if type_name in special:
            made: Column = special[type_name](column)
            return made.alias(name)
        if type_name in NESTED:
            return F.to_json(column, EXACT_TIMES).alias(name)
        return column.cast("string").alias(name) if "interval" in type_name or type_name == "void" else column

    return frame.select(*(value(f.name, f.dataType) for f in frame.schema.fields))
