"""Tables of real databases as tables beside a stream: read again when they are old, refused as streams."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from headrace.check import check, load
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.connectors import memory
from headrace.connectors.base import Place
from headrace.connectors.relations import (
    PostgresqlRelationOptions,
    PostgresqlSource,
    SqliteRelationOptions,
    SqliteSource,
)
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.errors import DataError, EndpointError
from headrace.run.inline import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = """\
flow: priced
sources:
  orders:
    files: {path: orders, per_batch: 1}
    format: json
    schema: id BIGINT, product STRING, user BIGINT
  prices:
    sqlite: {path: shop.db, relation: current}
    schema: product STRING, price DECIMAL(10,2), tags ARRAY<STRING>, since TIMESTAMP
    table: {refresh: 1 millisecond}
  people:
    postgresql: {url: "${env:DATABASE_URL}", relation: "all people", namespace: shop}
    schema: number BIGINT, name STRING, seen TIMESTAMP, more STRUCT<a INT>
    table: {refresh: 1 millisecond}
steps:
  priced: {from: [orders, prices], join: {on: product, kind: left}}
  named: {from: [priced, people], join: {on: {user: number}, kind: left}}
  told:
    from: named
    select: [id, price, "tags[0] AS tag", hour(since) AS since, name, hour(seen) AS seen, more.a AS a]
sinks:
  out: {from: told, memory: {}}
"""


def test_tables_of_databases_are_joined_as_they_stand(
    spark: SparkSession, postgresql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", postgresql)
    (tmp_path / "orders").mkdir()
    (tmp_path / "flow.yaml").write_text(FLOW)
    made = plan(load(tmp_path / "flow.yaml"))
    where = Where(session=spark, streaming=True, home=tmp_path / "home", base=tmp_path)

    def order(number: int) -> list[tuple[object, ...]]:
        memory.tables.pop(("priced", "out"), None)
        rows = [{"id": i, "product": product, "user": i} for i, product in enumerate(["tea", "jam"], 1)]
        (tmp_path / "orders" / f"{number}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        run_to_end(made, made.queries[0], where, tmp_path / "checkpoint")
        return sorted(tuple(map(str, row.values())) for row in memory.tables["priced", "out"].rows)

    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop, psycopg.connect(postgresql, autocommit=True) as people:
        shop.execute("CREATE TABLE prices (product TEXT, price DECIMAL, tags TEXT, since TEXT)")
        shop.execute("INSERT INTO prices VALUES ('tea', 1.5, '[\"hot\"]', '2026-01-01 07:00:00')")
        shop.execute("CREATE VIEW current AS SELECT * FROM prices")
        shop.commit()
        people.execute('CREATE SCHEMA shop; CREATE TABLE shop."all people" (number INT, name TEXT, seen TIMESTAMPTZ)')
        people.execute('ALTER TABLE shop."all people" ADD more JSONB')
        people.execute("""INSERT INTO shop."all people" VALUES (1, 'Ann', '2026-01-01 08:00:00+00', '{"a": 3}')""")
        assert order(1) == [
            ("1", "1.50", "hot", "7", "Ann", "8", "3"),
            ("2", "None", "None", "None", "None", "None", "None"),
        ]
        shop.execute("UPDATE prices SET price = 2.25, tags = NULL")
        shop.commit()
        people.execute('DELETE FROM shop."all people"')
        assert order(2)[0] == ("1", "2.25", "None", "7", "None", "None", "None")


def test_a_database_is_no_stream() -> None:
    text = FLOW.replace("    table: {refresh: 1 millisecond}\n  people", "  people")
    found = check(resolve(flowfile.read(text, "flow.yaml"))).errors
    assert [(p.code, p.step) for p in found if "read as a table only" in p.message] == [("unsupported", "prices")]


def test_what_cannot_be_read_is_said_and_whether_another_try_may_help(postgresql: str, tmp_path: Path) -> None:
    place = Place(step="prices", flow="f", home=tmp_path, base=tmp_path)
    file = SqliteSource(SqliteRelationOptions(path="shop.db", relation="prices"))
    with pytest.raises(EndpointError, match='could not read "prices" for source "prices"'):
        file.rows("*", place)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop, shop:
        shop.execute("CREATE TABLE other (product TEXT)")
    with pytest.raises(DataError, match="no such table: prices"):
        file.rows("*", place)
    address = {"relation": "nothing", "url": postgresql}
    with pytest.raises(DataError, match='relation "nothing" does not exist'):
        PostgresqlSource(PostgresqlRelationOptions.model_validate(address)).rows("*", place)
    away = PostgresqlRelationOptions.model_validate({**address, "url": "postgresql://ann:secret@127.0.0.1:1/none"})
    with pytest.raises(EndpointError, match='could not read "nothing"') as failed:
        PostgresqlSource(away).rows("*", place)
    assert "secret" not in str(failed.value)
