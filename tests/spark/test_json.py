"""JSON read and written in one pass over its bytes, against Spark: every record and every row has the same answer."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from bench.rules import decode_by_spark
from headrace.formats.json import JsonFormat, JsonOptions
from headrace.model import Schema
from headrace.model.types import Array, DataType, Field, Map, Struct
from tests.bad_inputs import INPUTS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = Schema.parse(
    "s STRING, b BOOLEAN, t TINYINT, m SMALLINT, i INT, l BIGINT, d DOUBLE, at TIMESTAMP, day DATE, "
    "c DECIMAL(12,2), f DECIMAL(4,4), h DECIMAL(18,0)"
)
NESTED = Schema.parse(
    "l ARRAY<BIGINT>, t ARRAY<STRING>, ll ARRAY<ARRAY<DOUBLE>>, "
    "o STRUCT<x: INT, s: STRING, d: STRUCT<at: TIMESTAMP, y: DATE>>, "
    "m MAP<STRING, STRING>, mo MAP<STRING, STRUCT<b: BOOLEAN>>, os ARRAY<STRUCT<k: STRING, n: DECIMAL(12,2)>>, "
    "w DECIMAL(38,10), z DECIMAL(19,19), f FLOAT"
)
WHOLE = ["0", "-0", "7", "-7", "127", "128", "-129", "32768", "99999", "2147483647", "2147483648", "-2147483649"]
WHOLE += ["999999999", "1234567890", "999999999999999999", "9223372036854775807", "9223372036854775808", "1" * 400]
NUMBERS = ["0.0", "-0.0", "1.5", "-1.5", "1e3", "1E-3", "1e+5", "1e22", "1e99", "1e308", "1e309", "1e-400", "5e-324"]
NUMBERS += ["0.1", "0.30000000000000004", "123456789012345678.12345678901234567", "1.7976931348623157e308", "00", "01"]
NUMBERS += [
    "1.",
    ".5",
    "+1",
    "NaN",
    "Infinity",
    "-Infinity",
    "0x1f",
    "1_000",
    "9007199254740993",
    "2.2250738585072011e-308",
]
TEXTS = [
    "",
    "a",
    "view",
    "straße",
    "東京",
    "😀",
    "a b",
    " a ",
    "1",
    "1.5",
    "true",
    "null",
    "NaN",
    "a/b",
    "\x7f",
    "\u2028",
]
ESCAPED = [r'"\n"', r'"\""', r'"\\"', r'"\/"', r'"\u00e9"', r'"\u0000"', r'"\ud83d\ude00"', r'"\ud800"', r'"\x"']
ESCAPED += ['"a\tb"', '"a', "'a'", r'"\u12"', r'"a\u0022b"']
TIMES = [
    "2024-02-03T04:05:06Z",
    "2024-02-03T04:05:06.7Z",
    "2024-02-03T04:05:06.789012Z",
    "2024-02-03T04:05:06.7890123Z",
]
TIMES += ["2024-02-03T04:05:06", "2024-02-03 04:05:06", "2024-02-03T04:05:06+02:00", "2024-02-03T04:05:06.5-09:30"]
TIMES += ["2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "2024-04-31T00:00:00Z", "2024-13-01T00:00:00Z", "2024-02-03"]
TIMES += [
    "2024-02-03T24:00:00Z",
    "2024-02-03T23:59:60Z",
    "2024-02-03T04:05Z",
    "2024-02-03T04:05:06z",
    "1700-01-01T00:00:00Z",
]
TIMES += [
    "2024-02-03T04:05:06+0200",
    "2024-02-03T04:05:06+19:00",
    "2024-02-03T04:05:06 UTC",
    "2024-2-3T4:5:6Z",
    "20240203",
]
TIMES += [
    "+2024-02-03T04:05:06Z",
    "1969-12-31T23:59:59.999999Z",
    "2199-12-31T23:59:59.999999+13:59",
    " 2024-02-03T04:05:06Z",
]
TIMES += [
    "0001-01-01",
    "9999-12-31",
    "2024-01-31",
    "2024-06-30",
    "2024-06-31",
    "yesterday",
    "2024-02-03T04:05:06Europe/Paris",
]
OTHERS = [
    "true",
    "false",
    "null",
    "{}",
    "[]",
    '{"s": "x"}',
    '[1, {"s": [2]}]',
    "[[[[1]]]]",
    '{"a": {"b": {"c": 1}}}',
    "",
]
VALUES_IN_JSON = [*WHOLE, *NUMBERS, *(json.dumps(t, ensure_ascii=False) for t in (*TEXTS, *TIMES)), *ESCAPED, *OTHERS]
VALUES_IN_JSON += [json.dumps(t) for t in (*TEXTS, *WHOLE)]  # with escapes; numbers in quotes


def records() -> list[bytes | None]:
    """Every value in every column, and records that are odd as a whole."""
    made: list[str] = [f'{{"{name}": {value}}}' for name in COLUMNS.names for value in VALUES_IN_JSON]
    draw = random.Random(5)
    good = {"s": '"x"', "b": "true", "t": "1", "m": "2", "i": "3", "l": "4", "d": "5.5"}
    good |= {"at": '"2024-01-01T00:00:00Z"', "day": '"2024-01-01"'}
    for _ in range(300):  # several fields, in any order, some twice, some unknown, spaced as it comes
        names = draw.choices([*good, "x", "y z", "S", ""], k=draw.randrange(1, 8))
        pairs = [(n, good.get(n, "1") if draw.random() < 0.8 else draw.choice(VALUES_IN_JSON)) for n in names]
        space = draw.choice(["", " ", "\n", "\t ", "\r\n"])
        made.append(
            f"{space}{{{space}" + f"{space},{space}".join(f'"{n}"{space}:{space}{v}' for n, v in pairs) + f"{space}}}"
        )
    made += [
        '{"s":"a"{"i":1}',
        ',"s":"a"}',
        '{"s":"a",}',
        '{"s" "a"}',
        '{"\\u0073": "a"}',
        '{"s": "a"} {"s": "b"}',
        "{}",
        "{",
    ]
    made += [
        '{"s": "a"',
        '"s": "a"}',
        "[]",
        '[{"s": "a"}]',
        '{"s": "a"}x',
        '/**/{"s": "a"}',
        '{"s": "a" "i": 1}',
        "{,}",
    ]
    made += [json.dumps({"x": "y" * 50_000, "s": "long"}), json.dumps({"y" * 50_001: 1, "s": "long name"})]
    wrong = [b'{"s": "\xff"}', b'\xef\xbb\xbf{"s": "a"}', b"", b" ", None, '{"s": "a"}'.encode("utf-16")]
    return [
        *(text.encode() for text in made),
        *wrong,
        *(bad.value for bad in INPUTS["json"] if len(bad.value or b"") < 10**6 and not HUGE.search(bad.value or b"")),
    ]


HUGE = re.compile(rb"[eE][+-]?\d{4,}")
"""What Spark is not asked about: it makes all digits of a DECIMAL, and 1e34567890 takes it minutes."""


def told(field: Field) -> str:
    """A column as a text that tells -0.0 from 0.0, null from "null", and a time that Python has no year for."""
    name = field.name
    if isinstance(field.type, Array | Map | Struct):
        return f"to_json(struct({name}), map('ignoreNullFields', 'false')) AS {name}"
    return f"CAST({'unix_micros(at)' if name == 'at' else name} AS STRING) AS {name}"


def compared(spark: SparkSession, given: list[bytes | None], schema: Schema) -> list[str]:
    """Where reading in one pass differs from Spark."""
    from pyspark.sql import functions as F

    frame = spark.createDataFrame(list(enumerate(given)), "n INT, value BINARY").repartition(1)
    frame = frame.sortWithinPartitions("n")
    row, bad = decode_by_spark(None, F.col("value"), schema)
    ours, reason = JsonFormat(JsonOptions()).decode(F.col("value"), schema)
    texts = [told(field) for field in schema]

    def collected(bad: Column, row: Column) -> list[Any]:
        read = frame.select("n", bad.alias("bad"), row.alias("r")).select("n", "bad", "r.*")
        return sorted(read.selectExpr("n", "bad", *texts).collect())

    wrong = []
    for expected, found in zip(collected(bad.isNotNull(), row), collected(reason.isNotNull(), ours), strict=True):
        names = ["bad"] if expected["bad"] or found["bad"] else schema.names
        wrong += [
            f"{given[found['n']]!r}: {name}: {found[name]}, Spark says {expected[name]}"
            for name in names
            if found[name] != expected[name]
        ]
    return wrong


def test_every_record_is_read_as_spark_reads_it(spark: SparkSession) -> None:
    wrong = compared(spark, records(), COLUMNS)
    assert not wrong, "\n".join(wrong[:40])


SHAPES = ['"l": @', '"l": [@]', '"l": [1, @, 2]', '"t": [@, "b"]', '"ll": [[], [@], null, [1.5, @]]', '"o": @']
SHAPES += ['"o": {"x": @}', '"o": {"s": @, "y": 1}', '"o": {"d": {"at": @}, "x": 1}', '"o": {"d": {"y": @}}', '"m": @']
SHAPES += ['"m": {"a": @}', '"m": {"a": "b", "c": @}', '"mo": {"a": {"b": @}}', '"mo": {"": @}', '"os": [{"k": @}]']
SHAPES += [
    '"os": [{"n": @}, {}, {"k": "a"}, null]',
    '"os": @',
    '"w": @',
    '"z": @',
    '"f": @',
    '"q": {"o": [@]}, "l": []',
]
ODDLY_NESTED = [
    '"l": [1, ]',
    '"l": [,]',
    '"l": [1 2]',
    '"l": [1',
    '"o": {"x": 1, "x": 2}',
    '"o": {"x": 1, }',
    '"o": {',
    "]",
]
ODDLY_NESTED += ['"m": {"a": "b", "a": "c"}', '"m": {"a": "b", "b": "b", "a": "b"}', '"m": {"\\u0061": "b", "a": "c"}']
ODDLY_NESTED += ['"m": {"é": "ü", "": ""}', '"m": {a: "b"}', '"m": {"a" "b"}', '"o": {"\\u0078": 1}', '"o": {"X": 1}']
ODDLY_NESTED += ['"o": {"x": 1}, "o": {"x": 2}', '"l": [1}', '"o": {"x": 1]', '"ll": [[1], [2]', '"ll": [[1]], [2]]']
ODDLY_NESTED += ['"l": [ 1 ,\t2\r\n, 3 ] , "o" : { "x" : 1 , "s" : "a" }', '"o": {"s": "é", "d": null}, "t": ["é"]']
ODDLY_NESTED += [f'"m": {{{", ".join(f"{json.dumps(str(n))}: {json.dumps(str(n))}" for n in range(40))}}}', '"l": {}']
ODDLY_NESTED += [f'"l": {[*range(100)]}', f'"os": [{", ".join(["{}"] * 9)}]', '"o": []', '"m": []', '"o": {"d": {}}']


def test_every_value_is_read_as_spark_reads_it_within_lists_maps_and_structs(spark: SparkSession) -> None:
    made = [f"{{{shape.replace('@', value)}}}" for shape in SHAPES for value in VALUES_IN_JSON]
    made += [f"{{{text}}}" for text in ODDLY_NESTED]
    given = [text.encode() for text in made if not HUGE.search(text.encode())]
    wrong = compared(spark, given, NESTED)
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:40])


VALID = [
    '{"s": "straße 東京 😀", "b": true, "t": -12, "m": 1234, "i": 123456789, "l": -123456789012345678, "d": 1.5e-3}',
    '{"at": "2024-02-29T23:59:59.123456+05:30", "day": "1999-12-31", "c": -1234567890.12, "f": 0.0625, "h": 7}',
    '{"x": [1, {"y": "\\u00e9\\n"}, null], "s": "a\\"b\\\\c", "d": 0.1, "b": false, "l": 0, "day": "0001-01-01"}',
    ' {"s" : "" ,\t"c" : 0.10 , "m": -0, "at" : "1900-01-01T00:00:00Z", "h":-123456789012345678, "f":-0.9999}\r\n',
]
VALID_NESTED = [
    '{"l": [1, -22, null, 333], "t": ["a", "straße", "\\n\\u00e9", null], "ll": [[1.5, -2], [], null], "f": 1.5}',
    '{"o": {"x": 7, "s": "a", "d": {"at": "2024-02-29T23:59:59.5Z", "y": "2024-02-29"}}, "w": 12345678.9012345678}',
    ' { "m" : { "a" : "b" , "é":"ü", "c": null } ,\t"mo": {"x": {"b": true}, "y": {}, "z": null}, "l" : [ ] }\n',
    '{"os": [{"k": "a", "n": 1.25}, {"n": -3, "other": [1, {"k": 2}]}, null], "o": {"q": {}, "d": null}, "z": 0.5}',
]
BROKEN = [
    b"\xff",
    b"\xc3",
    b"\xc3\x28",
    b"\xc0\x80",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\x80",
    b"\x00",
]
"""Bytes that are no UTF-8, or only for some."""


def mutated(count: int, valid: list[str]) -> list[bytes | None]:
    """Valid records with a few bytes changed, left out, put in or doubled."""
    draw = random.Random(11)
    likely = [bytes([c]) for c in b'{}[]":,\\ \n\t\r-+.0123456789eEntfasu/TZ\x00\x1f\x7f'] + BROKEN
    made: list[bytes | None] = []
    for number in range(count):
        record = valid[number % len(valid)].encode()
        for _ in range(draw.choice([1, 1, 1, 2, 3])):
            at = draw.randrange(len(record))
            new = draw.choice(likely) if draw.random() < 0.7 else bytes([draw.randrange(256)])
            end = at + draw.choice([0, 1, 1, 1, 2, 5])
            doubled = record[at:end] * 2
            record = record[:at] + (doubled if draw.random() < 0.15 else new * draw.choice([0, 1, 1, 1])) + record[end:]
        if not HUGE.search(record):
            made.append(record)
    return made


@pytest.mark.parametrize(("columns", "valid"), [(COLUMNS, VALID), (NESTED, VALID_NESTED)], ids=["flat", "nested"])
def test_a_valid_record_with_some_bytes_changed_is_read_as_spark_reads_it(
    spark: SparkSession, columns: Schema, valid: list[str]
) -> None:
    given = mutated(6000, valid)
    broken = [f'{{"s": "a@b", "x@": {{"y": "@"}}, "l": {n}}}'.encode().replace(b"@", b) for n, b in enumerate(BROKEN)]
    wrong = compared(spark, [*(text.encode() for text in valid), *broken, *given], columns)
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:40])
    plain = sum(is_plain(spark, value, columns) for value in given[:400] if value is not None)
    assert 20 < plain < 380, "both ways are taken"


DAYS = ["0000-01-01", "0001-01-01", "0001-12-31", "0099-06-01", "1000-02-28", "1500-02-29", "1582-10-04", "1582-10-05"]
DAYS += ["1582-10-14", "1582-10-15", "1600-02-29", "1699-12-31", "1700-02-29", "1899-12-31", "1900-01-01", "1900-02-29"]
DAYS += ["2000-02-29", "2100-02-29", "2199-12-31", "2200-01-01", "9999-12-31", "10000-01-01", "+10000-01-01"]
DAYS += [
    "-0001-01-01",
    "-2024-01-01",
    "99999-01-01",
    "294247-01-10",
    "294248-01-01",
    "2024-03-31",
    "2024-10-27",
    "1970",
]
HOURS = ["", "T00:00:00Z", "T02:30:00", " 02:30:00.5", "T23:59:59.999999Z", "T00:00:00+14:00", "T00:00:00-13:59"]
HOURS += ["T00:00:00+18:00", "T00:00:00+00:00", "T00:00:00-00:00", "T12:00:00+05:45", "T01:30:00-03:30", "T2:30:00Z"]
EXACT = [
    "0.00",
    "-0.00",
    "0.001",
    "0.005",
    "9999999999.99",
    "99999999999.9",
    "-9999999999.995",
    "1e2",
    "1E-2",
    "0.9999",
]
EXACT += ["0.99999", "1.0000", "-0.0001", "999999999999999999", "-999999999999999999", "1000000000000000000", '"1.50"']
EXACT += ["000", "1.", "123456789012345678901234567890", "0.1e1", "12.5e0", "00.5", "-", "5.0", "-5.00000000000000000"]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns"])
def test_days_of_all_years_and_exact_numbers_are_read_as_spark_reads_them_in_every_zone(
    spark: SparkSession, zone: str
) -> None:
    made = [json.dumps({name: day + hour}) for day in DAYS for hour in HOURS for name in ("at", "day")]
    made += [json.dumps({"at": text}) for text in TIMES]
    made += [f'{{"{name}": {number}}}' for number in EXACT for name in ("c", "f", "h")]
    kept = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        wrong = compared(spark, [text.encode() for text in made], COLUMNS)
    finally:
        spark.conf.set("spark.sql.session.timeZone", kept)
    assert not wrong, "\n".join(wrong[:40])


MANTISSAS = ["0", "1", "-1", "5", "9.99", "-0.005", "0.00000000000000000049", "123456789012345678", "9" * 38, "1" * 900]
POWERS = [0, 1, 2, 3, 5, 9, 10, 16, 17, 18, 19, 27, 28, 36, 37, 38, 39, 99, 100, 308, 309, 400, 998, 999]
SIGNED = [f"{sign}{power}" for power in POWERS for sign in ("", "+", "-")] + [
    "0005",
    "-0005",
    "00999",
    "-00999",
    "",
    "x",
]
EXPONENTS = [f"{mantissa}{e}{power}" for mantissa in MANTISSAS for e in "eE" for power in SIGNED]
QUOTED = [
    "1,000.5",
    "1e1,0",
    "1,e,1,",
    "1e,-2",
    "1e-,2",
    "\u0661e\u0661",
    "\uff11\uff12.5",
    "1\\u0065\\u0032",
    " 1e2",
    "1e2 ",
]
WIDE = Schema.parse("w DECIMAL(38,10), z DECIMAL(38,0), e DECIMAL(19,19)")
DEEP = Schema.parse(
    "l ARRAY<DECIMAL(6,2)>, m MAP<STRING, DECIMAL(38,5)>, o STRUCT<d: DECIMAL(18,6), s: STRING>, s STRING"
)


@pytest.mark.parametrize("columns", [COLUMNS.keeping("cfh"), WIDE])
def test_numbers_with_exponents_are_read_as_spark_reads_them(spark: SparkSession, columns: Schema) -> None:
    quoted = [f'"{number}"' for number in (*EXPONENTS[::2], *QUOTED)]
    made = [f'{{"{name}": {number}}}' for number in (*EXPONENTS, *quoted) for name in columns.names]
    wrong = compared(spark, [text.encode() for text in made], columns)
    assert not wrong, "\n".join(wrong[:40])


def test_numbers_with_exponents_are_read_as_spark_reads_them_in_lists_maps_and_structs(spark: SparkSession) -> None:
    made = [
        shape.replace("@", number)
        for number in (*EXPONENTS[::3], *(f'"{text}"' for text in QUOTED))
        for shape in ('{"l": [1, @]}', '{"m": {"a": @}, "s": "1e34567890"}', '{"o": {"d": @, "s": "12e45678"}}')
    ]
    wrong = compared(spark, [text.encode() for text in made], DEEP)
    assert not wrong, "\n".join(wrong[:40])


TOO_HUGE = [
    "1e34567890",
    "-1E+34567890",
    "1e-34567890",
    "0.1e1000",
    "1e-1000",
    "0e99999999",
    "1e2147483647",
    "1e-2147483647",
]
TOO_HUGE_IN_QUOTES = [*TOO_HUGE, "1e3,45,67890", "1e,-34567890", "1\\u006534567890", "1e\\u003334567890", "9" * 400_000]
TOO_HUGE_IN_QUOTES += [f"1e{''.join(chr(0x660 + n) for n in (3, 4, 5, 6, 7, 8, 9, 0))}", "\\u0661e" + "\\u0669" * 8]
TOO_HUGE_IN_QUOTES += ["0." + "0" * 400_000 + "1", "\\u0669" * 400_000]


AT_A_DECIMAL = [
    '{"c": @}',
    '{"s": 5, "x": [{"c": 1}], "c": @}',
    '{"c": @, "c": 1}',
    '{}], "r": [{"c": @}',
    '{"c": @, "c"',
]
ELSEWHERE = ['{"s": @, "c": 1}', '{"C": @}', '{"x": {"c": @}, "c": "1.5"}', '{"s": {"c": @}}']
AT_A_DEEP_ONE = ['{"l": [1, @]}', '{"m": {"a": @}}', '{"o": {"s": "x", "d": @}}', '{"o": {"d": @, "d": 1}, "s": "x"}']
ELSEWHERE_DEEP = ['{"s": @, "l": [1]}', '{"o": {"s": @, "D": @}}', '{"d": @}', '{"s": [{"d": @}], "m": {"d": 1}}']


@pytest.mark.parametrize(
    ("columns", "bad", "good"), [(COLUMNS, AT_A_DECIMAL, ELSEWHERE), (DEEP, AT_A_DEEP_ONE, ELSEWHERE_DEEP)]
)
def test_a_huge_number_is_bad_at_once_where_a_decimal_is_and_nowhere_else(
    spark: SparkSession, columns: Schema, bad: list[str], good: list[str]
) -> None:
    from pyspark.sql import functions as F

    numbers = [*TOO_HUGE, *(f'"{text}"' for text in TOO_HUGE_IN_QUOTES)]
    given = [(shape.replace("@", n), shape in bad) for shape in (*bad, *good) for n in numbers]
    frame = spark.createDataFrame([(t[:80], t.encode(), b) for t, b in given], "text STRING, value BINARY, bad BOOLEAN")
    _, reason = JsonFormat(JsonOptions()).decode(F.col("value"), columns)
    found = frame.select("text", "bad", reason.isNotNull()).collect()
    assert [tuple(row) for row in found if row[1] != row[2]] == []


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns"])
def test_days_of_all_years_are_written_as_spark_writes_them(spark: SparkSession, zone: str) -> None:
    from pyspark.sql import functions as F

    form, schema = JsonFormat(JsonOptions()), Schema.parse("at TIMESTAMP, day DATE, d DOUBLE")
    days = [
        0,
        -1,
        1,
        -719162,
        -719163,
        -719164,
        -800000,
        2932896,
        2932897,
        3000000,
        -141427,
        -141428,
        -25567,
        106751990,
    ]
    given = [(day, micros) for day in days for micros in (0, 1, 86_399_999_999, 43_200_500_000)]
    frame = spark.createDataFrame(given, "day BIGINT, micros BIGINT").selectExpr(
        "timestamp_micros(day * 86400000000 + micros) AS at",
        "date_from_unix_date(CAST(day AS INT)) AS day",
        "CAST(day AS DOUBLE) / 7 AS d",
    )
    kept = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        _, options = form.file_options(writing=True)
        theirs = F.to_json(F.struct(*schema.names), dict(options)).alias("theirs")
        both = frame.select(theirs, form.encode(schema).cast("string").alias("ours")).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", kept)
    assert [row["ours"] for row in both] == [row["theirs"] for row in both]


def is_plain(spark: SparkSession, value: bytes, columns: Schema = COLUMNS) -> bool:
    """Whether Spark's parser is left out: asked of the reader itself."""
    java: Any = spark._jvm
    return bool(java.headrace.JsonReader.isPlain(value, columns.ddl(), "UTC"))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (b'{"s": "view", "l": 999999999999999999, "d": 1e22, "at": "2024-02-29T04:05:06.7+02:00"}', True),
        (b' { "x" : [1, {"y": null}] , "s" : "stra\xc3\x9fe \\u00e9" } ', True),
        (b'{"c": -12.5, "f": 0.125, "h": 123456789012345678}', True),
        (b'{"s": 1}', False),
        (b'{"s": "a", "s": "b"}', False),
        (b'{"\\u0073": "a"}', False),
        (b'{"c": 1.234}', False),
        (b'{"d": NaN}', False),
        (b'{"s": "\xff"}', False),
        (b'{"s": "a"} {}', False),
        (b'{"x": ' + b"[" * 40 + b"]" * 40 + b"}", False),
    ],
)
def test_what_is_plain_is_not_left_to_spark(value: bytes, plain: bool, spark: SparkSession) -> None:
    assert is_plain(spark, value) is plain


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        *((text.encode(), True) for text in VALID_NESTED),
        (b'{"l": ["1"]}', False),
        (b'{"o": {"x": 1, "x": 1}}', False),
        (b'{"m": {"a": "b", "a": "b"}}', False),
    ],
)
def test_what_is_plain_in_lists_maps_and_structs_is_not_left_to_spark(
    value: bytes, plain: bool, spark: SparkSession
) -> None:
    assert is_plain(spark, value, NESTED) is plain


TYPES = [
    *("STRING", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "BINARY", "DATE"),
    *("TIMESTAMP", "TIMESTAMP_NTZ", "VARIANT", "ARRAY<INT>", "MAP<STRING, INT>", "STRUCT<x: INT>", "MAP<INT, INT>"),
    *("ARRAY<BINARY>", "ARRAY<ARRAY<TIMESTAMP>>", "MAP<STRING, TIMESTAMP_NTZ>", "MAP<STRING, TIMESTAMP>"),
    *("STRUCT<x: INT, y: STRUCT<z: VARIANT>>", "STRUCT<`größe`: INT>", 'ARRAY<STRUCT<`a"b`: INT>>', "STRUCT<t: DATE>"),
    *("MAP<STRING, MAP<DATE, INT>>", "STRUCT<x: ARRAY<TIMESTAMP>>"),
    *(f"DECIMAL({digits},{scale})" for digits in (1, 9, 18, 19, 38) for scale in (0, digits // 2, digits)),
]
NAMES = ["n", "größe", "東京", "a b", "a.b", 'a"b', "a\\b", "a\tb", "\x7f", "~", "[", "]", "!", "#", "😀", "A"]
SCHEMAS = [*(f"n {kind}" for kind in TYPES), *(f"`{name}` STRING" for name in NAMES)]
SCHEMAS += ["s STRING, n DECIMAL(38,10)", "s STRING, `größe` BIGINT", "s STRING, at TIMESTAMP, d DOUBLE"]


def java_reads(spark: SparkSession, schema: Schema, zone: str) -> bool:
    """Whether the reader in Java takes up a source of these columns at all: asked of itself."""
    java: Any = spark._jvm
    return bool(java.headrace.JsonReader.isPlain(b"{}", schema.ddl(), zone))


def some(kind: DataType) -> str:
    """A plain value of a type, as SQL."""
    match kind:
        case Array(item):
            return f"array({some(item)})"
        case Map(key, value):
            return f"map({some(key)}, {some(value)})"
        case Struct(fields):
            named = (f"'{field.name}', {some(field.type)}" for field in fields)
            return f"named_struct({', '.join(named)})"
    value = {"boolean": "true", "date": "DATE'2024-01-01'", "timestamp": "TIMESTAMP'2024-01-01 00:00:00Z'"}
    return f"CAST({value.get(str(kind), '0')} AS {kind})"


def java_writes(spark: SparkSession, schema: Schema, zone: str) -> bool:
    """Whether the writer in Java writes a row of plain values of these columns: asked of itself."""
    from pyspark.sql import functions as F

    java: Any = spark._jvm
    kind = java.java.lang.Class.forName("headrace.JsonWriter")
    (make,) = kind.getDeclaredConstructors()
    (ask,) = [m for m in kind.getDeclaredMethods() if m.getName() == "isPlain"]
    (prepare,) = [m for m in kind.getDeclaredMethods() if m.getName() == "prepare"]
    shape = kind.getDeclaredField("shape")
    for private in (make, ask, prepare, shape):
        private.setAccessible(True)
    structure = java.org.apache.spark.sql.types.StructType.fromDDL(schema.ddl())
    no_options = getattr(java.scala.collection.immutable, "Map$").__getattr__("MODULE$").empty()
    writer = make.newInstance(_objects(spark, structure, zone, True, no_options))
    prepare.invoke(writer, _objects(spark))
    if shape.get(writer) is None:
        return False
    columns = [F.expr(some(f.type)).alias(f"c{n}") for n, f in enumerate(schema)]
    (row,) = spark.range(1).select(*columns)._jdf.queryExecution().executedPlan().executeCollect()
    return bool(ask.invoke(writer, _objects(spark, row)))


def _objects(spark: SparkSession, *given: Any) -> Any:
    gateway: Any = spark.sparkContext._gateway
    made = gateway.new_array(gateway.jvm.java.lang.Object, len(given))
    for place, value in enumerate(given):
        made[place] = value
    return made


def test_explain_says_of_every_schema_what_java_says(spark: SparkSession) -> None:
    form, wrong = JsonFormat(JsonOptions()), []
    for ddl in SCHEMAS:
        schema = Schema.parse(ddl)
        for zone in ("UTC", "Europe/Berlin"):
            read, written = form.decodes(schema, zone) or "", form.encodes(schema, zone) or ""
            if ("in one pass" in read) is not java_reads(spark, schema, zone):
                wrong.append(f"{ddl} in {zone}: read {read}")
            if ("in one pass" in written) is not java_writes(spark, schema, zone):
                wrong.append(f"{ddl} in {zone}: written {written}")
    assert not wrong, "\n".join(wrong)


WRITTEN = "s STRING, b BOOLEAN, t TINYINT, m SMALLINT, i INT, l BIGINT, d DOUBLE, at TIMESTAMP, day DATE"
WRITTEN_NESTED = (
    "f FLOAT, c DECIMAL(12,2), w DECIMAL(38,10), e DECIMAL(20,20), a ARRAY<STRING>, aa ARRAY<ARRAY<DOUBLE>>, "
    "o STRUCT<s: STRING, d: STRUCT<n: BIGINT, at: TIMESTAMP>, c: DECIMAL(12,2)>, m MAP<STRING, DOUBLE>, "
    "mo MAP<STRING, STRUCT<k: STRING, b: BOOLEAN>>, os ARRAY<STRUCT<k: STRING, day: DATE>>"
)
ODD = [*TEXTS, "\n\t\r\b\f\x00\x1f\x7f", 'a"b\\c/', "é\u2028\ud7ff", None]
WHOLE_NUMBERS = [0, 1, -1, 9, 10, 99, 127, -128, None]
LARGE = [0, -1, 2**63 - 1, -(2**63), 10**18, 999_999_999, None, 1_000_000_000_000]
REALS = [0.0, -0.0, 1.5, 0.1, 1e22, 1e-5, 1e308, 5e-324, 123456789.125, math.nan, math.inf, -math.inf, None, 100.0]
MOMENTS = [
    datetime(2024, 2, 29, 23, 59, 59, 999_999, UTC),
    datetime(1969, 12, 31, 23, 59, 59, 1, UTC),
    datetime(1, 1, 2, tzinfo=UTC),
    datetime(9999, 12, 31, tzinfo=UTC),
    datetime(1900, 1, 1, tzinfo=UTC),
    None,
]


def rows(spark: SparkSession) -> DataFrame:
    """Every value beside every other's neighbours."""
    made = [
        (
            ODD[n % len(ODD)],
            [True, False, None][n % 3],
            WHOLE_NUMBERS[n % len(WHOLE_NUMBERS)],
            WHOLE_NUMBERS[(n + 3) % len(WHOLE_NUMBERS)],
            WHOLE_NUMBERS[(n + 5) % len(WHOLE_NUMBERS)],
            LARGE[n % len(LARGE)],
            REALS[n % len(REALS)],
            MOMENTS[n % len(MOMENTS)],
            date(2024, 1, 1 + n % 28) if n % 7 else None,
        )
        for n in range(1000)
    ]
    return spark.createDataFrame(made, WRITTEN)


EXACTLY = [Decimal("0"), Decimal("1.50"), Decimal("-0.01"), Decimal("9999999999.99"), None]
WIDELY = [Decimal("0"), Decimal("1E-10"), Decimal("-9999999999999999999999999999.9999999999"), Decimal("100"), None]
SMALL = [Decimal("0"), Decimal("1E-20"), Decimal("-0.99999999999999999999"), None]
SINGLES = [0.0, -0.0, 1.5, 0.1, 1e38, 1e-45, math.nan, math.inf, None, 16777216.0, 1e-3]


def nested_rows(spark: SparkSession) -> DataFrame:
    """The same in lists, maps and structs, beside nulls and nothing."""
    draw = random.Random(3)

    def of(values: list[Any], most: int = 3) -> list[Any] | None:
        return draw.choice([None, [], *([[draw.choice(values) for _ in range(draw.randrange(1, most + 1))]] * 4)])

    def keyed(values: list[Any]) -> dict[str, Any] | None:
        return None if draw.random() < 0.1 else {key: draw.choice(values) for key in of([*ODD[:-1]]) or ()}

    made = []
    for number in range(1000):
        inner = draw.choice([None, (draw.choice(LARGE), draw.choice(MOMENTS))])
        pairs = [None, *((draw.choice(ODD), truth) for truth in (True, False, None))]
        days = [None, (draw.choice(ODD), date(2024, 1, 1 + number % 28)), (None, None)]
        made.append(
            (
                draw.choice(SINGLES),
                draw.choice(EXACTLY),
                draw.choice(WIDELY),
                draw.choice(SMALL),
                of(ODD),
                of([[], [1.5, None], None, [draw.choice(REALS)]]),
                draw.choice([None, (draw.choice(ODD), inner, draw.choice(EXACTLY))]),
                keyed(REALS),
                keyed(pairs),
                of(days),
            )
        )
    return spark.createDataFrame(made, WRITTEN_NESTED)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("nulls", [True, False])
@pytest.mark.parametrize(("columns", "given"), [(WRITTEN, rows), (WRITTEN_NESTED, nested_rows)], ids=["flat", "nested"])
def test_every_row_is_written_as_spark_writes_it(
    spark: SparkSession, columns: str, given: Callable[[SparkSession], DataFrame], nulls: bool, zone: str
) -> None:
    from pyspark.sql import functions as F

    form, schema = JsonFormat(JsonOptions(nulls=nulls)), Schema.parse(columns)
    kept = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        _, options = form.file_options(writing=True)
        theirs = F.to_json(F.struct(*schema.names), dict(options)).alias("theirs")
        both = given(spark).select(theirs, form.encode(schema).cast("string").alias("ours")).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", kept)
    assert [row["ours"] for row in both] == [row["theirs"] for row in both]
    assert len({row["ours"] for row in both}) > 500
