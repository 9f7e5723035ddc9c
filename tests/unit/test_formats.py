from __future__ import annotations

import pytest
from pydantic import ValidationError

from headrace.formats.csv import CsvFormat, CsvOptions
from headrace.formats.json import JsonFormat, JsonOptions
from headrace.formats.parquet import ParquetFormat, ParquetOptions
from headrace.formats.raw import RawFormat
from headrace.formats.text import TextFormat
from headrace.model import Schema


def test_what_each_format_can_be_used_for() -> None:
    formats = (CsvFormat, JsonFormat, ParquetFormat, RawFormat, TextFormat)

    assert {f.name: (f.in_messages, f.in_files, f.positional, str(f.own_schema or "")) for f in formats} == {
        "csv": (True, True, True, ""),
        "json": (True, True, False, ""),
        "parquet": (False, True, False, ""),
        "raw": (True, False, False, "value binary"),
        "text": (True, True, False, "value string"),
    }


def test_csv_reads_and_writes_with_options_of_its_own() -> None:
    form = CsvFormat(CsvOptions(separator=";", header=True))

    name, reading = form.file_options()
    _, writing = form.file_options(writing=True)
    assert name == "csv"
    assert reading["sep"] == writing["sep"] == ";"
    assert reading["header"] == writing["header"] == "true"
    assert (reading["enforceSchema"], reading["emptyValue"], writing["emptyValue"]) == ("false", "", '""')


@pytest.mark.parametrize(
    ("columns", "zone", "read", "written"),
    [
        ("s STRING, at TIMESTAMP", "UTC", "s, at in one pass", "s, at in one pass"),
        ("s STRING, c DECIMAL(38,10)", "UTC", "s, c in one pass", "s, c in one pass"),
        ("l ARRAY<INT>, o STRUCT<x: MAP<STRING, FLOAT>>", "UTC", "l, o in one pass", "l, o in one pass"),
        ("s STRING, b BINARY", "UTC", 'because "b" is binary', 'because "b" is binary'),
        ("m MAP<INT, STRING>", "UTC", 'because "m" is map<int,string>', 'because "m" is map<int,string>'),
        (
            "o ARRAY<STRUCT<v: VARIANT>>",
            "UTC",
            'because "o" has a part that is variant',
            '"o" has a part that is variant',
        ),
        ("`größe` BIGINT", "UTC", "größe in one pass", 'because "größe" has a name that is not plain ASCII'),
        ("at TIMESTAMP", "Europe/Berlin", "at in one pass", 'because "at" is a time in Europe/Berlin, not UTC'),
    ],
)
def test_json_says_what_is_read_and_written_in_one_pass(columns: str, zone: str, read: str, written: str) -> None:
    form, schema = JsonFormat(JsonOptions()), Schema.parse(columns)
    assert read in str(form.decodes(schema, zone))
    assert written in str(form.encodes(schema, zone))


def test_parquet_is_compressed_as_asked_and_json_keeps_microseconds() -> None:
    assert ParquetFormat(ParquetOptions(compression="gzip")).file_options(writing=True) == (
        "parquet",
        {"compression": "gzip"},
    )
    assert "SSSSSS" in JsonFormat(JsonOptions()).file_options(writing=True)[1]["timestampFormat"]


def test_unknown_options_and_wrong_values_are_refused() -> None:
    for options in ({"seperator": ";"}, {"quote": "''"}, {"separator": ""}):
        with pytest.raises(ValidationError):
            CsvOptions.model_validate(options)
