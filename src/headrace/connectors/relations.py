"""Tables and views of SQL databases, read whole, to be joined with a stream.

The driver asks one question and gets all rows, as of one moment; it is for what fits into a table beside a stream.
Names go into statements only through `quoted`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field as Option

from headrace.connectors.arrow import MisfitError
from headrace.connectors.base import Place, Reading, ReplayableSource, connector
from headrace.connectors.tables import held_frame, quoted
from headrace.errors import DataError, EndpointError
from headrace.model.types import Array, Map, Struct
from headrace.options import Options, Secret

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RelationOptions(Options):
    """What is read."""

    relation: str = Option(min_length=1, description="Table or view to read.", examples=["products"])


class SqliteRelationOptions(RelationOptions):
    """Which table or view of which file."""

    path: str = Option(description="Database file; relative to the project.", examples=["shop.db"])


class PostgresqlRelationOptions(RelationOptions):
    """Which table or view of which database."""

    url: Secret = Option(
        description="Address with credentials.", examples=["postgresql://user:${env:PGPASSWORD}@host:5432/db"]
    )
    namespace: str | None = Option(
        None, description="The database schema it is in; unset: the user's default.", examples=["sales"]
    )


O = TypeVar("O", bound=RelationOptions)  # noqa: E741


class RelationSource(ReplayableSource[O]):
    """All rows of a table or view, with the columns that the author stated."""

    only_table = True

    def read(self, reading: Reading) -> DataFrame:
        assert reading.schema is not None
        nested = {f.name for f in reading.schema if isinstance(f.type, Array | Map | Struct)}
        what = [self.selected(name, nested=name in nested) for name in reading.schema.names]
        step, relation = reading.place.step, self.options.relation
        try:
            rows = self.rows(", ".join(what), reading.place)
        except LookupError as error:
            raise DataError(f'source "{step}": {error}') from None
        try:
            return held_frame(reading.session, rows, reading.schema)
        except MisfitError as error:
            raise DataError(f'source "{step}": a value in "{relation}" does not fit: {error}') from None

    def selected(self, name: str, *, nested: bool) -> str:
        """A column in the question; a bare name that SQLite does not know would be a text to it."""
        return f"held.{quoted(name)}"

    @abstractmethod
    def rows(self, what: str, place: Place) -> Sequence[Sequence[Any]]:
        """All rows, with those columns."""

    def trouble(self, error: Exception, place: Place, *, again: bool) -> DataError | EndpointError:
        """What went wrong, and whether another try may help."""
        said = f'"{self.options.relation}" for source "{place.step}"'
        detail = (str(error).strip().splitlines() or [""])[0]
        if again:
            return EndpointError(f"could not read {said}", detail=detail)
        return DataError(f"cannot read {said}: {detail}")


@connector(
    "sqlite",
    options=SqliteRelationOptions,
    example="""
products:
  sqlite: {path: shop.db, relation: products}
  schema: id BIGINT, name STRING, weight DOUBLE
  table: {refresh: 1 minute}
""",
)
class SqliteSource(RelationSource[SqliteRelationOptions]):
    """All rows of a table or view of an SQLite file, as a table beside a stream; the file is only read.

    Dates and times are text as SQLite's own functions write it, without a zone UTC; nested values are JSON text.
    """

    def rows(self, what: str, place: Place) -> Sequence[Sequence[Any]]:
        import sqlite3
        from contextlib import closing

        path = (place.base / self.options.path).resolve()
        try:
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)) as database:
                return database.execute(f"SELECT {what} FROM {quoted(self.options.relation)} AS held").fetchall()
        except sqlite3.DatabaseError as error:
            outage = isinstance(error, sqlite3.OperationalError) and "no such" not in str(error)
            raise self.trouble(error, place, again=outage) from None


@connector(
    "postgresql",
    options=PostgresqlRelationOptions,
    example="""
customers:
  postgresql: {url: "${env:DATABASE_URL}", relation: customers}
  schema: id BIGINT, name STRING
  table: {refresh: 1 minute}
""",
)
class PostgresqlSource(RelationSource[PostgresqlRelationOptions]):
    """All rows of a table or view of a PostgreSQL database, as a table beside a stream."""

    def selected(self, name: str, *, nested: bool) -> str:
        return super().selected(name, nested=nested) + ("::text" if nested else "")

    def rows(self, what: str, place: Place) -> Sequence[Sequence[Any]]:
        import psycopg

        spaces = () if self.options.namespace is None else (self.options.namespace,)
        statement = f"SELECT {what} FROM {quoted(*spaces, self.options.relation)} AS held"
        try:
            with psycopg.connect(self.options.url.reveal()) as database:
                return database.execute(statement.encode()).fetchall()
        except psycopg.Error as error:
            outage = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
            raise self.trouble(error, place, again=outage) from None
