from __future__ import annotations

import pytest
from pydantic import ValidationError

from headrace.formats.csv import CsvFormat, CsvOptions
from headrace.formats.json import JsonFormat, JsonOptions
from headrace.formats.parquet import ParquetFormat, ParquetOptions
from headrace.formats.raw import RawFormat
from headrace.formats.text import TextFormat


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
