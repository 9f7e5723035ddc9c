"""Records from text: what `headrace produce` reads, as pairs of key and value."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal

from headrace.errors import DataError, UsageError

Record = tuple[bytes | None, bytes | None]
Form = Literal["text", "json", "csv", "raw"]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to make records of bytes."""

    form: Form = "text"
    """text: a line is a value. json: a line is a JSON value. csv: rows under a header become JSON objects.
    raw: everything is one value."""
    key: str | None = None
    """The same key for every record."""
    key_column: str | None = None
    """The field of a JSON object, or the column of a CSV row, whose value is the key."""
    key_separator: str | None = None
    """In text, what stands between key and value."""
    null: str | None = None
    """The text that stands for no value at all, which removes a key from a compacted topic."""

    def __post_init__(self) -> None:
        if sum(option is not None for option in (self.key, self.key_column, self.key_separator)) > 1:
            raise UsageError("a record has one key", hint="use one of --key, --key-column and --key-separator")
        if self.key_column is not None and self.form not in ("json", "csv"):
            raise UsageError(f"{self.form} records have no columns", hint="--format json or --format csv")
        if self.key_separator is not None and (self.form != "text" or not self.key_separator):
            raise UsageError("a key separator is for text records, and is not empty", hint="--format text")


def read_records(stream: BinaryIO, reading: Reading, name: str = "input") -> Iterator[Record]:
    """The records of a stream, one by one; a bad line is a DataError with its number."""
    fixed = None if reading.key is None else reading.key.encode()
    if reading.form == "raw":
        yield fixed, stream.read()
        return
    pairs = _csv(stream, reading, name) if reading.form == "csv" else _lines(stream, reading, name)
    null = None if reading.null is None else reading.null.encode()
    for key, value in pairs:
        yield key if fixed is None else fixed, None if null is not None and value == null else value


def _lines(stream: BinaryIO, reading: Reading, name: str) -> Iterator[tuple[bytes | None, bytes]]:
    separator = (reading.key_separator or "").encode()
    null = None if reading.null is None else reading.null.encode()
    for number, line in enumerate(_complete_lines(stream), 1):
        if reading.form == "json":
            if line.strip() and line != null:
                yield _json_key(line, reading.key_column, f"{name}:{number}"), line
            elif line == null:
                yield None, line
        elif separator:
            key, found, value = line.partition(separator)
            if not found:
                raise DataError(f'{name}:{number}: the line has no "{reading.key_separator}" between key and value')
            yield key, value
        else:
            yield None, line


def _complete_lines(stream: BinaryIO) -> Iterator[bytes]:
    for line in stream:
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _json_key(line: bytes, column: str | None, place: str) -> bytes | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{place}: the line is not JSON: {error}", hint="--format text sends lines as they are"
        ) from None
    if column is None:
        return None
    if not isinstance(found, dict) or column not in found:
        has = ", ".join(found) if isinstance(found, dict) else "no fields"
        raise DataError(f'{place}: the record has no field "{column}" for its key', hint=f"it has {has}")
    return _key_bytes(found[column])


def _key_bytes(value: object) -> bytes | None:
    """A key as others would write it: text as it is, the rest as JSON."""
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, separators=(",", ":")).encode()


def _csv(stream: BinaryIO, reading: Reading, name: str) -> Iterator[tuple[bytes | None, bytes]]:
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    try:
        rows = csv.reader(text, strict=True)
        header = next(rows, None)
        if header is None:
            return
        if reading.key_column is not None and reading.key_column not in header:
            raise DataError(
                f'{name}:1: there is no column "{reading.key_column}"', hint=f"there are {', '.join(header)}"
            )
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                raise DataError(
                    f"{name}:{rows.line_num}: the row has {len(row)} values, the header {len(header)} names"
                )
            fields = dict(zip(header, row, strict=True))
            key = None if reading.key_column is None else fields[reading.key_column].encode()
            yield key, json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{name}: this is not CSV in UTF-8: {error}") from None
    finally:
        text.detach()  # closing the stream is for whoever opened it
