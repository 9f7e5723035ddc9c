"""lookup: columns from a row of a database table, found by key while the stream runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator, model_validator

from headrace.errors import DataError, nearest
from headrace.model import Schema
from headrace.model.types import UNKNOWN, Array, DataType, Map, Struct, TypeSyntaxError
from headrace.operators.base import Balance, Lowering, Operator, Say, operator
from headrace.operators.databases import Asked, Cache, Database, PostgresqlDatabase, SqliteDatabase, recalled
from headrace.operators.sides import Pairs
from headrace.options import Duration, Options, PostgresqlUrl, parse_duration, refuse, show_duration

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_KEYS = ("tinyint", "smallint", "int", "bigint", "string", "date")


class SqliteTable(Options):
    """Which table of which file."""

    path: str = Field(min_length=1, description="Database file; relative to the project.", examples=["shop.db"])
    table: str = Field(min_length=1, description="Table to look in.")


class PostgresqlTable(Options):
    """Which table of which database."""

    url: PostgresqlUrl = Field(
        description="Address with credentials.", examples=["postgresql://user:${env:PGPASSWORD}@host:5432/db"]
    )
    table: str = Field(min_length=1, description="Table to look in.")
    namespace: str | None = Field(None, description="The database schema the table is in; unset: the user's default.")


class CacheOptions(Options):
    """What each worker remembers of the database."""

    rows: int = Field(
        10_000, ge=1, description="Most keys that a worker remembers; the ones used longest ago go first."
    )
    age: Duration = Field(
        parse_duration("1 minute"), description="Ask again for a key after this; an answer is never older."
    )


@operator(
    "lookup",
    example="""
with_product:
  from: orders
  lookup:
    sqlite: {path: shop.db, table: products}
    on: {product_id: id}
    take: name STRING, weight DOUBLE
    cache: {rows: 10000, age: 1 minute}
""",
)
class Lookup(Operator):
    """Add columns of the row of a database table whose key equals columns of the record.

    The database is asked once for all unknown keys of an Arrow batch; each worker remembers answers, also that there
    was none, up to `cache`. A record thus meets the row as it stood at most `age` before; one that is processed again
    after a crash meets the row as it stands then. The key must identify a row: two rows with one key end the run.
    A null key has no row. If the database cannot be reached the run ends and is tried again.
    """

    sqlite: SqliteTable | None = Field(None, description="A table of an SQLite file.")
    postgresql: PostgresqlTable | None = Field(None, description="A table of a PostgreSQL database.")
    on: Pairs = Field(description="The record's columns and the table's they must equal: `{product_id: id}`.")
    take: str = Field(description="The table's columns to add, `name TYPE, …`.", examples=["name STRING, price DOUBLE"])
    prefix: str = Field("", description="Put before the names of the added columns.", examples=["product_"])
    kind: Literal["inner", "left"] = Field(
        "left", description="Whether a record without a row is kept, with nulls (left), or dropped (inner)."
    )
    cache: CacheOptions = Field(CacheOptions(), description="How much is remembered, `{rows: …, age: …}`.")

    @field_validator("take")
    @classmethod
    def _columns(cls, text: str) -> str:
        try:
            fields = Schema.parse(text).fields
        except TypeSyntaxError as error:
            raise refuse("bad-schema", str(error), "write `name TYPE, name TYPE`", error.at) from None
        for field in fields:
            if isinstance(field.type, Array | Map | Struct):
                raise refuse("unsupported", f'column "{field.name}" cannot be {field.type}', "take simple types")
        return text

    @model_validator(mode="after")
    def _one_database(self) -> Lookup:
        if (self.sqlite is None) == (self.postgresql is None):
            raise refuse("bad-option", "lookup takes either sqlite or postgresql", "sqlite: {path: …, table: …}")
        if self.cache.age < timedelta(0):
            raise refuse("bad-option", "age cannot be negative")
        return self

    @property
    def taken(self) -> Schema:
        return Schema.parse(self.take)

    def looks_outside(self) -> bool:
        return True

    def output(self, given: Schema, say: Say) -> Schema:
        for first, _ in self.on:
            field = given.find(first)
            if field is None:
                hint = nearest(first, given.names).replace("It takes", "The input has")
                say("unknown-column", f'there is no column "{first}"', "on", first, hint=hint)
            elif str(field.type) not in _KEYS and field.type != UNKNOWN:
                say(
                    "type-mismatch",
                    f'"{first}" is {field.type}, which cannot be looked up',
                    "on",
                    first,
                    hint="a key is a whole number, a text or a date; cast it before",
                )
        columns: list[tuple[str, DataType]] = [(f.name, f.type) for f in given]
        for field in self.taken:
            if self.prefix + field.name in given:
                say(
                    "duplicate-name",
                    f'the input has a column "{self.prefix + field.name}" already',
                    "take",
                    hint="give `prefix:` a word to put before the added names",
                )
            columns.append((self.prefix + field.name, field.type))
        return Schema.of(columns, given.event_time)

    def remakes_columns(self) -> bool:
        return True

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        return (frozenset(f.name for f in given[0] if f.name in wanted) | {first for first, _ in self.on},)

    def how(self, given: tuple[Schema, ...]) -> str:
        cached = f"{self.cache.rows} keys for {show_duration(self.cache.age)}"
        return f"Python in Arrow batches: one question to the database for each; a worker remembers {cached}"

    def decides_by(self) -> frozenset[str]:
        return frozenset(first for first, _ in self.on) if self.kind == "inner" else frozenset()

    def balance(self) -> Balance:
        return "each" if self.kind == "left" else "others"

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        from pyspark.sql.types import StructType

        from headrace.expressions.spark import spark_schema

        given, frame = low.given[0], frames[0]
        added = Schema.of((self.prefix + f.name, f.type) for f in self.taken)
        asked = Asked(
            step=low.step,
            database=self._database(low),
            keys=tuple(second for _, second in self.on),
            key_types=tuple(str(given[first]) for first, _ in self.on),
            take=tuple((f.name, str(f.type)) for f in self.taken),
            cache=Cache(rows=self.cache.rows, age=self.cache.age.total_seconds()),
        )
        spelled = [f.name for first, _ in self.on if (f := given.find(first)) is not None]
        frame = frame.select(*(f"`{name}`" for name in (*given.names, *low.carried)))
        kept = [*spark_schema(given), *(frame.schema[name] for name in low.carried)]
        inner, schema = self.kind == "inner", StructType([*kept, *spark_schema(added)])

        def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa
            from pyspark.sql.pandas.types import to_arrow_schema

            wanted = to_arrow_schema(schema, timezone="UTC")
            with asked.database.opened() as connection:
                for batch in batches:
                    keys = list(zip(*(batch.column(name).to_pylist() for name in spelled), strict=True))
                    rows = recalled(asked, keys, connection)
                    found = [
                        pa.array(
                            [None if row is None else row[i] for row in rows],
                            type=wanted.field(batch.num_columns + i).type,
                        )
                        for i in range(len(asked.take))
                    ]
                    columns = [c.cast(wanted.field(i).type) for i, c in enumerate(batch.columns)]
                    answer = pa.RecordBatch.from_arrays([*columns, *found], schema=wanted)
                    yield answer.filter(pa.array([row is not None for row in rows])) if inner else answer

        return {"out": frame.mapInArrow(look, schema)}

    def _database(self, low: Lowering) -> Database:
        if self.sqlite is not None:
            return SqliteDatabase(path=str(low.base / self.sqlite.path), table=self.sqlite.table)
        assert self.postgresql is not None
        try:
            url = self.postgresql.url.reveal()
        except LookupError as error:
            raise DataError(f'step "{low.step}": {error}') from None
        given = self.postgresql
        return PostgresqlDatabase(url=url, table=given.table, namespace=given.namespace)
