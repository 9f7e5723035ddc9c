from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from headrace.catalogue import FORMATS, SINKS, SOURCES
from headrace.cli.describe import describe
from headrace.connectors.arrow import MisfitError, fit, fit_row
from headrace.connectors.base import Batch, Connector, Place
from headrace.connectors.console import ConsoleOptions, render, table
from headrace.connectors.files import located
from headrace.connectors.identity import writer
from headrace.connectors.kafka_offsets import Position, parse_position
from headrace.connectors.published import _moves
from headrace.connectors.sqlite import SqliteOptions
from headrace.connectors.tables import conflict_clause, quoted
from headrace.connectors.values import ValuesOptions, ValuesSource
from headrace.errors import UsageError
from headrace.model import Changes, Schema
from headrace.model.types import parse_type


def batch(folder: Path, number: int = 0) -> Batch:
    where = Place(step="out", flow="shop", home=folder / "home", base=folder)
    return Batch(id=number, changes=Changes.APPEND, place=where)


@pytest.mark.parametrize(
    ("value", "kind", "fitted"),
    [
        (1, "TINYINT", 1),
        (2.0, "BIGINT", 2),
        (-128, "TINYINT", -128),
        (1, "DOUBLE", 1.0),
        (True, "BOOLEAN", True),
        (12, "STRING", "12"),
        (True, "STRING", "true"),
        (dt.date(2026, 1, 2), "STRING", "2026-01-02"),
        ("ü", "BINARY", "ü".encode()),
        ("1.50", "DECIMAL(10,2)", Decimal("1.50")),
        (1.5, "DECIMAL(10,2)", Decimal("1.50")),
        (3, "DECIMAL(10,2)", Decimal("3.00")),
        ("1e3", "DECIMAL(10,0)", Decimal(1000)),
        ("2026-01-02", "DATE", dt.date(2026, 1, 2)),
        ("2026-01-02T03:04:05+01:00", "TIMESTAMP", dt.datetime(2026, 1, 2, 2, 4, 5, tzinfo=dt.UTC)),
        ("2026-01-02 03:04:05", "TIMESTAMP", dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
        (dt.date(2026, 1, 2), "TIMESTAMP", dt.datetime(2026, 1, 2, tzinfo=dt.UTC)),
        ("2026-01-02T03:04:05", "TIMESTAMP_NTZ", dt.datetime(2026, 1, 2, 3, 4, 5)),
        ([1, None], "ARRAY<INT>", [1, None]),
        ({"a": 1}, "MAP<STRING, INT>", [("a", 1)]),
        ({"A": 1}, "STRUCT<a: INT, b: INT>", {"a": 1, "b": None}),
        ([1, 2], "STRUCT<a: INT, b: INT>", {"a": 1, "b": 2}),
        (None, "BIGINT", None),
    ],
)
def test_a_value_is_fitted_to_its_type(value: Any, kind: str, fitted: Any) -> None:
    assert fit(value, parse_type(kind)) == fitted


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.5, "BIGINT"),
        (128, "TINYINT"),
        (-129, "TINYINT"),
        (2**63, "BIGINT"),
        ("1", "INT"),
        (True, "INT"),
        (float("inf"), "INT"),
        ("yes", "BOOLEAN"),
        (1, "BOOLEAN"),
        ([1], "STRING"),
        ("1.505", "DECIMAL(10,2)"),
        ("123456789.1", "DECIMAL(10,2)"),
        ("x", "DECIMAL(10,2)"),
        (True, "DECIMAL(10,2)"),
        ("NaN", "DECIMAL(10,2)"),
        ("tomorrow", "TIMESTAMP"),
        ("2026-13-01", "DATE"),
        ("2026-01-02T03:04:05Z", "TIMESTAMP_NTZ"),
        ("x", "ARRAY<INT>"),
        ([1], "MAP<STRING, INT>"),
        ({"c": 1}, "STRUCT<a: INT>"),
        ("{}", "VARIANT"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(value: Any, kind: str) -> None:
    with pytest.raises(MisfitError):
        fit(value, parse_type(kind))


def test_a_misfit_says_where_it_is() -> None:
    schema = Schema.parse("o STRUCT<l: ARRAY<INT>>")
    with pytest.raises(MisfitError, match=r'column "o.l\[1\]": \'x\' is not of type int'):
        fit_row({"o": {"l": [1, "x"]}}, schema)


def test_values_name_every_row_that_does_not_fit_before_anything_runs() -> None:
    source = ValuesSource(ValuesOptions(rows=[{"n": 1}, {"n": "x"}, {"m": 1}, [1, 2]]))

    faults = list(source.faults(Schema.parse("n INT")))

    assert [(fault.code, fault.option) for fault in faults] == [("type-mismatch", ("rows", n)) for n in (1, 2, 3)]
    assert "row 2" in faults[0].message


def test_a_writer_keeps_its_name_as_long_as_the_home_is_there(tmp_path: Path) -> None:
    first = writer(batch(tmp_path))

    assert writer(batch(tmp_path, 5)) == first
    assert first.startswith("shop-out-")
    (tmp_path / "home" / "writer").unlink()
    assert writer(batch(tmp_path)) != first


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("1500", Position(all=1500)),
        (" 0:15, 1:20 ", Position(each=((0, 15), (1, 20)))),
        ("2026-01-31T12:00:00Z", Position(time=dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC))),
        ("2026-01-31", Position(time=dt.datetime(2026, 1, 31, tzinfo=dt.UTC))),
        (None, None),
    ],
)
def test_a_position_is_an_offset_or_a_time(text: str | None, position: Position | None) -> None:
    assert parse_position(text, "--from") == position


@pytest.mark.parametrize("text", ["", "-1", "latest", "0:", "0:1,", "a:1"])
def test_what_is_neither_offset_nor_time_is_misuse(text: str) -> None:
    with pytest.raises(UsageError):
        parse_position(text, "--to")


def test_partitions_that_are_not_named_are_read_whole() -> None:
    position = parse_position("1:5", "--from")
    assert position is not None
    assert position.starting({"t": 2}) == {"startingOffsets": '{"t": {"0": -2, "1": 5}}'}
    assert position.ending({"t": 2}) == {"endingOffsets": '{"t": {"0": -1, "1": 5}}'}


def test_files_get_names_that_say_who_wrote_them_and_when() -> None:
    staged = ["day=1/part-00000-abc.c000.zstd.parquet", "_SUCCESS", "day=1/.part-00000.crc", "part-1"]

    assert _moves(staged, 12, "shop-out-1") == {
        "day=1/part-00000-abc.c000.zstd.parquet": "day=1/part-0000000012-0000-shop-out-1.c000.zstd.parquet",
        "part-1": "part-0000000012-0001-shop-out-1",
    }


def test_paths_are_meant_from_the_project(tmp_path: Path) -> None:
    where = batch(tmp_path).place
    assert located("in/x", where) == str(tmp_path / "in" / "x")
    assert located("/abs", where) == "/abs"
    assert located("hdfs://name/x", where) == "hdfs://name/x"


def test_names_cannot_leave_their_quotes() -> None:
    assert quoted('x"; DROP TABLE y; --') == '"x""; DROP TABLE y; --"'


def test_a_row_is_replaced_only_by_one_that_is_not_older() -> None:
    assert conflict_clause("t", ["k", "v", "at"], ["k"], "at") == (
        'ON CONFLICT ("k") DO UPDATE SET "v" = excluded."v", "at" = excluded."at" '
        'WHERE t."at" IS NULL OR excluded."at" >= t."at"'
    )
    assert conflict_clause("t", ["k"], ["k"], None) == 'ON CONFLICT ("k") DO NOTHING'
    assert conflict_clause("t", ["k"], [], None) == ""


def test_latest_by_needs_a_key() -> None:
    with pytest.raises(ValidationError, match="latest_by"):
        SqliteOptions(path="x.db", table="t", latest_by="at")


def test_a_table_is_aligned_also_with_wide_characters() -> None:
    assert table(["name", "n"], [["日本", 1], ["é", None], ["a\x1b[31m\nb", 300]]) == [
        "name        n",
        "────────  ───",
        "日本        1",
        "é           ∅",
        "a [31m b  300",
    ]


def test_a_long_cell_is_cut(tmp_path: Path) -> None:
    text = render(batch(tmp_path), ["x"], [{"x": "y" * 200}], ConsoleOptions())
    assert max(map(len, text.splitlines())) == 60


def test_an_empty_table_has_its_header() -> None:
    assert table(["a", "b"], []) == ["a  b", "─  ─"]


@pytest.mark.parametrize("kind", [*SOURCES.values(), *SINKS.values()], ids=lambda kind: kind.__name__)
def test_the_example_of_a_connector_is_one(kind: type[Connector[Any]]) -> None:
    from ruamel.yaml import YAML

    [(_, entry)] = YAML(typ="safe").load(kind.example).items()
    given = entry[kind.name]
    short = kind.options_model.shorthand

    options = kind.options_model.model_validate(given if isinstance(given, dict) else {short: given})
    assert kind(options).options == options
    if kind.carries != "rows":
        assert entry["format"] in FORMATS


@pytest.mark.parametrize(
    "kind", [*SOURCES.values(), *SINKS.values(), *FORMATS.values()], ids=lambda kind: kind.__name__
)
def test_every_option_is_described(kind: Any) -> None:
    fields = kind.options_model.model_fields
    assert [name for name, field in fields.items() if not (field.description or "").endswith(".")] == []


def test_a_part_is_described_by_its_kind_or_by_its_name_alone() -> None:
    def said(*what: str) -> str:
        done = CliRunner().invoke(describe, what, catch_exceptions=False)
        assert done.exit_code == 0
        return done.output

    assert said("connector", "kafka") == said("kafka")
    assert said("sink", "kafka").strip() in said("kafka")
    assert set(json.loads(said("connector", "kafka", "--json"))) == {"source", "sink"}
    assert "properties" in json.loads(said("operator", "filter", "--json"))
    for wrong in (("conector", "kafka"), ("operator", "kafka"), ("kafak",), ("a", "b", "c")):
        with pytest.raises(UsageError):
            CliRunner().invoke(describe, wrong, catch_exceptions=False)
