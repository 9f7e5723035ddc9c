"""SQLite: rows written to a table of a database file.

Delivery: exactly once. The rows and the batch's id are committed in one transaction; a batch whose id is there is
not written again. Only the driver writes, so this is for results, not for bulk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain, islice
from pathlib import Path
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
from headrace.errors import DataError, EndpointError
from headrace.model import REMOVED
from headrace.options import Duration, parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

_ROWS_PER_CALL = 5000
_READY = 50_000
"""Rows that are computed before the database is locked, for all who write to it: a batch rarely has more."""
_TYPES = {
    "boolean": "BOOLEAN",
    "byte": "INTEGER",
    "short": "INTEGER",
    "integer": "INTEGER",
    "long": "INTEGER",
    "float": "REAL",
    "double": "REAL",
    "decimal": "DECIMAL({precision},{scale})",
    "string": "TEXT",
    "binary": "BLOB",
    "date": "TEXT",
    "timestamp": "TEXT",
    "timestamp_ntz": "TEXT",
    "nested": "TEXT",
}
_EXACT_DIGITS = 15
"""SQLite keeps a DECIMAL as a double where that is exact; longer ones would be rounded, so they are text."""


class SqliteOptions(TableOptions):
    """Which table of which file to write."""

    path: str = Option(description="Database file; relative to the project.", examples=["out/totals.db"])
    patience: Duration = Option(
        parse_duration("30 seconds"), description="How long to wait while another program writes."
    )


@connector(
    "sqlite",
    options=SqliteOptions,
    example="""
store:
  from: totals
  sqlite: {path: out/totals.db, table: totals, key: user}
""",
)
class SqliteSink(TableSink[SqliteOptions]):
    """Rows added to a table, or replaced by key; the file is in WAL mode, so others can read meanwhile.

    When a key occurs twice in a batch the row with the greater `latest_by` holds, else the later one. Times are UTC
    text as SQLite's own functions read it; nested values are JSON text; decimals of more than 15 digits are text.
    """

    in_one_action = False  # rows are fetched part by part

    def write(self, frame: DataFrame, batch: Batch) -> Written:
        path = batch.place.base / self.options.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._trouble(path, batch.place), closing(self._connect(path)) as database:
            return self._write(database, frame, batch, writer(batch))

    def _connect(self, path: Path) -> sqlite3.Connection:
        database = sqlite3.connect(path, timeout=self.options.patience.total_seconds(), isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")  # with less, a commit may be gone when the power is
        return database

    @contextmanager
    def _trouble(self, path: Path, place: Place, what: str = "write to") -> Iterator[None]:
        """Says what went wrong, and whether another try may help."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "unable to open" in str(error) or "disk" in str(error):
                raise EndpointError(f'could not {what} "{path}" for sink "{place.step}"', detail=str(error)) from error
            raise self._mistaken(error, place, what) from error
        except sqlite3.DatabaseError as error:
            raise self._mistaken(error, place, what) from error

    def stream(self, frame: DataFrame, batch: Batch) -> DataStreamWriter:
        path, types, names = batch.place.base / self.options.path, column_types(frame, _TYPES), frame.columns
        path.parent.mkdir(parents=True, exist_ok=True)

        def take(rows: list[list[Any]]) -> None:
            with self._trouble(path, batch.place), closing(self._connect(path)) as database:
                database.execute("BEGIN IMMEDIATE")
                with database:
                    self._insert(database, names, types, (tuple(row) for row in rows))

        return row_port.writer(as_sql_values(frame, _special()), take)

    def begins(self, place: Place) -> None:
        note_before(place, lambda: len(self._rows_there(place, ("1",))))

    def newest(self, session: SparkSession, place: Place) -> int | None:
        path, name = place.base / self.options.path, known_writer(place)
        if name is None or not path.exists():
            return None
        with self._trouble(path, place, "read from"), closing(self._connect(path)) as database:
            if database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (LEDGER,)).fetchone() is None:
                return None
            return _last(database, name)

    def holds(self, holding: Holding) -> DataFrame | None:
        rows = self._rows_there(holding.place, [quoted(name) for name in holding.schema.names])
        return held_frame(holding.session, rows, holding.schema)

    def _rows_there(self, place: Place, what: Sequence[str]) -> list[tuple[Any, ...]]:
        path = place.base / self.options.path
        if not path.exists():
            return []
        with closing(sqlite3.connect(path, timeout=self.options.patience.total_seconds())) as database:
            known = database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (self.options.table,)).fetchone()
            if known is None:
                return []
            return database.execute(f"SELECT {', '.join(what)} FROM {quoted(self.options.table)}").fetchall()

    def _write(self, database: sqlite3.Connection, frame: DataFrame, batch: Batch, name: str) -> Written:
        database.execute(f"CREATE TABLE IF NOT EXISTS {LEDGER} (owner TEXT PRIMARY KEY, batch_id INTEGER NOT NULL)")
        rows = _values(frame)
        ready = list(islice(rows, _READY))
        rows = chain(ready, rows)
        database.execute("BEGIN IMMEDIATE")
        with database:
            last = _last(database, name)
            if last is not None and last >= batch.id:
                return Written(skipped=sum(1 for _ in rows))
            written = self._insert(database, frame.columns, column_types(frame, _TYPES), rows)
            database.execute(
                f"INSERT INTO {LEDGER} VALUES (?, ?) ON CONFLICT (owner) DO UPDATE SET batch_id = excluded.batch_id",
                (name, batch.id),
            )
            return Written(written=written)

    def _insert(
        self,
        database: sqlite3.Connection,
        names: Sequence[str],
        types: dict[str, str],
        rows: Iterator[tuple[Any, ...]],
    ) -> int:
        """Writes the rows, and gives how many there were."""
        given = self.options
        removed = names.index(REMOVED) if REMOVED in names else None
        if removed is not None:
            names = [name for name in names if name != REMOVED]
            types = {name: kind for name, kind in types.items() if name != REMOVED}
        key = in_case_of(names, given.key)
        table = quoted(given.table)
        if given.create:
            database.execute(create_statement(table, _storable(types), _unique(key)))
        latest = in_case_of(names, [given.latest_by])[0] if given.latest_by else None
        insert = (
            f"INSERT INTO {table} ({', '.join(map(quoted, names))}) VALUES ({', '.join('?' * len(names))}) "
            + conflict_clause(table, names, key, latest)
        )
        places = [names.index(k) for k in key]
        count = 0
        while some := list(islice(rows, _ROWS_PER_CALL)):
            count += len(some)
            if removed is not None:
                gone, some = _parted(some, removed)
                _remove(database, table, names, key, latest, gone)
            whole = [row for row in some if all(row[p] is not None for p in places)]
            database.executemany(insert, whole)
            if len(whole) != len(some):
                unknown = [row for row in some if any(row[p] is None for p in places)]
                _replace_unknown(database, table, names, key, latest, insert, unknown)
        return count

    def _mistaken(self, error: Exception, place: Place, what: str) -> DataError:
        hint = "its key must be a primary key or have a unique index" if "ON CONFLICT" in str(error) else ""
        return DataError(f'sink "{place.step}" cannot {what} table "{self.options.table}": {error}', hint=hint)


def _last(database: sqlite3.Connection, name: str) -> int | None:
    """The last batch of a writer."""
    found = database.execute(f"SELECT batch_id FROM {LEDGER} WHERE owner = ?", (name,)).fetchone()
    return None if found is None else int(found[0])


def _unique(key: Sequence[str]) -> str:
    return f"PRIMARY KEY ({', '.join(map(quoted, key))})" if key else ""


def _storable(types: dict[str, str]) -> dict[str, str]:
    return {name: kind if _fits_double(kind) else "TEXT" for name, kind in types.items()}


def _fits_double(kind: str) -> bool:
    return not kind.startswith("DECIMAL(") or int(kind[8:].split(",")[0]) <= _EXACT_DIGITS


def _special() -> dict[str, Any]:
    """How columns of some types are made into what SQLite takes."""
    from pyspark.sql import functions as F

    epoch = F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")

    def text(column: Any) -> Any:
        return column.cast("string")

    def utc(column: Any) -> Any:
        # Counted from the epoch: a cast to text would use the session's zone, where an hour may come twice.
        return F.timestamp_add("MICROSECOND", F.unix_micros(column), epoch).cast("string")

    return {"decimal": text, "date": text, "timestamp": utc, "timestamp_ntz": text}


def _values(frame: DataFrame) -> Iterator[tuple[Any, ...]]:
    """The rows, partition by partition, as SQLite takes them."""
    for row in as_sql_values(frame, _special()).toLocalIterator(prefetchPartitions=True):
        yield tuple(bytes(value) if isinstance(value, bytearray) else value for value in row)


def _parted(rows: list[tuple[Any, ...]], mark: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows that are taken back and the others, by the mark that each has, and without it."""
    plain = [(row[mark], row[:mark] + row[mark + 1 :]) for row in rows]
    return [row for gone, row in plain if gone], [row for gone, row in plain if not gone]


def _remove(
    database: sqlite3.Connection,
    table: str,
    names: Sequence[str],
    key: Sequence[str],
    latest: str | None,
    rows: Sequence[tuple[Any, ...]],
) -> None:
    """Takes rows back, unless another with the same key is newer."""
    matching = " AND ".join(f"{quoted(k)} IS ?" for k in key)
    newer = f" AND ({quoted(latest)} IS NULL OR ? >= {quoted(latest)})" if latest else ""
    places = [names.index(name) for name in (*key, *([latest] if latest else []))]
    database.executemany(f"DELETE FROM {table} WHERE {matching}{newer}", [[row[p] for p in places] for row in rows])


def _replace_unknown(
    database: sqlite3.Connection,
    table: str,
    names: Sequence[str],
    key: Sequence[str],
    latest: str | None,
    insert: str,
    rows: Sequence[tuple[Any, ...]],
) -> None:
    """Rows with a null in their key: a unique index takes nulls for different, so they are matched by hand."""
    others = [name for name in names if name not in key]
    matching = " AND ".join(f"{quoted(k)} IS ?" for k in key)
    newer = f" AND ({quoted(latest)} IS NULL OR ? >= {quoted(latest)})" if latest else ""
    for row in rows:
        by_name = dict(zip(names, row, strict=True))
        held = [by_name[k] for k in key]
        there = database.execute(f"SELECT 1 FROM {table} WHERE {matching} LIMIT 1", held).fetchone()
        if there is None:
            database.execute(insert, row)
        elif others:
            changes = ", ".join(f"{quoted(n)} = ?" for n in others)
            values = [*(by_name[n] for n in others), *held, *([by_name[latest]] if latest else [])]
            database.execute(f"UPDATE {table} SET {changes} WHERE {matching}{newer}", values)
