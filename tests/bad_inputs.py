"""Bad inputs, one of each kind, and where each ends: as a row, or as a dead letter with its reason.

The page `docs/bad-inputs.md` is made of this list: `python -m tests.bad_inputs docs/bad-inputs.md`.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.connectors.unreadable import DAMAGED, EMPTY, NOT_PARQUET, OTHER_TYPE

SCHEMA = "a BIGINT, b DOUBLE, s STRING, t TIMESTAMP, l ARRAY<INT>, d DECIMAL(6,2)"
CSV_SCHEMA = "a BIGINT, b DOUBLE, s STRING, t TIMESTAMP, d DECIMAL(6,2)"
FILE_SCHEMA = "id BIGINT, user STRING"
ROW = "a row"
ROWS = "its rows"
NO_ROWS = "nothing: it has no rows"
_OBJECT = "the record is not a JSON object"
_FIT = "the record is not one JSON object, or a value does not fit its column"
_UTF8 = "the record is not UTF-8 text"
_NONE = "the record has no value"
_FIELDS = "the record does not have 5 fields, or a value does not fit its column"
_EMPTY = "the record is empty"


@dataclass(frozen=True)
class Bad:
    """One input: what is wrong with it, its bytes, and where it ends."""

    what: str
    value: bytes | None
    ends: str


INPUTS: dict[str, list[Bad]] = {
    "json": [
        Bad("cut off in the middle", b'{"a": 1, "s": "x', _OBJECT),
        Bad("cut off before the last brace", b'{"a": 1', _OBJECT),
        Bad("a value is missing", b'{"a": }', _FIT),
        Bad("text for a number", b'{"a": "one"}', _FIT),
        Bad("a fraction for a whole number", b'{"a": 1.5}', _FIT),
        Bad("an object for a number", b'{"a": {"b": 1}}', _FIT),
        Bad("a number for a list", b'{"l": 1}', _FIT),
        Bad("a list with one wrong item", b'{"l": [1, "x"]}', _FIT),
        Bad("a time that is none", b'{"t": "yesterday"}', _FIT),
        Bad("a number beyond BIGINT", b'{"a": 9223372036854775808}', _FIT),
        Bad("a number of 400 digits", b'{"a": ' + b"9" * 400 + b"}", _FIT),
        Bad("a number beyond DOUBLE", b'{"b": 1e999}', ROW),
        Bad("a decimal with too many digits", b'{"d": 123456789.25}', _FIT),
        Bad("a decimal with a huge exponent", b'{"d": 1e34567890}', _FIT),
        Bad("a decimal with a huge negative exponent", b'{"d": 1e-34567890}', _FIT),
        Bad("such a decimal in quotes", b'{"d": "1e34567890"}', _FIT),
        Bad("a decimal of a million digits in quotes", b'{"d": "' + b"9" * 1_000_000 + b'"}', _FIT),
        Bad("a text that looks like such a decimal", b'{"s": "1e34567890"}', ROW),
        Bad("NaN without quotes", b'{"b": NaN}', ROW),
        Bad("NaN in quotes", b'{"b": "NaN"}', ROW),
        Bad("Infinity", b'{"b": -Infinity}', ROW),
        Bad("nothing at all", b"", _OBJECT),
        Bad("only blanks", b"  \t ", _OBJECT),
        Bad("a tombstone", None, _NONE),
        Bad("bytes that are not UTF-8", b'{"s": "\xff\xfe"}', _UTF8),
        Bad("a byte order mark first", b'\xef\xbb\xbf{"a": 1}', _OBJECT),
        Bad("UTF-16", '{"a": 1}'.encode("utf-16"), _UTF8),
        Bad("a control character in a text", b'{"s": "a\x01b"}', _FIT),
        Bad("a zero byte", b"\x00", _OBJECT),
        Bad("the magic byte of a schema registry first", b'\x00\x00\x00\x00\x07{"a": 1}', _OBJECT),
        Bad("the same name twice", b'{"a": 1, "a": 2}', ROW),
        Bad("a name nobody knows", b'{"a": 1, "new": [1]}', ROW),
        Bad("a name that is gone", b'{"s": "x"}', ROW),
        Bad("a name in other letters", b'{"A": 1}', ROW),
        Bad("nested 500 deep where a text is", b'{"s": ' + b"[" * 500 + b"]" * 500 + b"}", ROW),
        Bad("nested 5,000 deep", b'{"x": ' + b"[" * 5000 + b"]" * 5000 + b"}", _FIT),
        Bad("a list of objects", b'[{"a": 1}]', _OBJECT),
        Bad("two objects", b'{"a": 1} {"a": 2}', _FIT),
        Bad("something behind the object", b'{"a": 1} x', _OBJECT),
        Bad("a bare number", b"5", _OBJECT),
        Bad("single quotes", b"{'a': 1}", ROW),
        Bad("a comment", b'{"a": 1 /* one */}', _FIT),
        Bad("a comma too many", b'{"a": 1,}', _FIT),
        Bad("half a surrogate pair", b'{"s": "\\ud800"}', ROW),
        Bad("a record of 20 MB", b'{"s": "' + b"x" * 20_000_000 + b'"}', ROW),
        Bad("20 MB that are not JSON", b"x" * 20_000_000, _OBJECT),
    ],
    "csv": [
        Bad("a field too few", b"1,2.0,x,1.5", _FIELDS),
        Bad("a field too many", b"1,2.0,x,2024-01-01T00:00:00Z,1.5,5", _FIELDS),
        Bad("text for a number", b"one,2.0,x,2024-01-01T00:00:00Z,1.5", _FIELDS),
        Bad("a quote that is not closed", b'1,2.0,"x,2024-01-01T00:00:00Z,1.5', _FIELDS),
        Bad("a quote in the middle", b'1,2.0,x"y,2024-01-01T00:00:00Z,1.5', ROW),
        Bad("another separator", b"1;2.0;x;2024-01-01T00:00:00Z;1.5", _FIELDS),
        Bad("a line break in quotes", b'1,2.0,"x\ny",2024-01-01T00:00:00Z,1.5', ROW),
        Bad("nothing at all", b"", _EMPTY),
        Bad("only separators", b",,,,", ROW),
        Bad("a tombstone", None, _NONE),
        Bad("bytes that are not UTF-8", b"1,2.0,\xff,2024-01-01T00:00:00Z,1.5", _UTF8),
        Bad("a number beyond BIGINT", b"9223372036854775808,2.0,x,2024-01-01T00:00:00Z,1.5", _FIELDS),
        Bad("a decimal with too many digits", b"1,2.0,x,2024-01-01T00:00:00Z,12345.5", _FIELDS),
        Bad("a decimal with a huge exponent", b"1,2.0,x,2024-01-01T00:00:00Z,1e34567890", _FIELDS),
        Bad("a decimal with a huge negative exponent", b"1,2.0,x,2024-01-01T00:00:00Z,1e-34567890", _FIELDS),
        Bad("a decimal of a million digits", b"1,2.0,x,2024-01-01T00:00:00Z," + b"9" * 1_000_000, _FIELDS),
        Bad("a text that looks like a huge decimal", b"1,2.0,1e34567890,2024-01-01T00:00:00Z,1.5", ROW),
        Bad("a decimal comma", b"1,2,5,x,2024-01-01T00:00:00Z,1.5", _FIELDS),
        Bad("NaN", b"1,NaN,x,2024-01-01T00:00:00Z,1.5", ROW),
        Bad("a header", b"a,b,s,t,d", _FIELDS),
        Bad("a byte order mark first", b"\xef\xbb\xbf1,2.0,x,2024-01-01T00:00:00Z,1.5", _FIELDS),
        Bad("a record of 20 MB", b"1,2.0," + b"x" * 20_000_000 + b",2024-01-01T00:00:00Z,1.5", ROW),
    ],
    "text": [
        Bad("nothing at all", b"", ROW),
        Bad("a tombstone", None, _NONE),
        Bad("bytes that are not UTF-8", b"\xc3\x28", _UTF8),
        Bad("control characters", b"\x00\x07\x1b[2J", ROW),
        Bad("a record of 20 MB", b"x" * 20_000_000, ROW),
    ],
    "raw": [
        Bad("nothing at all", b"", ROW),
        Bad("a tombstone", None, _NONE),
        Bad("bytes that are not UTF-8", b"\xff\x00\xfe", ROW),
    ],
}


def parquet_bytes(first: int, rows: int = 40) -> bytes:
    """A Parquet file of two row groups."""
    numbers = [*range(first, first + rows)]
    return _parquet(id=numbers, user=[f"u{n * 7919 % 10007}" for n in numbers])


def _parquet(**columns: Any) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    made = io.BytesIO()
    parquet.write_table(pa.table(columns), made, compression="zstd", row_group_size=20)
    return made.getvalue()


def damaged(first: int) -> bytes:
    """The same with the second row group turned over."""
    from pyarrow import parquet

    made = bytearray(parquet_bytes(first))
    column = parquet.ParquetFile(io.BytesIO(made)).metadata.row_group(1).column(1)
    start = column.dictionary_page_offset or column.data_page_offset
    for at in range(start, start + column.total_compressed_size):
        made[at] ^= 0x5A
    return bytes(made)


def other_type(first: int = 0) -> bytes:
    """A Parquet file whose `id` is a text."""
    return _parquet(id=[str(first)], user=["ann"])


def _narrow(first: int) -> bytes:
    import pyarrow as pa

    return _parquet(id=pa.array([first], pa.int32()), user=["ann"])


def _none(first: int) -> bytes:
    import pyarrow as pa

    return _parquet(id=pa.array([], pa.int64()), user=pa.array([], pa.string()))


@dataclass(frozen=True)
class BadFile:
    """One file: what is wrong with it, its bytes, for rows whose numbers begin somewhere, and where it ends."""

    what: str
    make: Callable[[int], bytes]
    ends: str


FILES: dict[str, list[BadFile]] = {
    "parquet": [
        BadFile("nothing wrong", parquet_bytes, ROWS),
        BadFile("nothing at all", lambda first: b"", EMPTY),
        BadFile("cut off in the middle", lambda first: parquet_bytes(first)[:500], NOT_PARQUET),
        BadFile("cut off before the last byte", lambda first: parquet_bytes(first)[:-1], NOT_PARQUET),
        BadFile("something behind the end", lambda first: parquet_bytes(first) + b"\n", NOT_PARQUET),
        BadFile("nothing but zeros", lambda first: bytes(len(parquet_bytes(first))), NOT_PARQUET),
        BadFile("CSV", lambda first: f"id,user\n{first},ann\n".encode(), NOT_PARQUET),
        BadFile("the second row group is damaged", damaged, DAMAGED),
        BadFile("a text for a number", other_type, OTHER_TYPE),
        BadFile("a narrower number", _narrow, ROWS),
        BadFile("a column nobody knows", lambda first: _parquet(id=[first], user=["ann"], new=[1]), ROWS),
        BadFile("a column that is gone", lambda first: _parquet(id=[first]), ROWS),
        BadFile("no rows", _none, NO_ROWS),
    ]
}


def markdown() -> str:
    """The page for readers."""
    lines = [
        "# Bad inputs",
        "",
        "Where records end that are not as they should be. No such record stops a flow: it is a row, or a dead letter",
        "with the reason that is given here. The list is run through Kafka by `tests/connectors/test_bad_inputs.py`.",
        "",
        "A Parquet file is taken whole or not at all: one that cannot be read is one dead letter, with its path in",
        "`file`, and its length, its time and what Spark says of it in `record`. The guide says what to do about it.",
        "",
        "A number for a DECIMAL is read with at most 1,000 characters and an exponent from -999 to 999. Others are",
        "values that do not fit, whatever they round to. Spark would make all their digits first, for minutes.",
    ]
    for name, inputs in INPUTS.items():
        schema = {"json": SCHEMA, "csv": CSV_SCHEMA}.get(name)
        lines += ["", f"## {name}", "", *([f"Read as `{schema}`.", ""] if schema else [])]
        lines += ["| input | ends as |", "|---|---|", *(f"| {bad.what} | {_end(bad.ends)} |" for bad in inputs)]
    for name, files in FILES.items():
        lines += ["", f"## {name}", "", f"Files, read as `{FILE_SCHEMA}`.", ""]
        lines += ["| file | ends as |", "|---|---|", *(f"| {bad.what} | {_end(bad.ends)} |" for bad in files)]
    return "\n".join(lines) + "\n"


def _end(ends: str) -> str:
    return ends if ends in (ROW, ROWS, NO_ROWS) else f'dead letter, "{ends}"'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
