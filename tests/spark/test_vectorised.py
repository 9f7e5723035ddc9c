"""The vectorised stage against Spark: every record and every expression has the same answer, or is left to Spark."""

from __future__ import annotations

import itertools
import json
import math
import random
from typing import TYPE_CHECKING, Any

import pytest

from headrace.compile import staged as staging
from headrace.compile.stage import Stage
from headrace.compile.stage_work import SPILLED, VALUE
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.expressions.arrow import MOVABLE, StaysError, program
from headrace.expressions.arrow_run import Running
from headrace.expressions.expression import Expression
from headrace.expressions.typing import type_of
from headrace.formats.json import JsonFormat, JsonOptions
from headrace.formats.json_native import engine
from headrace.formats.json_shape import VALUES
from headrace.model import Schema
from tests.bad_inputs import INPUTS

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

COLUMNS = Schema.parse("s STRING, b BOOLEAN, t TINYINT, m SMALLINT, i INT, l BIGINT, d DOUBLE, at TIMESTAMP, day DATE")
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
        *(bad.value for bad in INPUTS["json"] if len(bad.value or b"") < 10**6),
    ]


def told(name: str) -> str:
    """A column as a text that tells -0.0 from 0.0, and a time that Python has no year for."""
    return f"CAST({'unix_micros(at)' if name == 'at' else name} AS STRING) AS {name}"


def test_every_record_is_decoded_as_spark_decodes_it_or_left_to_spark(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    given = records()
    frame = (
        spark.createDataFrame(list(enumerate(given)), "n INT, value BINARY").repartition(1).sortWithinPartitions("n")
    )
    form = JsonFormat(JsonOptions())
    struct, reason = form.decode(F.col("value"), COLUMNS)
    plain = frame.select("n", reason.alias("reason"), struct.alias("r")).select("n", "reason", "r.*")
    kinds = tuple((f.name, str(f.type)) for f in COLUMNS)
    flow = f"flow: f\nsources:\n  s: {{kafka: t, format: json, schema: '{COLUMNS.ddl()}'}}\n"
    source = resolve(flowfile.read(flow)).flow.sources[0]
    passed = staging.staged(frame, source, Stage(query="q", source="s", columns=kinds), COLUMNS)
    columns, why = staging.decoded(form, COLUMNS)
    both = passed.select("n", why.alias("reason"), *columns, SPILLED)

    texts = [told(name) for name in COLUMNS.names]
    expected = {row["n"]: row for row in plain.selectExpr("n", "reason", *texts).collect()}
    found = {row["n"]: row for row in both.selectExpr("n", "reason", SPILLED, *texts).collect()}
    assert found.keys() == expected.keys()
    wrong = []
    for n, row in found.items():
        names = ["reason"] if row["reason"] or expected[n]["reason"] else COLUMNS.names
        wrong += [
            f"{given[n]!r}: {name}: {row[name]}, Spark says {expected[n][name]}, spilled: {row[SPILLED]}"
            for name in names
            if row[name] != expected[n][name]
        ]
    assert not wrong, "\n".join(wrong[:40])
    native = [given[n] for n, row in found.items() if not row[SPILLED]]
    assert len(native) > 200
    assert {b'{"s": "view"}', b'{"l": 999999999999999999}', b'{"d": 1e22}'} <= set(native)


ROWS = [
    dict(zip(("s", "b", "t", "i", "l", "d", "at", "day"), values, strict=True))
    for values in itertools.islice(
        zip(
            itertools.cycle(["view", "", None, "a%b", " view ", "VIEW", "straße", "İ", "aa", "東京", "viewer", "b_"]),
            itertools.cycle([True, False, None, True, False]),
            itertools.cycle([0, 1, -1, 100, -128, 127, None]),
            itertools.cycle([0, 1, -1, 5, 2**31 - 1, -(2**31), None, 7, 100_000, 3, 46_341]),
            itertools.cycle([0, 1, -1, 2**63 - 1, -(2**63), None, 2**31, 2**53 + 1, 10, 3_037_000_500, 4, 6, 9]),
            itertools.cycle(
                [0.0, -0.0, 1.5, -1.5, None, math.nan, math.inf, -math.inf, 1e308, 5e-324, 0.1, 9007199254740992.0, 1.0]
            ),
            itertools.cycle(["2024-01-01 00:00:00", "1969-12-31 23:59:59.999999", None, "2024-06-01 12:00:00.5"]),
            itertools.cycle(["2024-01-01", None, "1969-12-31", "2024-06-01"]),
        ),
        240,
    )
]
LEAVES = {
    "string": [
        "s",
        "'view'",
        "''",
        "'a'",
        "lower(s)",
        "upper(s)",
        "trim(s)",
        "ltrim(s)",
        "rtrim(s)",
        "coalesce(s, 'z')",
    ],
    "whole": [
        "i",
        "l",
        "t",
        "0",
        "1",
        "-7",
        "3000000000",
        "length(s)",
        "i + 1",
        "l * i",
        "t - t",
        "i % 3",
        "l % i",
        "-i",
        "t * 2",
    ],
    "number": [
        "d",
        "1.5",
        "0.1",
        "2",
        "i",
        "l",
        "d * 2",
        "d / i",
        "i / 2",
        "d - 0.1",
        "-d",
        "d + l",
        "l / l",
        "coalesce(d, d)",
    ],
    "time": ["at", "timestamp'2024-01-01 00:00:00'", "coalesce(at, at)"],
    "day": ["day", "date'2024-01-01'"],
    "truth": [
        "b",
        "true",
        "isnull(s)",
        "isnotnull(d)",
        "s like 'vi%'",
        "s like '%w'",
        "s like '%ie%'",
        "s like 'view'",
    ],
}
LEAVES["truth"] += ["startswith(s, 'v')", "endswith(s, 'w')", "contains(s, 'ie')", "contains(s, '')", "s is not null"]


def expressions() -> list[str]:
    """Conditions made of all that may move, each operator with operands of every kind."""
    draw = random.Random(11)
    comparisons = ["=", "<>", "<", "<=", ">", ">=", "<=>"]

    def compared() -> str:
        kind = draw.choice(["string", "whole", "number", "time", "day"])
        a, b, c = (draw.choice(LEAVES[kind]) for _ in range(3))
        if draw.random() < 0.15:
            return f"{a} between {b} and {c}"
        if draw.random() < 0.2:
            return f"{a} in ({b}, {c})"
        return f"{a} {draw.choice(comparisons)} {b}"

    def condition(depth: int) -> str:
        if depth == 0 or draw.random() < 0.3:
            return compared() if draw.random() < 0.8 else draw.choice(LEAVES["truth"])
        if draw.random() < 0.2:
            return f"not ({condition(depth - 1)})"
        return f"({condition(depth - 1)}) {draw.choice(['and', 'or'])} ({condition(depth - 1)})"

    every = [f"{leaf} is null" for kind in ("string", "whole", "number") for leaf in LEAVES[kind]]
    return [*LEAVES["truth"], *every, "b = true", "b <> b", "b <=> null or b", *(condition(3) for _ in range(120))]


def test_every_condition_is_answered_as_spark_answers_it_or_is_unsure(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    schema = Schema.parse("s STRING, b BOOLEAN, t TINYINT, i INT, l BIGINT, d DOUBLE, at TIMESTAMP, day DATE")
    known = {f.name.lower(): (("column", f.name), f.type) for f in schema}
    programs, texts, used = [], [], set[str]()
    for text in dict.fromkeys(expressions()):
        e = Expression.parse(text)
        said: list[str] = []
        kind = type_of(e, schema, lambda code, message, *, hint="", at=0, said=said: said.append(message))
        try:
            made, moved = program(e.tree, known)
        except StaysError:
            continue
        if said:
            continue
        assert moved == kind, text
        programs.append(made)
        texts.append(text)
        used |= {name for name in MOVABLE if f"'{name}'" in repr(e.tree)}
    assert len(texts) > 100
    assert used == set(MOVABLE)
    plain = spark.createDataFrame(
        [(n, *r.values()) for n, r in enumerate(ROWS)],
        "n INT, s STRING, b BOOLEAN, t INT, i INT, l BIGINT, d DOUBLE, at STRING, day STRING",
    )
    frame = plain.select(
        "n",
        "s",
        "b",
        F.col("t").cast("tinyint").alias("t"),
        "i",
        "l",
        "d",
        F.col("at").cast("timestamp").alias("at"),
        F.col("day").cast("date").alias("day"),
    )
    answers = ", ".join(f"v{k} BOOLEAN, u{k} BOOLEAN" for k in range(len(texts)))

    def native(batches: Any) -> Any:
        import pyarrow as pa

        pl, running = engine(), Running(engine())
        for batch in batches:
            given = pl.from_arrow(batch)
            lowered = [running.lower(p) for p in programs]
            made = given.select(
                pl.col("n"),
                *(
                    column
                    for k, (value, unsure) in enumerate(lowered)
                    for column in (
                        value.alias(f"v{k}"),
                        (pl.lit(value=False) if unsure is None else unsure).alias(f"u{k}"),
                    )
                ),
            )
            yield from pa.Table.from_batches(made.to_arrow().to_batches()).to_batches()

    natively = frame.coalesce(1).mapInArrow(native, f"n INT, {answers}")
    both = natively.join(F.broadcast(frame), "n").select(
        "*", *(F.expr(f"CASE WHEN u{k} THEN NULL ELSE ({text}) END").alias(f"e{k}") for k, text in enumerate(texts))
    )
    rows: list[Row] = both.collect()
    assert len(rows) == len(ROWS)
    wrong = [
        f"{text}: {row[f'v{k}']}, Spark says {row[f'e{k}']} for {ROWS[row['n']]}"
        for row in rows
        for k, text in enumerate(texts)
        if not row[f"u{k}"] and row[f"v{k}"] != row[f"e{k}"]
    ]
    assert not wrong, "\n".join(wrong[:20])
    sure = sum(not row[f"u{k}"] for row in rows for k in range(len(texts)))
    assert sure > 0.7 * len(rows) * len(texts)


def test_every_type_that_is_read_natively_is_tried() -> None:
    assert {str(f.type) for f in COLUMNS} == set(VALUES)
    assert VALUE == "value"


@pytest.mark.parametrize(
    "text", ["s like 'a_b'", "s like 'a%b'", "sqrt(d) > 1", "cast(i as string) = '1'", "l > 1.5", "b < true"]
)
def test_what_is_not_proved_stays(text: str) -> None:
    known = {f.name.lower(): (("column", f.name), f.type) for f in COLUMNS}
    with pytest.raises(StaysError):
        program(Expression.parse(text).tree, known)
