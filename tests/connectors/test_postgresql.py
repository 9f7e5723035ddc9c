from __future__ import annotations

import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace.connectors import postgresql
from headrace.connectors.postgresql import PostgresqlOptions, PostgresqlSink
from headrace.errors import DataError, EndpointError
from tests.connectors.suites import KeyedSinkSuite, Row, simple
from tests.servers import free_port


class TestPostgresql(KeyedSinkSuite):
    @pytest.fixture(autouse=True)
    def _table(self, postgresql: str) -> None:
        self.url, self.table = postgresql, f'rows "{uuid.uuid4().hex[:8]}"'

    def sink(self, **options: Any) -> PostgresqlSink:
        return PostgresqlSink(PostgresqlOptions(**{"url": self.url, "table": self.table, **options}))

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as database:
            done = database.execute(statement)
            return done.fetchall() if done.description else []

    def quoted(self) -> str:
        return '"' + self.table.replace('"', '""') + '"'

    def rows(self, folder: Path, schema: str) -> list[Row]:
        import psycopg
        from psycopg.rows import dict_row

        with psycopg.connect(self.url, row_factory=dict_row) as database:
            database.execute("SET TIME ZONE 'UTC'")
            return database.execute(f"SELECT * FROM {self.quoted()}").fetchall()

    def expected(self, row: Row) -> Row:
        inner = row["o"] | {"n": "2026-03-29T02:30:00.000001"}
        return row | {"o": inner, "ats": ["2026-01-02T03:04:05.678901Z"]}

    def leftovers(self) -> list[str]:
        found = self.execute("SELECT tablename FROM pg_tables WHERE starts_with(tablename, '_headrace')")
        return [name for (name,) in found if name != "_headrace_batches"]

    def test_a_database_that_is_away_may_come_back(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple("ann", 1)])

        with pytest.raises(EndpointError, match="could not read"):
            self.sink(url=f"postgresql://localhost:{free_port()}/db").newest(self.spark, self.place(tmp_path))

    def test_rows_that_a_crash_of_the_server_took_from_the_staging_table_are_missed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        copy = postgresql._copy

        def crashed(frame: Any, url: str, staging: str, names: Any) -> dict[str, int]:
            copied = copy(frame, url, staging, names)
            self.execute(f"TRUNCATE {staging}")  # what recovery does to an unlogged table
            return copied

        monkeypatch.setattr(postgresql, "_copy", crashed)
        with pytest.raises(EndpointError, match="was not written"):
            self.write(tmp_path, 0, [simple("ann", 1), simple("bob", 2)])
        monkeypatch.undo()
        self.write(tmp_path, 0, [simple("ann", 1), simple("bob", 2)])

        assert self.simple_rows(tmp_path) == [("ann", 1), ("bob", 2)]

    def test_columns_have_the_types_of_the_database(self, tmp_path: Path) -> None:
        schema = "a SMALLINT, b DECIMAL(12,3), c STRING, d BINARY, e TIMESTAMP, f TIMESTAMP_NTZ, g ARRAY<INT>, h FLOAT"
        self.write(tmp_path, 0, [{}], schema)

        found = self.execute(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute "
            f"WHERE attrelid = '{self.quoted()}'::regclass AND attnum > 0 ORDER BY attnum"
        )
        assert [name for (name,) in found] == [
            "smallint",
            "numeric(12,3)",
            "text",
            "bytea",
            "timestamp with time zone",
            "timestamp without time zone",
            "jsonb",
            "real",
        ]

    def test_floats_that_are_no_numbers_are_kept(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [{"d": float("inf")}, {"d": float("nan")}, {"d": 1e300}, {"d": -0.0}], "d DOUBLE")

        assert sorted(str(row["d"]) for row in self.rows(tmp_path, "")) == ["-0.0", "1e+300", "inf", "nan"]

    def test_it_leaves_no_staging_table(self, tmp_path: Path) -> None:
        before = self.leftovers()
        self.write(tmp_path, 0, [simple("ann", 1)])
        assert set(self.leftovers()) <= set(before)

    def test_a_batch_that_fails_changes_nothing_and_is_written_when_it_can_be(self, tmp_path: Path) -> None:
        before = self.leftovers()
        self.write(tmp_path, 0, [simple("ann", 1)])
        self.execute(f"ALTER TABLE {self.quoted()} ADD CONSTRAINT small CHECK (n < 10)")
        with pytest.raises(DataError, match="refused the rows"):
            self.write(tmp_path, 1, [simple("bob", 2), simple("cid", 30)])
        assert self.simple_rows(tmp_path) == [("ann", 1)]

        self.execute(f"ALTER TABLE {self.quoted()} DROP CONSTRAINT small")
        self.write(tmp_path, 1, [simple("bob", 2), simple("cid", 30)])

        assert self.simple_rows(tmp_path) == [("ann", 1), ("bob", 2), ("cid", 30)]
        assert set(self.leftovers()) <= set(before)

    def test_a_task_that_ran_twice_counts_once(self, tmp_path: Path) -> None:
        """Two copies of the same rows lie in the staging table, as after a lost executor; one of them counts."""
        import psycopg

        from headrace.connectors.postgresql import _copy

        self.execute(f"CREATE TABLE {self.quoted()} (n BIGINT)")
        frame = self.spark.range(10).toDF("n")
        with psycopg.connect(self.url, autocommit=True) as database:
            staging = self.sink()._stage(database, self.quoted(), ["n"], "twice")
            _copy(frame, self.url, staging, ["n"])
            counting = _copy(frame, self.url, staging, ["n"])
            assert database.execute(f"SELECT count(*) FROM {staging}").fetchone() == (20,)
            database.execute(self.sink()._merge(self.quoted(), staging, ["n"], []), (list(counting),))
            database.execute(f"DROP TABLE {staging}")
        assert sorted(row["n"] for row in self.rows(tmp_path, "")) == list(range(10))

    def test_the_table_may_be_in_another_schema(self, tmp_path: Path) -> None:
        self.execute("CREATE SCHEMA IF NOT EXISTS sales")
        for batch, n in enumerate((1, 2)):
            self.update(tmp_path, batch, [simple("ann", n)], namespace="sales", latest_by="n")

        assert self.execute(f'SELECT "user", n FROM sales.{self.quoted()}') == [("ann", 2)]
        assert self.execute("SELECT count(*) FROM sales._headrace_batches") != [(0,)]

    def test_a_table_that_is_there_keeps_its_types_and_other_columns(self, tmp_path: Path) -> None:
        self.execute(
            f'CREATE TABLE {self.quoted()} ("user" VARCHAR(10) PRIMARY KEY, n NUMERIC, at TIMESTAMPTZ, '
            "note TEXT DEFAULT '-')"
        )
        self.update(tmp_path, 0, [simple("ann", 1)])
        self.execute(f"UPDATE {self.quoted()} SET note = 'mine'")
        self.update(tmp_path, 1, [simple("ann", 2), simple("bob", 1)])

        found = sorted((row["user"], row["n"], row["note"]) for row in self.rows(tmp_path, ""))
        assert found == [("ann", Decimal(2), "mine"), ("bob", Decimal(1), "-")]

    def test_a_table_without_a_unique_key_is_refused(self, tmp_path: Path) -> None:
        self.execute(f'CREATE TABLE {self.quoted()} ("user" TEXT, n BIGINT, at TIMESTAMPTZ)')

        with pytest.raises(DataError) as caught:
            self.update(tmp_path, 0, [simple("ann", 1)])
        assert "unique index" in caught.value.hint

    def test_text_with_a_zero_byte_is_refused_with_the_reason(self, tmp_path: Path) -> None:
        with pytest.raises(DataError) as caught:
            self.write(tmp_path, 0, [simple("a\0b", 1)])
        assert "0x00" in caught.value.detail

    def test_a_server_that_is_away_is_an_outage_and_its_password_is_not_told(self, tmp_path: Path) -> None:
        url = f"postgresql://ann:hush@127.0.0.1:{free_port()}/db"

        with pytest.raises(EndpointError) as caught:
            self.write(tmp_path, 0, [simple("ann", 1)], url=url)
        assert "hush" not in str(caught.value)

    def test_many_rows_arrive_in_pieces(self, tmp_path: Path) -> None:
        from headrace.connectors.base import Batch
        from headrace.model import Changes
        from tests.connectors.suites import place

        frame = self.spark.range(0, 100_000, numPartitions=3).selectExpr("id AS n", "CAST(id AS STRING) AS user")
        self.sink().write(frame, Batch(id=0, changes=Changes.APPEND, place=place(tmp_path)))

        assert self.execute(
            f'SELECT count(*), count(DISTINCT n), sum(n) FROM {self.quoted()} WHERE "user" = n::text'
        ) == [(100_000, 100_000, Decimal(4_999_950_000))]


def test_a_time_before_the_epoch_and_far_ahead_is_exact(postgresql: str, spark: Any, tmp_path: Path) -> None:
    import psycopg

    from headrace.connectors.base import Batch
    from headrace.model import Changes
    from tests.connectors.suites import place

    sink = PostgresqlSink(PostgresqlOptions(url=postgresql, table="moments"))
    frame = spark.sql("SELECT timestamp_micros(m) AS at FROM VALUES (-1L), (253370764800000001L) AS t(m)")
    sink.write(frame, Batch(id=0, changes=Changes.APPEND, place=place(tmp_path)))

    with psycopg.connect(postgresql) as database:
        found = database.execute("SELECT (extract(epoch FROM at) * 1000000)::bigint FROM moments ORDER BY 1").fetchall()
        database.execute("DROP TABLE moments")
    assert found == [(-1,), (253370764800000001,)]
