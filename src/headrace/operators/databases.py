"""Rows of database tables by key, asked for in groups and remembered for a while. Runs in Spark's workers.

Names go into statements only through `quoted`; values only as parameters. No address with credentials is in a message.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from headrace.errors import DataError, EndpointError

Key = tuple[Any, ...]
Row = tuple[Any, ...]
Ask = Callable[["Asked", Sequence[Key]], list[Row]]
"""Gives the rows for some keys: the key's columns, then those that are taken."""
_KEYS_PER_QUESTION = 2000
_POSTGRESQL = {"string": "text", "date": "date"}
"""Its types for keys that are not whole numbers."""


@dataclass(frozen=True, kw_only=True)
class Cache:
    """How many keys are remembered, and for how many seconds."""

    rows: int
    age: float


@dataclass(frozen=True, kw_only=True)
class Database(ABC):
    """A table that can be asked."""

    table: str

    @abstractmethod
    def opened(self) -> Any:
        """A context that gives an `Ask`; it connects when it is first asked."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a step looks up."""

    step: str
    database: Database
    keys: tuple[str, ...]
    key_types: tuple[str, ...]
    take: tuple[tuple[str, str], ...]
    cache: Cache

    def selection(self) -> str:
        """What is asked for. A bare name that SQLite does not know would be a text to it, so each says whose it is."""
        return ", ".join(f"held.{quoted(n)}" for n in (*self.keys, *(name for name, _ in self.take)))

    def compared(self) -> str:
        return f"({', '.join(f'held.{quoted(n)}' for n in self.keys)})"


@dataclass(frozen=True, kw_only=True)
class SqliteDatabase(Database):
    """A table of an SQLite file, which is only read."""

    path: str

    @contextmanager
    def opened(self) -> Iterator[Ask]:
        import sqlite3

        held: list[sqlite3.Connection] = []

        def ask(asked: Asked, keys: Sequence[Key]) -> list[Row]:
            try:
                if not held:
                    held.append(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=30))
                places = ", ".join(f"({', '.join('?' * len(asked.keys))})" for _ in keys)
                statement = (
                    f"SELECT {asked.selection()} FROM {quoted(self.table)} AS held "
                    f"WHERE {asked.compared()} IN (VALUES {places})"
                )
                values = [v.isoformat() if isinstance(v, date) else v for key in keys for v in key]
                return held[0].execute(statement, values).fetchall()
            except sqlite3.OperationalError as error:
                if "no such" in str(error):
                    raise DataError(f'step "{asked.step}" cannot look up in "{self.table}": {error}') from None
                raise EndpointError(f'could not read "{self.path}" for step "{asked.step}": {error}') from None
            except sqlite3.DatabaseError as error:
                raise DataError(f'step "{asked.step}" cannot look up in "{self.table}": {error}') from None

        try:
            yield ask
        finally:
            for connection in held:
                closing(connection).__exit__(None, None, None)


@dataclass(frozen=True, kw_only=True)
class PostgresqlDatabase(Database):
    """A table of a PostgreSQL database."""

    url: str = field(repr=False)
    namespace: str | None = None

    @contextmanager
    def opened(self) -> Iterator[Ask]:
        import psycopg

        held: list[psycopg.Connection] = []

        def ask(asked: Asked, keys: Sequence[Key]) -> list[Row]:
            try:
                if not held:
                    held.append(psycopg.connect(self.url, autocommit=True))
                table = quoted(self.table) if self.namespace is None else quoted(self.namespace, self.table)
                given = ", ".join(f"%s::{_POSTGRESQL.get(kind, 'bigint')}[]" for kind in asked.key_types)
                statement = (
                    f"SELECT {asked.selection()} FROM {table} AS held "
                    f"WHERE {asked.compared()} IN (SELECT * FROM unnest({given}))"
                )
                return held[0].execute(statement, [list(column) for column in zip(*keys, strict=True)]).fetchall()
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                raise EndpointError(f'could not ask PostgreSQL for step "{asked.step}": {str(error).strip()}') from None
            except psycopg.Error as error:
                raise DataError(f'step "{asked.step}" cannot look up in "{self.table}": {str(error).strip()}') from None

        try:
            yield ask
        finally:
            for connection in held:
                connection.close()


_remembered: dict[Any, OrderedDict[Key, tuple[float, Row | None]]] = {}
"""By what is asked; a worker process serves many tasks."""


def recalled(
    asked: Asked, keys: Sequence[Key], ask: Ask, clock: Callable[[], float] = time.monotonic
) -> list[Row | None]:
    """The row for each key, from memory or from the database; None where there is none, or the key has a null."""
    memory = _remembered.setdefault(asked, OrderedDict())
    now = clock()
    answers: dict[Key, Row | None] = {}
    unknown: dict[Key, None] = {}
    for key in keys:
        if key in answers or key in unknown or None in key:
            continue
        held = memory.get(key)
        if held is not None and now - held[0] < asked.cache.age:
            memory.move_to_end(key)
            answers[key] = held[1]
        else:
            unknown[key] = None
    wanted = list(unknown)
    for start in range(0, len(wanted), _KEYS_PER_QUESTION):
        some = wanted[start : start + _KEYS_PER_QUESTION]
        found = _by_key(asked, ask(asked, some))
        for key in some:
            answers[key] = found.get(key)
            memory[key] = now, found.get(key)
            memory.move_to_end(key)
    while len(memory) > asked.cache.rows:
        memory.popitem(last=False)
    return [answers.get(key) for key in keys]


def _by_key(asked: Asked, rows: Sequence[Row]) -> dict[Key, Row]:
    width = len(asked.keys)
    found: dict[Key, Row] = {}
    for row in rows:
        key = tuple(fitted(v, kind) for v, kind in zip(row[:width], asked.key_types, strict=True))
        if key in found:
            named = ", ".join(f"{k} = {v!r}" for k, v in zip(asked.keys, key, strict=True))
            raise DataError(f'step "{asked.step}": table "{asked.database.table}" has several rows with {named}')
        try:
            found[key] = tuple(fitted(v, kind) for v, (_, kind) in zip(row[width:], asked.take, strict=True))
        except (ValueError, ArithmeticError, TypeError) as error:
            raise DataError(f'step "{asked.step}": a value in "{asked.database.table}" does not fit: {error}') from None
    return found


def fitted(value: Any, kind: str) -> Any:
    """What a database gave as a value of the stated type.

    >>> fitted("3.50", "decimal(10,2)"), fitted(1, "boolean"), fitted("2026-01-01 00:00:00", "timestamp").isoformat()
    (Decimal('3.50'), True, '2026-01-01T00:00:00+00:00')
    """
    if value is None:
        return None
    if kind in ("tinyint", "smallint", "int", "bigint"):
        whole = int(value)
        if whole != value and str(whole) != str(value).strip():
            raise ValueError(f"{value!r} is not a whole number")
        return whole
    if kind in ("float", "double"):
        return float(value)
    if kind.startswith("decimal"):
        return Decimal(str(value))
    if kind == "boolean":
        return value in (True, 1, "t", "true", "1")
    if kind == "timestamp":
        at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    if kind == "date":
        return value if isinstance(value, date) else date.fromisoformat(str(value))
    if kind == "binary":
        return bytes(value)
    return value if isinstance(value, str) else str(value)


def quoted(*names: str) -> str:
    """A name, or a qualified one, as SQL has it, whatever is in it."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)
