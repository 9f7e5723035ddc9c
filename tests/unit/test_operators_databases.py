"""Rows looked up in a real SQLite file: asked once, remembered within bounds, fitted to their types."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import DataError, EndpointError
from headrace.operators import databases
from headrace.operators.databases import Ask, Asked, Cache, Key, PostgresqlDatabase, SqliteDatabase, recalled


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE products (id INTEGER, name TEXT, price TEXT, at TEXT)")
        rows = [(i, f"product {i}", f"{i}.50", "2026-01-01 00:00:00") for i in range(5000)]
        database.executemany("INSERT INTO products VALUES (?, ?, ?, ?)", rows)
    return file


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    databases._remembered.clear()
    yield
    databases._remembered.clear()


def asked(file: Path, rows: int = 100, age: float = 60, **changes: Any) -> Asked:
    given: dict[str, Any] = {
        "step": "found",
        "database": SqliteDatabase(path=str(file), table="products"),
        "keys": ("id",),
        "key_types": ("bigint",),
        "take": (("name", "string"), ("price", "decimal(10,2)"), ("at", "timestamp")),
        "cache": Cache(rows=rows, age=age),
    }
    return Asked(**given | changes)


class Counted:
    """An `Ask` that notes what was asked."""

    def __init__(self, ask: Ask) -> None:
        self.ask, self.questions = ask, list[list[Key]]()

    def __call__(self, what: Asked, keys: Sequence[Key]) -> list[tuple[Any, ...]]:
        self.questions.append(list(keys))
        return self.ask(what, keys)


def test_one_question_for_all_keys_of_a_batch_and_none_for_those_known(shop: Path) -> None:
    what, clock = asked(shop), Clock()
    with what.database.opened() as ask:
        counted = Counted(ask)
        first = recalled(what, [(1,), (2,), (1,), (9999,), (None,)], counted, clock)
        again = recalled(what, [(2,), (9999,), (3,)], counted, clock)
    midnight = datetime(2026, 1, 1, tzinfo=UTC)
    assert first[0] == first[2] == ("product 1", Decimal("1.50"), midnight)
    assert first[3:] == [None, None]
    assert again[0] == ("product 2", Decimal("2.50"), midnight)
    assert counted.questions == [[(1,), (2,), (9999,)], [(3,)]]


def test_an_answer_is_asked_for_again_when_it_is_too_old(shop: Path) -> None:
    what, clock = asked(shop, age=10), Clock()
    with what.database.opened() as ask:
        before = recalled(what, [(1,)], ask, clock)
        with closing(sqlite3.connect(shop)) as database, database:
            database.execute("UPDATE products SET name = 'new' WHERE id = 1")
        clock.now = 9.9
        assert recalled(what, [(1,)], ask, clock) == before
        clock.now = 10
        (row,) = recalled(what, [(1,)], ask, clock)
    assert row is not None
    assert row[0] == "new"


def test_no_more_keys_are_remembered_than_allowed_and_the_answer_is_whole(shop: Path) -> None:
    what = asked(shop, rows=3)
    with what.database.opened() as ask:
        rows = recalled(what, [(i,) for i in range(4500)], ask)
        assert [row[0] for row in rows if row] == [f"product {i}" for i in range(4500)]
        assert list(databases._remembered[what]) == [(4497,), (4498,), (4499,)]


def test_two_rows_with_one_key_are_an_error_that_names_them(shop: Path) -> None:
    with closing(sqlite3.connect(shop)) as database, database:
        database.execute("INSERT INTO products VALUES (1, 'other', '1', NULL)")
    what = asked(shop)
    with what.database.opened() as ask, pytest.raises(DataError, match="several rows with id = 1"):
        recalled(what, [(1,)], ask)


def test_what_is_missing_is_an_error_and_what_is_away_is_worth_another_try(shop: Path, tmp_path: Path) -> None:
    wrong = asked(shop, take=(("colour", "string"),))
    with wrong.database.opened() as ask, pytest.raises(DataError, match="colour"):
        recalled(wrong, [(1,)], ask)
    away = asked(tmp_path / "nowhere.db")
    with away.database.opened() as ask, pytest.raises(EndpointError, match="could not read"):
        recalled(away, [(1,)], ask)


def test_a_value_that_does_not_fit_is_an_error(shop: Path) -> None:
    what = asked(shop, take=(("name", "int"),))
    with what.database.opened() as ask, pytest.raises(DataError, match="does not fit"):
        recalled(what, [(1,)], ask)


def test_an_address_is_never_shown() -> None:
    assert "secret" not in repr(PostgresqlDatabase(url="postgresql://u:secret@h/d", table="t"))
