"""Records made of text, JSON, CSV and bytes, and shown again."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataError, UsageError
from headrace.log.consume import Consumed
from headrace.log.records import Reading, Record, read_records
from headrace.log.show import show


def read(data: bytes, **options: str) -> list[Record]:
    return list(read_records(io.BytesIO(data), Reading(**options)))  # type: ignore[arg-type]


def test_a_line_of_text_is_a_value() -> None:
    assert read(b"one\r\ntwo\n\nlast") == [(None, b"one"), (None, b"two"), (None, b""), (None, b"last")]


def test_bytes_that_are_no_text_pass_through_lines() -> None:
    assert read(b"\xff\xfe\n") == [(None, b"\xff\xfe")]


def test_a_separator_splits_key_and_value_once() -> None:
    assert read(b"a:1:2\nb:\n", key_separator=":") == [(b"a", b"1:2"), (b"b", b"")]


def test_a_line_without_the_separator_is_an_error_with_its_number() -> None:
    with pytest.raises(DataError, match="input:2"):
        read(b"a:1\nb\n", key_separator=":")


def test_json_lines_keep_their_bytes_and_give_their_key() -> None:
    lines = b'{"user": "ann",  "n": 1}\n\n{"user": 7}\n{"user": null}\n'
    found = read(lines, form="json", key_column="user")
    assert found == [(b"ann", b'{"user": "ann",  "n": 1}'), (b"7", b'{"user": 7}'), (None, b'{"user": null}')]


@pytest.mark.parametrize(("line", "what"), [(b"{", "is not JSON"), (b"3", "no field"), (b'{"a": 1}', "no field")])
def test_bad_json_lines_are_errors_with_their_number(line: bytes, what: str) -> None:
    with pytest.raises(DataError, match=what) as caught:
        read(b'{"user": 1}\n' + line + b"\n", form="json", key_column="user")
    assert caught.value.message.startswith("input:2: ")


def test_csv_rows_become_json_objects() -> None:
    found = read('\ufeffname,n\n"Zoë, ""Z""",1\nbob,\n'.encode(), form="csv", key_column="name")
    assert [(k, json.loads(v or b"")) for k, v in found] == [
        ('Zoë, "Z"'.encode(), {"name": 'Zoë, "Z"', "n": "1"}),
        (b"bob", {"name": "bob", "n": ""}),
    ]


def test_csv_that_does_not_fit_its_header_is_an_error() -> None:
    with pytest.raises(DataError, match="input:3: the row has 1 values, the header 2 names"):
        read(b"a,b\n1,2\n3\n", form="csv")
    with pytest.raises(DataError, match='no column "c"'):
        read(b"a,b\n", form="csv", key_column="c")
    with pytest.raises(DataError, match="not CSV in UTF-8"):
        read(b"a\n\xff\n", form="csv")
    assert read(b"", form="csv") == []


def test_reading_csv_leaves_the_stream_open() -> None:
    stream = io.BytesIO(b"a\n1\n")
    list(read_records(stream, Reading(form="csv")))
    assert not stream.closed


def test_raw_is_one_value_with_its_key() -> None:
    assert read(b"\x00\n\xff", form="raw", key="k") == [(b"k", b"\x00\n\xff")]


def test_a_marker_stands_for_no_value() -> None:
    assert read(b"a=1\na=NULL\n", key_separator="=", null="NULL") == [(b"a", b"1"), (b"a", None)]


@pytest.mark.parametrize(
    "options",
    [
        {"key": "a", "key_separator": ":"},
        {"key_column": "a"},
        {"form": "json", "key_separator": ":"},
        {"key_separator": ""},
    ],
)
def test_options_that_make_no_sense_together_are_misuse(options: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        Reading(**options)  # type: ignore[arg-type]


def record(key: bytes | None, value: bytes | None) -> Consumed:
    return Consumed(topic="t", partition=1, offset=5, timestamp=1_500, key=key, value=value, headers=(("h", b"x"),))


def test_a_record_is_shown_as_text_json_or_bytes() -> None:
    found = record(b"k", b'{"a": [1, 2]}')
    assert show(found) == b'{"a": [1, 2]}\n'
    assert show(found, metadata=True) == b'1:5\t1970-01-01T00:00:01.500Z\tk\t{"a": [1, 2]}\n'
    assert show(found, "json") == b'{"a":[1,2]}\n'
    assert show(found, "raw") == b'{"a": [1, 2]}'
    assert json.loads(show(found, "json", metadata=True)) == {
        "topic": "t",
        "partition": 1,
        "offset": 5,
        "timestamp": "1970-01-01T00:00:01.500Z",
        "key": "k",
        "headers": {"h": "x"},
        "value": {"a": [1, 2]},
    }


def test_bytes_that_are_no_text_are_shown_in_base64() -> None:
    shown = json.loads(show(record(b"\xff", b"\xfe\x00"), "json", metadata=True))
    assert (shown["key_base64"], shown["value_base64"]) == ("/w==", "/gA=")
    assert json.loads(show(record(None, None), "json", metadata=True))["value"] is None


@given(st.none() | st.binary(), st.none() | st.binary(), st.booleans())
def test_any_record_is_shown_as_one_line_of_json(key: bytes | None, value: bytes | None, metadata: bool) -> None:
    line = show(record(key, value), "json", metadata)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    json.loads(line)
