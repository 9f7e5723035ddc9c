"""PostgreSQL: rows written to a table.

Delivery: exactly once. Executors copy their rows into a staging table of the batch; then one transaction moves them
to the table, notes the batch's id and drops the staging table. A batch whose id is there is not written again.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydantic import Field as Option

from headrace.connectors import row_port
from headrace.connectors.base import Batch, Holding, Place, Written, connector
from headrace.connectors.before import note_before
from headrace.connectors.identity import known_writer, writer
from headrace.connectors.tables import (
    LEDGER,
    TableOptions,
    TableSink,
    as_sql_values,
    column_types,
    conflict_clause,
    create_statement,
    held_frame,
    in_case_of,
    quoted,
)
from headrace.errors import DataError, EndpointError, HeadraceError
from headrace.model import REMOVED
from headrace.model.types import Array, Map, Struct
from headrace.options import PostgresqlUrl

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

_TYPES = {
    "boolean": "BOOLEAN",
    "byte": "SMALLINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "REAL",
    "double": "DOUBLE PRECISION",
    "decimal": "NUMERIC({precision},{scale})",
    "string": "TEXT",
    "binary": "BYTEA",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
    "nested": "JSONB",
}
_TASK, _PART, _ROW = "_headrace_task", "_headrace_part", "_headrace_row"
_UNIQUE_NULLS = 150000
"""The first version whose unique constraints can take two nulls for equal."""


class PostgresqlOptions(TableOptions):
    """Which table of which database to write."""

    url: PostgresqlUrl = Option(
        description="Address with credentials.", examples=["postgresql://user:${env:PGPASSWORD}@host:5432/db"]
    )
    namespace: str | None = Option(
        None, description="The database schema the table is in; unset: the user's default.", examples=["sales"]
    )


@connector(
    "postgresql",
    options=PostgresqlOptions,
    example="""
store:
  from: totals
  postgresql: {url: "${env:DATABASE_URL}", table: totals, key: user}
""",
)
class PostgresqlSink(TableSink[PostgresqlOptions]):
    """Rows added to a table, or replaced by key.

    When a key occurs twice in a batch the row with the greater `latest_by` holds, else the later one. Nested values
    are JSONB. With `key`, a table that is already there needs a unique index on those columns.
    """

    def write(self, frame: DataFrame, batch: Batch) -> Written:
        import psycopg

        with _trouble(batch.place, self.options.table):
            url, name = self._url(batch.place), writer(batch)
            with psycopg.connect(url, autocommit=True) as database:
                return self._write(database, url, frame, batch, name)

    def _url(self, place: Place) -> str:
        try:
            return self.options.url.reveal()
        except LookupError as error:
            raise DataError(f'sink "{place.step}": {error}') from None

    def stream(self, frame: DataFrame, batch: Batch) -> DataStreamWriter:
        import psycopg
        from pyspark.sql import functions as F

        table, names, types = self._table(self.options.table), frame.columns, column_types(frame, _TYPES)
        key = in_case_of(names, self.options.key)
        latest = in_case_of(names, [self.options.latest_by])[0] if self.options.latest_by else None
        columns, values = ", ".join(map(quoted, names)), ", ".join(["%s"] * len(names))
        clause = conflict_clause("held", names, key, latest)
        statement = f"INSERT INTO {table} AS held ({columns}) VALUES ({values}) {clause}"
        url = self._url(batch.place)
        with _trouble(batch.place, self.options.table), psycopg.connect(url, autocommit=True) as first:
            if self.options.create:
                self._execute(first, create_statement(table, types, _unique(first, key)))
        opened: list[psycopg.Connection] = []

        def take(rows: list[list[Any]]) -> None:
            with _trouble(batch.place, self.options.table):
                if not opened or opened[0].closed:
                    opened[:] = [psycopg.connect(url)]
                with opened[0].transaction(), opened[0].cursor() as cursor:
                    cursor.executemany(statement, rows)

        # As text, like in a copy: the database knows the types of its columns.
        texts = as_sql_values(frame, _special())
        texts = texts.select(*(F.col(f"`{n.replace('`', '``')}`").cast("string").alias(n) for n in texts.columns))
        return row_port.writer(texts, take)

    def begins(self, place: Place) -> None:
        note_before(place, lambda: self._rows_there(place, ["count(*)"], none=[(0,)])[0][0])

    def newest(self, session: SparkSession, place: Place) -> int | None:
        import psycopg

        name, ledger = known_writer(place), self._table(LEDGER)
        if name is None:
            return None
        with _trouble(place, self.options.table, "read"), psycopg.connect(self._url(place)) as database:
            if database.execute("SELECT to_regclass(%s)", (ledger,)).fetchone() == (None,):
                return None
            last = self._last(database, ledger, name)
            return None if last < 0 else last

    def holds(self, holding: Holding) -> DataFrame | None:
        nested = {f.name for f in holding.schema if isinstance(f.type, Array | Map | Struct)}
        what = [f"{quoted(name)}::text" if name in nested else quoted(name) for name in holding.schema.names]
        return held_frame(holding.session, self._rows_there(holding.place, what, none=[]), holding.schema)

    def _rows_there(self, place: Place, what: Sequence[str], *, none: list[Any]) -> list[tuple[Any, ...]]:
        import psycopg

        table = self._table(self.options.table)
        try:
            with psycopg.connect(self.options.url.reveal()) as database:
                if database.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
                    return none
                # Names are quoted, and nothing else of the author's is in it.
                return database.execute(f"SELECT {', '.join(what)} FROM {table}").fetchall()
        except psycopg.OperationalError as error:
            raise EndpointError(
                f'could not read table {table} of sink "{place.step}"', detail=_first_line(error)
            ) from None

    def _write(self, database: psycopg.Connection, url: str, frame: DataFrame, batch: Batch, name: str) -> Written:
        ledger = self._table(LEDGER)
        self._execute(
            database, f"CREATE TABLE IF NOT EXISTS {ledger} (owner TEXT PRIMARY KEY, batch_id BIGINT NOT NULL)"
        )
        if self._last(database, ledger, name) >= batch.id:
            return Written(skipped=frame.count())
        table, names = self._table(self.options.table), frame.columns
        key = in_case_of(names, self.options.key)
        removes = REMOVED in names
        names = [n for n in names if n != REMOVED]
        if self.options.create:
            types = column_types(frame.drop(REMOVED), _TYPES)
            self._execute(database, create_statement(table, types, _unique(database, key)))
        staging = self._stage(database, table, names, name)
        copied = _copy(as_sql_values(frame, _special()), url, staging, frame.columns)
        tasks = list(copied)
        with database.transaction():
            database.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,))
            staged = f"SELECT count(*) FROM {staging} WHERE {_TASK} = ANY(%s)"
            rows = int((database.execute(staged, (tasks,)).fetchone() or (0,))[0])
            if rows < sum(copied.values()):  # it is unlogged: a crash of the server empties it
                raise EndpointError(
                    f'table "{self.options.table}" of sink "{batch.place.step}" was not written',
                    detail=f"{rows} of {sum(copied.values())} staged rows are left: has the server crashed?",
                )
            fresh = self._last(database, ledger, name) < batch.id
            if fresh:
                if removes:
                    database.execute(self._remove(table, staging, names, key), (tasks,))
                database.execute(self._merge(table, staging, names, key), (tasks,))
                database.execute(
                    f"INSERT INTO {ledger} VALUES (%s, %s) "
                    "ON CONFLICT (owner) DO UPDATE SET batch_id = excluded.batch_id",
                    (name, batch.id),
                )
            self._execute(database, f"DROP TABLE {staging}")
        return Written(written=rows) if fresh else Written(skipped=rows)

    def _latest(self, names: Sequence[str]) -> str | None:
        return in_case_of(names, [self.options.latest_by])[0] if self.options.latest_by else None

    def _remove(self, table: str, staging: str, names: Sequence[str], key: Sequence[str]) -> str:
        """Takes rows back, unless another with the same key is newer."""
        latest = self._latest(names)
        where = [f"{_TASK} = ANY(%s)", REMOVED]
        where += [f"held.{quoted(k)} IS NOT DISTINCT FROM gone.{quoted(k)}" for k in key]
        if latest:
            where.append(f"(held.{quoted(latest)} IS NULL OR gone.{quoted(latest)} >= held.{quoted(latest)})")
        return f"DELETE FROM {table} AS held USING {staging} AS gone WHERE {' AND '.join(where)}"

    def _merge(self, table: str, staging: str, names: Sequence[str], key: Sequence[str]) -> str:
        """Moves the rows of the tasks that count; of several with one key, the last."""
        columns = ", ".join(map(quoted, names))
        latest = self._latest(names)
        these = f"{staging} WHERE {_TASK} = ANY(%s) AND {REMOVED} IS NOT TRUE"
        chosen = f"SELECT {columns} FROM {these} ORDER BY {_PART}, {_ROW}"
        if key:
            keys = ", ".join(map(quoted, key))
            newest = f"{quoted(latest)} DESC NULLS LAST, " if latest else ""
            chosen = (
                f"SELECT DISTINCT ON ({keys}) {columns} FROM {these} ORDER BY {keys}, {newest}{_PART} DESC, {_ROW} DESC"
            )
        # An alias, since the name of a table in another schema cannot stand before a column there.
        clause = conflict_clause("held", names, key, latest)
        return f"INSERT INTO {table} AS held ({columns}) {chosen} {clause}"

    def _stage(self, database: psycopg.Connection, table: str, names: Sequence[str], name: str) -> str:
        """A fresh staging table with the types of the target; those a killed batch left are dropped.

        Its name is new each time, so executors of a killed run, if any are left, cannot write into it.
        """
        mark = f"_headrace_{hashlib.sha256(name.encode()).hexdigest()[:12]}_"
        left = database.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE starts_with(tablename, %s)", (mark,)
        ).fetchall()
        for schema, old in left:
            self._execute(database, f"DROP TABLE IF EXISTS {quoted(schema, old)}")
        staging = self._table(mark + uuid.uuid4().hex[:12])
        columns = ", ".join(map(quoted, names))
        self._execute(
            database,
            f"CREATE UNLOGGED TABLE {staging} AS "
            f"SELECT ''::text AS {_TASK}, 0 AS {_PART}, 0::bigint AS {_ROW}, false AS {REMOVED}, {columns} "
            f"FROM {table} WITH NO DATA",
        )
        return staging

    def _table(self, name: str) -> str:
        return quoted(name) if self.options.namespace is None else quoted(self.options.namespace, name)

    @staticmethod
    def _execute(database: psycopg.Connection, statement: str) -> None:
        database.execute(statement)

    @staticmethod
    def _last(database: psycopg.Connection, ledger: str, name: str) -> int:
        found = database.execute(f"SELECT batch_id FROM {ledger} WHERE owner = %s", (name,)).fetchone()
        return -1 if found is None else int(found[0])


def _special() -> dict[str, Any]:
    from pyspark.sql import functions as F

    return {"binary": lambda column: F.concat(F.lit("\\x"), F.hex(column))}


def _unique(database: psycopg.Connection, key: Sequence[str]) -> str:
    if not key:
        return ""
    nulls = " NULLS NOT DISTINCT" if database.info.server_version >= _UNIQUE_NULLS else ""
    return f"UNIQUE{nulls} ({', '.join(map(quoted, key))})"


def _copy(frame: DataFrame, url: str, staging: str, names: Sequence[str]) -> dict[str, int]:
    """Each task copies its rows; the answer names the tasks that count, and how many rows each has copied.

    A task that is run twice (it failed, or was slow) leaves two copies; Spark hands over the result of one.
    """
    attempt = uuid.uuid4().hex[:8]
    columns = ", ".join([_TASK, _PART, _ROW, *map(quoted, names)])
    statement = f"COPY {staging} ({columns}) FROM STDIN (FORMAT csv)"

    def copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import psycopg
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task, part, row = f"{attempt}-{context.taskAttemptId()}", context.partitionId(), 0
        first = next((b for b in batches if b.num_rows), None)
        if first is None:
            return
        with psycopg.connect(url) as database, database.cursor() as cursor, cursor.copy(statement) as out:
            out.write(_csv(first, task, part, row))
            row += first.num_rows
            for batch in batches:
                out.write(_csv(batch, task, part, row))
                row += batch.num_rows
        yield pa.RecordBatch.from_pydict({"task": [task], "rows": [row]})

    return {row.task: row["rows"] for row in frame.mapInArrow(copy, "task string, rows bigint").collect()}


def _csv(batch: pa.RecordBatch, task: str, part: int, row: int) -> memoryview:
    """The rows as PostgreSQL's CSV: a value is quoted, a null is not, so an empty text is not a null."""
    import pyarrow as pa
    from pyarrow import csv

    count = batch.num_rows
    marks = [
        pa.array([task] * count),
        pa.array([part] * count, pa.int32()),
        pa.array(range(row, row + count), pa.int64()),
    ]
    named = [_TASK, _PART, _ROW, *(f"c{n}" for n in range(batch.num_columns))]
    sink = pa.BufferOutputStream()
    csv.write_csv(
        pa.Table.from_arrays([*marks, *batch.columns], names=named),
        sink,
        csv.WriteOptions(include_header=False, quoting_style="all_valid"),
    )
    return memoryview(sink.getvalue())


@contextmanager
def _trouble(place: Place, table: str, what: str = "write") -> Iterator[None]:
    """Says what went wrong, and whether another try may help."""
    import psycopg
    from pyspark.errors import PySparkException

    where = f'sink "{place.step}" (postgresql, table "{table}")'
    try:
        yield
    except HeadraceError:
        raise
    except psycopg.errors.InvalidColumnReference as error:
        hint = "a table that is already there needs a unique index on the columns of `key`"
        raise DataError(f"{where} cannot replace rows by key", detail=_first_line(error), hint=hint) from None
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise EndpointError(f"could not {what} for {where}", detail=_first_line(error)) from None
    except psycopg.Error as error:
        refused = "refused the rows" if what == "write" else f"cannot be {what}"
        raise DataError(f"{where} {refused}", detail=_first_line(error)) from None
    except PySparkException as error:
        if "psycopg.OperationalError" in str(error):
            raise EndpointError(f"could not {what} for {where}", detail=_psycopg_line(str(error))) from error
        if "psycopg." in str(error):
            raise DataError(f"{where} refused the rows", detail=_psycopg_line(str(error))) from error
        raise


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def _psycopg_line(trace: str) -> str:
    return next((line.strip() for line in reversed(trace.split("\n")) if line.strip().startswith("psycopg.")), "")
