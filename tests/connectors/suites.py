"""What any sink and any source must do, whatever it is connected to.

A test class inherits a suite and says how to make the connector and how to look at the outside system; see
`test_sinks.py` and `test_sources.py`.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.compile.leaves import Leaf
from headrace.connectors.base import Batch, Between, Holding, Place, Reading, SinkConnector, SourceConnector
from headrace.formats.base import Format
from headrace.model import REMOVED, Changes, Schema
from headrace.run.checkpoint import planned
from headrace.run.journal import Entry, betweens
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]
SIMPLE = "user STRING, n BIGINT, at TIMESTAMP"
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)

ALL_TYPES = (
    "id BIGINT, t TINYINT, s SMALLINT, i INT, yes BOOLEAN, f FLOAT, d DOUBLE, m DECIMAL(12,3), long DECIMAL(38,10), "
    "text STRING, bytes BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, l ARRAY<INT>, "
    "o STRUCT<k: STRING, v: ARRAY<DOUBLE>, n: TIMESTAMP_NTZ>, k MAP<STRING, INT>, ats ARRAY<TIMESTAMP>"
)
EVERYTHING: Row = {
    "id": 2**62,
    "t": -128,
    "s": 32767,
    "i": -(2**31),
    "yes": True,
    "f": 0.5,
    "d": 0.1,
    "m": Decimal("-123456789.125"),
    "long": Decimal("1234567890123456789012345678.0123456789"),
    "text": "a,\"b\"\\\n\tü 日本 'quoted' \\N \\.",
    "bytes": b'\x00\xff,"\n',
    "day": dt.date(1969, 12, 31),
    "at": AT,
    "local": dt.datetime(2026, 3, 29, 2, 30, 0, 1),
    "l": [1, None, 3],
    "o": {"k": "x", "v": [1.5], "n": dt.datetime(2026, 3, 29, 2, 30, 0, 1)},
    "k": {"a": 1},
    "ats": [AT],
}


def place(folder: Path, **changes: Any) -> Place:
    """A place in a flow whose project and home are in the folder."""
    home = folder / "home" / "places" / "out"
    home.mkdir(parents=True, exist_ok=True)
    return replace(Place(step="out", flow="shop", home=home, base=folder), **changes)


def simple(user: str | None, n: int | None, at: dt.datetime | None = None) -> Row:
    return {"user": user, "n": n, "at": at}


class SinkSuite(ABC):
    """Append, repeats, empty batches, nulls, all types; and replacing by key for sinks that can."""

    repeats_once = True
    """False for a sink that writes a repeated batch again, and says so."""
    keeps_types = True
    """False for a sink from which types cannot be told, such as a text file."""

    @abstractmethod
    def sink(self, **options: Any) -> SinkConnector[Any]: ...

    @abstractmethod
    def rows(self, folder: Path, schema: str) -> list[Row]:
        """What is in the outside system now, in any order."""

    def format(self) -> Format[Any] | None:
        return None

    @pytest.fixture(autouse=True)
    def _session(self, spark: SparkSession) -> None:
        self.spark = spark

    def frame(self, rows: list[Row], schema: str) -> DataFrame:
        names = Schema.parse(schema).names
        return self.spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], schema)

    def write(
        self,
        folder: Path,
        batch: int,
        rows: list[Row],
        schema: str = SIMPLE,
        *,
        changes: Changes = Changes.APPEND,
        **options: Any,
    ) -> None:
        frame, form, sink = self.frame(rows, schema), self.format(), self.sink(**options)
        if sink.carries == "bytes":
            assert form is not None
            frame = frame.withColumn("value", form.encode(Schema.parse(schema)))
        sink.write(frame, Batch(id=batch, changes=changes, place=self.place(folder), format=form))

    def place(self, folder: Path) -> Place:
        return place(folder)

    def simple_rows(self, folder: Path) -> list[tuple[Any, ...]]:
        return sorted(((row["user"], row["n"]) for row in self.rows(folder, SIMPLE)), key=repr)

    def test_batches_are_added(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple("ann", 1), simple("bob", 2)])
        self.write(tmp_path, 1, [simple("ann", 1)])

        assert self.simple_rows(tmp_path) == [("ann", 1), ("ann", 1), ("bob", 2)]

    def test_a_repeated_batch_is_written_as_often_as_promised(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple("ann", 1)])
        self.write(tmp_path, 1, [simple("bob", 2)])
        self.write(tmp_path, 1, [simple("bob", 2)])
        self.write(tmp_path, 2, [simple("cid", 3)])

        bobs = 1 if self.repeats_once else 2
        assert self.simple_rows(tmp_path) == [("ann", 1), *[("bob", 2)] * bobs, ("cid", 3)]

    def test_a_run_that_begins_afresh_is_not_taken_for_a_repeat(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple("ann", 1)])
        for file in (tmp_path / "home" / "places" / "out").iterdir():
            file.unlink()
        self.write(tmp_path, 0, [simple("bob", 2)])

        assert self.simple_rows(tmp_path) == [("ann", 1), ("bob", 2)]

    def test_it_tells_the_newest_batch_it_has_of_a_writer(self, tmp_path: Path) -> None:
        def newest() -> int | None:
            return self.sink().newest(self.spark, self.place(tmp_path))

        assert newest() is None
        self.write(tmp_path, 0, [simple("ann", 1)])
        self.write(tmp_path, 2, [simple("bob", 2)])
        assert newest() == 2
        self.write(tmp_path, 1, [simple("cid", 3)])
        assert self.simple_rows(tmp_path) == [("ann", 1), ("bob", 2)], "what is not newer is taken for a repeat"
        for file in (tmp_path / "home" / "places" / "out").iterdir():
            file.unlink()
        assert newest() is None
        self.write(tmp_path, 0, [simple("cid", 3)])
        assert newest() == 0

    def test_an_empty_batch_adds_nothing(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [])
        self.write(tmp_path, 1, [simple("ann", 1)])
        self.write(tmp_path, 2, [])

        assert self.simple_rows(tmp_path) == [("ann", 1)]

    def test_nulls_stay_nulls_and_empty_text_stays_text(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [simple(None, None), simple("", 0)])

        assert self.simple_rows(tmp_path) == [("", 0), (None, None)]

    def test_every_type_is_kept(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [EVERYTHING, {"id": 1}], ALL_TYPES)

        rows = {row["id"]: row for row in self.rows(tmp_path, ALL_TYPES)}
        if self.keeps_types:
            assert rows[EVERYTHING["id"]] == self.expected(EVERYTHING)
            assert rows[1] == {name: 1 if name == "id" else None for name in EVERYTHING}
        else:
            assert set(rows) == {EVERYTHING["id"], 1}

    def expected(self, row: Row) -> Row:
        """The row as `rows` gives it."""
        return row


class KeyedSinkSuite(SinkSuite):
    """What a sink must do besides that replaces rows by key: `key` and, for tables, `latest_by`."""

    has_latest_by = True

    def test_every_type_is_told_again_as_it_was_written(self, tmp_path: Path) -> None:
        self.write(tmp_path, 0, [EVERYTHING], ALL_TYPES)

        held = self.sink().holds(
            Holding(session=self.spark, schema=Schema.parse(ALL_TYPES), format=None, place=self.place(tmp_path))
        )
        if held is not None:
            wanted = self.frame([EVERYTHING], ALL_TYPES).select(*held.columns)
            assert held.collect() == wanted.collect()

    def update(self, folder: Path, batch: int, rows: list[Row], **options: Any) -> None:
        self.write(folder, batch, rows, changes=Changes.UPDATE, **{"key": ("user",), **options})

    def test_it_takes_updates_only_with_a_key(self) -> None:
        assert self.sink(key=("user",)).takes_updates()
        assert self.sink(key=("user",)).key() == ("user",)
        assert not self.sink().takes_updates()

    def test_a_row_with_the_same_key_is_replaced(self, tmp_path: Path) -> None:
        self.update(tmp_path, 0, [simple("ann", 1), simple("bob", 2)])
        self.update(tmp_path, 1, [simple("ann", 5), simple("cid", 3)])

        assert self.simple_rows(tmp_path) == [("ann", 5), ("bob", 2), ("cid", 3)]

    def test_a_repeated_update_does_not_undo_a_later_one(self, tmp_path: Path) -> None:
        self.update(tmp_path, 0, [simple("ann", 1)])
        self.update(tmp_path, 1, [simple("ann", 2)])
        self.update(tmp_path, 0, [simple("ann", 1)])

        assert self.simple_rows(tmp_path) == [("ann", 2)]

    def test_of_two_rows_with_one_key_in_a_batch_the_later_holds(self, tmp_path: Path) -> None:
        self.update(tmp_path, 0, [simple("ann", n) for n in range(50)])

        assert self.simple_rows(tmp_path) == [("ann", 49)]

    def test_a_row_is_taken_back(self, tmp_path: Path) -> None:
        marked = f"{SIMPLE}, {REMOVED} BOOLEAN"
        self.update(tmp_path, 0, [simple("ann", 1), simple("bob", 2) | {REMOVED: True}, simple(None, 3)], schema=marked)
        assert self.simple_rows(tmp_path) == [("ann", 1), (None, 3)], "what is not there can be taken back too"
        changed = [simple("ann", 1) | {REMOVED: True}, simple(None, 3) | {REMOVED: True}, simple("cid", 4)]
        for batch in (1, 1, 2):
            self.update(tmp_path, batch, changed[:2] if batch == 1 else changed[2:], schema=marked)

        assert self.simple_rows(tmp_path) == [("cid", 4)]

    def test_a_row_that_is_newer_is_not_taken_back(self, tmp_path: Path) -> None:
        if not self.has_latest_by:
            pytest.skip("this sink has no latest_by")
        marked = f"{SIMPLE}, {REMOVED} BOOLEAN"
        early, late = AT, AT + dt.timedelta(seconds=1)
        self.update(tmp_path, 0, [simple("ann", 1, late), simple("bob", 2, early)], latest_by="at")
        gone = [simple("ann", 1, early) | {REMOVED: True}, simple("bob", 2, early) | {REMOVED: True}]
        self.update(tmp_path, 1, gone, schema=marked, latest_by="at")

        assert self.simple_rows(tmp_path) == [("ann", 1)]

    def test_a_null_is_a_key_too(self, tmp_path: Path) -> None:
        self.update(tmp_path, 0, [simple(None, 1), simple("ann", 1)])
        self.update(tmp_path, 1, [simple(None, 2)])
        self.update(tmp_path, 2, [simple(None, 3), simple(None, 4)])

        assert self.simple_rows(tmp_path) == [("ann", 1), (None, 4)]

    def test_a_key_may_be_of_several_columns_a_time_among_them(self, tmp_path: Path) -> None:
        later = AT + dt.timedelta(seconds=1)
        for batch, rows in enumerate([[simple("ann", 1, AT), simple("ann", 2, later)], [simple("ann", 3, later)]]):
            self.update(tmp_path, batch, rows, key=("user", "at"))

        assert self.simple_rows(tmp_path) == [("ann", 1), ("ann", 3)]

    def test_a_key_may_be_spelled_in_another_case(self, tmp_path: Path) -> None:
        self.update(tmp_path, 0, [simple("ann", 1)], key=("USER",))
        self.update(tmp_path, 1, [simple("ann", 2)], key=("USER",))

        assert self.simple_rows(tmp_path) == [("ann", 2)]

    def test_the_newest_holds_by_the_column_that_says_so(self, tmp_path: Path) -> None:
        if not self.has_latest_by:
            pytest.skip("this sink has no latest_by")
        early, late = AT, AT + dt.timedelta(seconds=1)
        for batch, rows in enumerate(
            [[simple("ann", 2, late), simple("ann", 1, early), simple("bob", 1, early)], [simple("ann", 1, early)]]
        ):
            self.update(tmp_path, batch, rows, latest_by="at")
        self.update(tmp_path, 2, [simple("bob", 2, late), simple(None, 9, early)], latest_by="at")

        assert self.simple_rows(tmp_path) == [("ann", 2), ("bob", 2), (None, 9)]


class SourceSuite(ABC):
    """Batch read, stream read, and resuming from a checkpoint without loss or repeat."""

    @abstractmethod
    def source(self) -> SourceConnector[Any]:
        """A source that gives what was fed, in several batches if more was fed than fits in one."""

    @abstractmethod
    def feed(self, folder: Path, step: int) -> list[Row]:
        """Make more records available (step 0, then 1); gives the rows they are."""

    schema: Schema | None = None
    form: Format[Any] | None = None

    @pytest.fixture(autouse=True)
    def _session(self, spark: SparkSession) -> None:
        self.spark = spark

    def kafka(self) -> Mapping[str, str]:
        return {}

    def read(self, folder: Path, *, streaming: bool, **changes: Any) -> DataFrame:
        where = place(folder, kafka=self.kafka(), step="in")
        reading = Reading(
            session=self.spark, streaming=streaming, schema=self.schema, format=self.form, place=where, **changes
        )
        return self.source().read(reading)

    def drain(self, folder: Path, frame: DataFrame, *, die_in: int | None = None) -> list[tuple[int, list[Row]]]:
        """Run the stream on the folder's checkpoint until all there is was read; gives (batch, rows) as they came."""
        seen: list[tuple[int, list[Row]]] = []

        def keep(batch: DataFrame, number: int) -> None:
            seen.append((number, [row.asDict(recursive=True) for row in batch.collect()]))
            if number == die_in:
                raise InterruptedError("killed after the batch was written, before it was committed")

        query = (
            frame.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        eventually(lambda: not query.isActive, 90, diagnose=lambda: str(query.lastProgress))
        failed = query.exception()
        if die_in is None and failed is not None:
            raise failed
        return seen

    def same(self, given: list[Row], wanted: list[Row]) -> None:
        def text(rows: list[Row]) -> list[str]:
            return sorted(str(sorted(row.items())) for row in rows)

        assert text([self.plain(row) for row in given]) == text([self.plain(row) for row in wanted])

    def plain(self, row: Row) -> Row:
        """Spark gives times without a zone, in UTC."""
        return {
            name: value.replace(tzinfo=None)
            if isinstance(value, dt.datetime)
            else bytes(value)
            if isinstance(value, bytearray)
            else [one.replace(tzinfo=None) for one in value]
            if name == "ats" and value
            else value
            for name, value in row.items()
        }

    def test_a_batch_gives_everything(self, tmp_path: Path) -> None:
        fed = [*self.feed(tmp_path, 0), *self.feed(tmp_path, 1)]

        self.same([row.asDict(recursive=True) for row in self.read(tmp_path, streaming=False).collect()], fed)

    def test_the_records_of_any_batches_can_be_read_again(self, tmp_path: Path) -> None:
        self.feed(tmp_path, 0)
        self.feed(tmp_path, 1)
        batches = dict(self.drain(tmp_path, self.read(tmp_path, streaming=True)))
        self.again(tmp_path, batches, [(0, 0), (0, max(batches)), (max(batches), max(batches))])

    def again(self, folder: Path, batches: Mapping[int, list[Row]], ranges: list[tuple[int, int]]) -> None:
        """Whether a second reading of each range of batches gives what the stream was given."""
        checkpoint = folder / "checkpoint"
        leaf = [Leaf("in", 0)]
        entries = {number: Entry.of(number, planned(checkpoint, number), leaf) for number in batches}
        for first, last in ranges:
            between = betweens(entries, str(checkpoint), first, last)["in"]
            found = self.read(folder, streaming=False, between=between).collect()
            wanted = [row for number, rows in batches.items() if first <= number <= last for row in rows]
            self.same([row.asDict(recursive=True) for row in found], wanted)
        nothing = Between(start=None, end=None, kept=str(checkpoint / "sources" / "0"))
        assert self.read(folder, streaming=False, between=nothing).collect() == []

    def test_a_stream_gives_each_record_once_also_after_a_restart(self, tmp_path: Path) -> None:
        fed = self.feed(tmp_path, 0)
        first = self.drain(tmp_path, self.read(tmp_path, streaming=True))
        fed += self.feed(tmp_path, 1)
        second = self.drain(tmp_path, self.read(tmp_path, streaming=True))

        assert len({number for number, _ in first + second}) == len(first + second)
        self.same([row for _, rows in first + second for row in rows], fed)

    def test_a_batch_that_was_not_committed_comes_again_with_the_same_rows(self, tmp_path: Path) -> None:
        fed = [*self.feed(tmp_path, 0), *self.feed(tmp_path, 1)]
        before = self.drain(tmp_path, self.read(tmp_path, streaming=True), die_in=0)
        after = self.drain(tmp_path, self.read(tmp_path, streaming=True))

        assert before[-1][0] == after[0][0] == 0
        self.same(before[-1][1], after[0][1])
        self.same([row for _, rows in after for row in rows], fed)
