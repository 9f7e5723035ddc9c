from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from headrace.formats.base import Format
from headrace.formats.csv import CsvFormat, CsvOptions
from headrace.formats.json import JsonFormat, JsonOptions
from headrace.formats.raw import RawFormat, RawOptions
from headrace.formats.text import TextFormat, TextOptions
from headrace.model import Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JSON, TEXT, RAW = JsonFormat(JsonOptions()), TextFormat(TextOptions()), RawFormat(RawOptions())
CSV = CsvFormat(CsvOptions())
UTC = dt.UTC


def decode(
    spark: SparkSession, form: Format[Any], values: list[bytes | None], schema: str
) -> list[tuple[dict[str, Any], str | None]]:
    """Each value's columns and reason, in order."""
    from pyspark.sql import functions as F

    frame = spark.createDataFrame([(n, value) for n, value in enumerate(values)], "n INT, value BINARY")
    row, reason = form.decode(F.col("value"), Schema.parse(schema))
    rows = frame.select("n", row.alias("row"), reason.alias("reason")).orderBy("n").collect()
    return [(r.row.asDict(recursive=True) if r.row else {}, r.reason) for r in rows]


def encode(spark: SparkSession, form: Format[Any], rows: list[tuple[Any, ...]], schema: str) -> list[bytes]:
    frame = spark.createDataFrame(rows, schema)
    return [bytes(r.value) for r in frame.select(form.encode(Schema.parse(schema)).alias("value")).collect()]


def test_json_reads_only_the_columns_that_are_wanted(spark: SparkSession) -> None:
    [(row, reason)] = decode(spark, JSON, [b'{"a": 1, "b": "not a number", "c": [1]}'], "a BIGINT")

    assert (row, reason) == ({"a": 1}, None)


JSON_REFUSED: list[tuple[bytes | None, str]] = [
    (b"{", "not a JSON object"),
    (b'{"a": 1', "not a JSON object"),
    (b'{"a": }', "not one JSON object"),
    (b'{"a": "one"}', "does not fit"),
    (b'{"a": 1.5}', "does not fit"),
    (b'{"a": 99999999999999999999}', "does not fit"),
    (b'{"a": true}', "does not fit"),
    (b'{"a": {"b": 1}}', "does not fit"),
    (b'{"t": "yesterday"}', "does not fit"),
    (b'{"d": "12x"}', "does not fit"),
    (b'{"d": 123456789012.5}', "does not fit"),
    (b'{"l": [1, "x"]}', "does not fit"),
    (b'{"l": 1}', "does not fit"),
    (b"5", "not a JSON object"),
    (b'"text"', "not a JSON object"),
    (b"null", "not a JSON object"),
    (b'[{"a": 1}]', "not a JSON object"),
    (b'{"a": 1} {"a": 2}', "not one JSON object"),
    (b'{"a": 1} x }', "not one JSON object"),
    (b"", "not a JSON object"),
    (b"   ", "not a JSON object"),
    (None, "no value"),
    (b'{"s": "\xff\xfe"}', "not UTF-8"),
    (b"\x00\x01\x02", "not a JSON object"),
]


def test_json_gives_a_reason_for_what_it_cannot_read(spark: SparkSession) -> None:
    schema = "a BIGINT, t TIMESTAMP, d DECIMAL(10,2), l ARRAY<INT>, s STRING"

    answers = decode(spark, JSON, [value for value, _ in JSON_REFUSED], schema)

    wrong = [
        (value, reason)
        for (value, words), (_, reason) in zip(JSON_REFUSED, answers, strict=True)
        if words not in (reason or "")
    ]
    assert wrong == []


def test_json_takes_what_is_readable(spark: SparkSession) -> None:
    values = [
        b'  {"a": 1, "t": "2026-01-02T03:04:05.678Z", "d": 1.25, "l": [1, null], "s": "x"}\r\n',
        b'{"t": "2026-01-02T05:04:05+02:00", "d": "1.25", "s": 12}',
        b'{"t": "2026-01-02T03:04:05", "s": {"deep": [1, {"b": "}"}]}}',
        b'{"t": 1767323045, "a": null, "s": "{\\"b\\": 1} {\\"c\\": 2}"}',
        b"{}",
    ]
    at = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    answers = decode(spark, JSON, values, "a BIGINT, t TIMESTAMP, d DECIMAL(10,2), l ARRAY<INT>, s STRING")

    assert [reason for _, reason in answers] == [None] * 5
    rows = [row for row, _ in answers]
    assert rows[0]["a"] == 1
    assert rows[0]["d"] == Decimal("1.25")
    assert rows[0]["l"] == [1, None]
    assert [row["t"] and row["t"].timestamp() for row in rows] == [
        at.timestamp() + 0.678,
        at.timestamp(),
        at.timestamp(),
        at.timestamp(),
        None,
    ]
    assert [row["s"] for row in rows] == ["x", "12", '{"deep":[1,{"b":"}"}]}', '{"b": 1} {"c": 2}', None]


def test_json_written_is_read_back_equal(spark: SparkSession) -> None:
    schema = (
        "i INT, d DECIMAL(12,3), f DOUBLE, b BOOLEAN, s STRING, x BINARY, day DATE, at TIMESTAMP, "
        "l ARRAY<STRUCT<k: STRING>>, m MAP<STRING, INT>"
    )
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    full = (1, Decimal("12.345"), 0.1, True, 'quo"te, ü\n', b"\x00\xff", dt.date(2026, 1, 2), at, [("a",)], {"k": 1})

    written = encode(spark, JSON, [full, (None,) * 10], schema)
    answers = decode(spark, JSON, list(written), schema)

    assert [reason for _, reason in answers] == [None, None]
    row = answers[0][0]
    assert row["at"].timestamp() == at.timestamp()
    assert bytes(row["x"]) == b"\x00\xff"
    assert {k: v for k, v in row.items() if k not in ("at", "x")} == {
        "i": 1,
        "d": Decimal("12.345"),
        "f": 0.1,
        "b": True,
        "s": 'quo"te, ü\n',
        "day": dt.date(2026, 1, 2),
        "l": [{"k": "a"}],
        "m": {"k": 1},
    }
    assert b'"i":null' in written[1]


def test_json_leaves_nulls_out_when_asked(spark: SparkSession) -> None:
    form = JsonFormat(JsonOptions(nulls=False))

    assert encode(spark, form, [(1, None)], "a INT, b INT") == [b'{"a":1}']


CSV_REFUSED: list[tuple[bytes | None, str]] = [
    (b"1", "2 fields"),
    (b"1,2,3", "2 fields"),
    (b"x,y", "does not fit"),
    (b"", "empty"),
    (None, "no value"),
    (b"1,\xff", "not UTF-8"),
]


def test_csv_gives_a_reason_for_what_it_cannot_read(spark: SparkSession) -> None:
    answers = decode(spark, CSV, [value for value, _ in CSV_REFUSED], "a INT, b STRING")

    wrong = [
        (value, reason)
        for (value, words), (_, reason) in zip(CSV_REFUSED, answers, strict=True)
        if words not in (reason or "")
    ]
    assert wrong == []


def test_csv_takes_what_is_readable(spark: SparkSession) -> None:
    values = [b'1,"a ""b"", c"', b"2,", b'3,""', b"4, spaced "]

    answers = decode(spark, CSV, values, "a INT, b STRING")

    assert answers == [
        ({"a": 1, "b": 'a "b", c'}, None),
        ({"a": 2, "b": None}, None),
        ({"a": 3, "b": ""}, None),
        ({"a": 4, "b": " spaced "}, None),
    ]


MANTISSAS = ["0", "1", "-1", "+5", ".5", "1.", "9.99", "-0.005", "0.00000000000049", "123456789012345678", "9" * 38]
POWERS = [f"{e}{sign}{power}" for power in (0, 2, 9, 18, 38, 39, 308, 999) for sign in ("", "+", "-") for e in "eE"]
DECIMALS = [f"{mantissa}{power}" for mantissa in MANTISSAS for power in ("", "e0005", "e-00999", *POWERS)]
DECIMALS += [
    " 1.5",
    "1.5 ",
    "\t1",
    "1\u00a0",
    "\u20091",
    "1 5",
    "abc",
    "-",
    "+",
    "e5",
    "1e",
    "1e+",
    "NaN",
    "Infinity",
    "0x1f",
    "1_0",
]
DECIMALS += [
    '""',
    '"1,000.5"',
    '"1e1,0"',
    '"1e,-2"',
    "\u0661e\u0661",
    "\uff11\uff12.5",
    "1d",
    "1f",
    "--1",
    "1.2.3",
    "\u22121",
]
DECIMALS += [
    "1" * 999,
    "0." + "0" * 900 + "1",
    "9999.995",
    "9999.994",
    "-9999.995",
    "\0",
    '"\n1"',
    '"1""0"',
    "1\x7f",
    "1\x1f",
]


@pytest.mark.parametrize("kind", ["DECIMAL(6,2)", "DECIMAL(18,0)", "DECIMAL(38,10)", "DECIMAL(38,38)"])
def test_csv_reads_decimals_as_spark_reads_them(spark: SparkSession, kind: str) -> None:
    from pyspark.sql import functions as F

    schema, values = f"d {kind}, s STRING", [f"{text},x" for text in DECIMALS]
    options = {**CSV._reading(), "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}
    theirs = (
        spark.createDataFrame(list(enumerate(values)), "n INT, value STRING")
        .select("n", F.from_csv("value", f"{schema}, bad STRING", options).alias("row"))
        .orderBy("n")
        .collect()
    )

    ours = decode(spark, CSV, [value.encode() for value in values], schema)

    expected = [(value, r.row.bad is None, r.row.d) for value, r in zip(values, theirs, strict=True)]
    assert [(value, why is None, row["d"]) for value, (row, why) in zip(values, ours, strict=True)] == expected
    assert 20 < sum(good for _, good, _ in expected) < len(values) - 20


HUGE = ["1e34567890", "1e-34567890", "-1E+1000", "0.1e-1000", "0e99999999", "1e2147483647", "1e-2147483647"]
HUGE += ['"1e3,4567,890"', '"1e,-34567890"', "1e" + "\u0663" * 8, "9" * 400_000, "0." + "0" * 400_000 + "1"]


def test_csv_refuses_a_huge_decimal_at_once(spark: SparkSession) -> None:
    bad = decode(spark, CSV, [f"{number},x".encode() for number in HUGE], "d DECIMAL(6,2), s STRING")
    good = decode(spark, CSV, [f"1.5,{number}".encode() for number in HUGE], "d DECIMAL(6,2), s STRING")

    assert all("does not fit" in (reason or "") for _, reason in bad)
    assert good == [({"d": Decimal("1.50"), "s": number.strip('"')}, None) for number in HUGE]


def test_csv_has_the_separator_it_is_told(spark: SparkSession) -> None:
    form = CsvFormat(CsvOptions(separator=";", null="NULL"))

    assert decode(spark, form, [b"1;a,b", b"2;NULL"], "a INT, b STRING") == [
        ({"a": 1, "b": "a,b"}, None),
        ({"a": 2, "b": None}, None),
    ]


def test_csv_written_is_read_back_equal(spark: SparkSession) -> None:
    schema = "i INT, d DECIMAL(12,3), b BOOLEAN, s STRING, day DATE, at TIMESTAMP, n TIMESTAMP_NTZ"
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    local = dt.datetime(2026, 1, 2, 3, 4, 5, 600000)
    full = (1, Decimal("12.345"), True, ' quo"te, ü ', dt.date(2026, 1, 2), at, local)

    written = encode(spark, CSV, [full, (None,) * 7, (2, None, None, "", None, None, None)], schema)
    answers = decode(spark, CSV, list(written), schema)

    assert [reason for _, reason in answers] == [None, None, None]
    assert answers[0][0]["at"].timestamp() == at.timestamp()
    assert {k: v for k, v in answers[0][0].items() if k != "at"} == {
        "i": 1,
        "d": Decimal("12.345"),
        "b": True,
        "s": ' quo"te, ü ',
        "day": dt.date(2026, 1, 2),
        "n": local,
    }
    assert answers[1][0] == dict.fromkeys(("i", "d", "b", "s", "day", "at", "n"))
    assert answers[2][0]["s"] == ""


def test_csv_writes_nested_columns_as_json(spark: SparkSession) -> None:
    assert encode(spark, CSV, [(1, [1, 2])], "a INT, l ARRAY<INT>") == [b'1,"[1,2]"']
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    [written] = encode(spark, CSV, [(1, [at])], "a INT, l ARRAY<TIMESTAMP>")
    assert written == b'1,"[""2026-01-02T03:04:05.678901Z""]"'


def test_csv_writes_a_null_that_is_alone(spark: SparkSession) -> None:
    assert encode(spark, CSV, [(None,), ("a",)], "a STRING") == [b"", b"a"]
    assert encode(spark, CsvFormat(CsvOptions(null="NULL")), [(None,)], "a STRING") == [b"NULL"]


def test_text_is_taken_as_it_is(spark: SparkSession) -> None:
    answers = decode(spark, TEXT, ["ü".encode(), b"", None, b"\xff"], "value STRING")

    assert [row["value"] for row, _ in answers[:2]] == ["ü", ""]
    assert [reason is None for _, reason in answers] == [True, True, False, False]


def test_raw_is_taken_as_it_is(spark: SparkSession) -> None:
    answers = decode(spark, RAW, [b"\xff\x00", b"", None], "value BINARY")

    assert [row["value"] and bytes(row["value"]) for row, _ in answers[:2]] == [b"\xff\x00", bytearray()]
    assert [reason for _, reason in answers] == [None, None, "the record has no value"]


def test_text_and_raw_write_exactly_one_column(spark: SparkSession) -> None:
    assert encode(spark, TEXT, [("ü",)], "word STRING") == ["ü".encode()]
    assert encode(spark, RAW, [(b"\xff",)], "bytes BINARY") == [b"\xff"]
    for form in (TEXT, RAW):
        with pytest.raises(ValueError, match="exactly one column"):
            form.encode(Schema.parse("a STRING, b STRING"))


def test_a_record_is_parsed_once(spark: SparkSession) -> None:
    """Parsing is most of the work: the reason must not parse the record again. Counted by the plan Spark runs."""
    from pyspark.sql import functions as F

    frame = spark.range(1).select(F.lit(b'{"a": 1, "b": 2}').alias("value"))
    for form, function in ((JSON, "json.read"), (CSV, "from_csv")):
        row, reason = form.decode(F.col("value"), Schema.parse("a INT, b INT"))
        branches = re.findall(r"THEN (.*?) END", str(reason._jc.toString()))  # type: ignore[operator]
        assert function in str(reason._jc.toString())  # type: ignore[operator]
        assert not any(function in branch for branch in branches)
        assert frame.select(row.alias("row"), reason.alias("reason")).count() == 1
