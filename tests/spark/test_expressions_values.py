"""The oracle and Spark give the same values; compiled functions give what CPython gives, in Spark."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from headrace.expressions.evaluate import EvaluationError, NotEvaluable, aggregate, evaluate
from headrace.expressions.expression import Expression
from headrace.expressions.pyfunction import from_python
from headrace.expressions.spark import spark_schema, to_spark
from headrace.model import Schema
from tests.expressions_in_python import COMPILED, SCHEMA, called

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WIDE = Schema.parse(
    "i int, l bigint, d double, dec decimal(10,2), s string, n string, b boolean, dt date, ts timestamp, "
    "xs array<int>, st struct<x:int,y:string>"
)
MOMENT = datetime(2024, 2, 29, 23, 59, 58, 123456, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    dict(
        i=1,
        l=2,
        d=0.5,
        dec=Decimal("1.25"),
        s="abc",
        n="12",
        b=True,
        dt=date(2024, 2, 29),
        ts=MOMENT,
        xs=[1, 2, 3],
        st={"x": 1, "y": "q"},
    ),
    dict(
        i=-7,
        l=-(2**40),
        d=-2.5,
        dec=Decimal("-99.99"),
        s=" Ab_% ",
        n="-3",
        b=False,
        dt=date(1969, 12, 31),
        ts=MOMENT - timedelta(days=30_000),
        xs=[],
        st={"x": None, "y": None},
    ),
    dict(
        i=0,
        l=0,
        d=0.0,
        dec=Decimal("0.00"),
        s="",
        n="0",
        b=None,
        dt=date(2000, 1, 1),
        ts=datetime(1970, 1, 1, tzinfo=UTC),
        xs=[None, 5],
        st=None,
    ),
    dict(
        i=2**31 - 1,
        l=2**63 - 1,
        d=1e9,
        dec=Decimal("99999999.99"),
        s="éßx日",
        n="x",
        b=True,
        dt=date(1900, 3, 1),
        ts=datetime(1900, 1, 1, 1, 2, 3, tzinfo=UTC),
        xs=[7],
        st={"x": 3, "y": "é"},
    ),
    dict.fromkeys(WIDE.names, None),
]

VALUES = """
i + 1
i - l
i * 2
i * i
l + l
-i
-l
abs(i)
i / 3
l / i
d / i
i % 4
i % -4
d % 2
i div 2
l div -3
dec + 1
dec - 0.005
dec * dec
dec * 3
dec / 3
dec / dec
dec % 7
dec div 2
dec + d
d * d
n + 1
n * 1.5
i = 1
i <> l
i < l
d >= 0.5
dec > 1
dec = 1.25D
s = 'abc'
s < 'b'
n = 12
n > 5
dt < '2020-01-01'
dt <= ts
ts > '2000-01-01'
b = true
i <=> null
s <=> 'abc'
b and i > 0
b or i / 0 > 1
b and i > 0 or s = ''
not b
b is null
b is not true
i between -7 and 1
s between 'a' and 'z'
i in (1, 2, null)
s in ('abc', '')
i not in (1, 2)
dec in (1.25, 2)
s like 'a%'
s like '%b\\\\_\\\\%%'
s like '_b_'
s ilike 'ABC'
s rlike '^a'
s not like ''
case when b then i else dec end
case when i > 0 then 'p' when i < 0 then 'm' end
case i when 1 then 'one' else s end
if(b, i, l)
coalesce(b, i > 0)
coalesce(s, 'none')
nullif(i, 1)
nvl(i, 5)
nvl2(b, 'x', 'y')
greatest(i, l, 3)
least(s, 'b')
greatest(d, i)
cast(i as string)
cast(d as int)
cast(d as bigint)
cast(dec as int)
cast(dec as string)
cast(dec as decimal(5,1))
cast(dec as double)
cast(i as decimal(12,3))
cast(i as boolean)
cast(b as int)
cast(b as string)
cast(n as int)
cast(n as double)
cast(n as decimal(6,2))
cast(n as boolean)
cast(dt as string)
cast(ts as string)
cast(ts as date)
cast(ts as bigint)
cast(dt as timestamp)
cast(i as timestamp)
cast('2024-02-30' as date)
cast(s as binary)
cast(xs as array<string>)
try_cast(n as int)
try_cast(l as int)
try_cast(n as boolean)
try_cast(dec as decimal(3,2))
upper(s)
lower(n)
length(s)
octet_length(s)
trim(s)
ltrim(s)
rtrim(s)
trim(both 'ac' from s)
substring(s, 2)
substring(s, 2, 2)
substring(s, -2, 2)
substring(s, 0, 2)
substring(s, -9, 10)
left(s, 2)
right(s, 2)
left(s, -1)
s || n
concat(s, i, b)
concat(xs, xs)
concat_ws('-', s, n, null, 'z')
repeat(n, 2)
reverse(s)
replace(s, 'b', 'xx')
replace(s, '', 'x')
startswith(s, 'a')
endswith(s, '')
contains(s, 'b')
instr(s, 'b')
lpad(s, 5, 'xy')
rpad(s, 2, 'xy')
lpad(s, 4, '')
substring_index('a.b.c', '.', i)
split(s, 'b')
md5(s)
sha2(s, 256)
crc32(s)
round(d)
round(d, 1)
round(dec)
round(dec, 1)
round(i, -1)
ceil(d)
floor(d)
ceil(dec)
floor(dec)
sqrt(abs(d))
year(dt)
month(ts)
day(dt)
quarter(dt)
dayofweek(dt)
weekday(dt)
dayofyear(dt)
weekofyear(dt)
hour(ts)
minute(ts)
second(ts)
date_add(dt, 31)
date_sub(dt, i % 100)
datediff(dt, '2024-01-01')
dt + 1
dt - 1
dt - date '2024-01-01'
dt + interval '2' day
dt + interval '2' hour
ts + interval '90' minute
ts - interval '1 02:03:04' day to second
ts - timestamp '2024-01-01 00:00:00'
date_trunc('hour', ts)
date_trunc('month', ts)
date_trunc('day', dt)
unix_seconds(ts)
unix_millis(ts)
unix_micros(ts)
unix_date(dt)
timestamp_seconds(i)
timestamp_millis(l div 1000000)
size(xs)
xs[0]
element_at(xs, 1)
element_at(xs, -1)
get(xs, 1)
array_contains(xs, 5)
array(i, l)
st.x
st.y
st['x']
struct(i, s as q)
named_struct('a', i)
transform(xs, x -> x + i)
transform(xs, (x, k) -> x * k)
filter(xs, x -> x > 1)
exists(xs, x -> x > 4)
forall(xs, x -> x > 0)
isnan(d)
"""
AGGREGATES = """
count(*)
count(i)
count(distinct b)
count_if(i > 0)
sum(i)
sum(dec)
sum(d)
avg(i)
avg(dec)
min(s)
max(ts)
max(dec)
bool_and(b)
bool_or(b)
bit_xor(i)
max_by(s, i)
min_by(i, dt)
sum(i) filter (where b)
median(i)
max(i) - min(i)
sum(l)
collect_list(i)
"""


def lines(text: str) -> list[str]:
    return [line for line in text.strip().splitlines() if line]


def plain(value: Any) -> Any:
    """A value made comparable: Spark rows and moments of any zone, NaN as text."""
    from pyspark.sql import Row

    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, Row):
        return {k: plain(v) for k, v in value.asDict().items()}
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return value


@pytest.fixture(scope="module")
def quiet() -> None:
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def rows(spark: SparkSession, schema: Schema, records: Sequence[dict[str, Any]]) -> DataFrame:
    def made(value: Any) -> Any:
        return tuple(value.values()) if isinstance(value, dict) else value

    return spark.createDataFrame([tuple(made(r[n]) for n in schema.names) for r in records], spark_schema(schema))


def ours(text: str, record: dict[str, Any]) -> Any:
    try:
        return evaluate(Expression.parse(text), record, WIDE)
    except EvaluationError:
        return EvaluationError
    except NotEvaluable:
        return NotEvaluable


def test_values_are_those_of_spark(spark: SparkSession, quiet: None) -> None:
    """One job per row for all expressions that give a value; the few that fail are asked for one by one."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    differences, covered = [], 0
    for record in ROWS:
        frame = rows(spark, WIDE, [record])
        given = {text: ours(text, record) for text in lines(VALUES)}
        covered += sum(1 for v in given.values() if v is not NotEvaluable)
        good = [t for t, v in given.items() if v is not NotEvaluable and v is not EvaluationError]
        try:
            found = frame.select(*(to_spark(Expression.parse(t)).alias(f"c{i}") for i, t in enumerate(good))).first()
            assert found is not None
            pairs = [(t, found[f"c{i}"]) for i, t in enumerate(good)]
        except (PySparkException, Py4JJavaError):  # one of them fails in Spark only: find out which
            pairs = [(t, one(frame, t)) for t in good]
        pairs += [(t, one(frame, t)) for t, v in given.items() if v is EvaluationError]
        for text, theirs in pairs:
            mine = given[text]
            if plain(mine) != plain(theirs) or type(plain(mine)) is not type(plain(theirs)):
                differences.append(f"{text} on i={record['i']}: ours {mine!r}, spark {theirs!r}")
    assert not differences, "\n".join(differences)
    assert covered > 0.95 * len(lines(VALUES)) * len(ROWS)


def one(frame: DataFrame, text: str) -> Any:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        found = frame.select(to_spark(Expression.parse(text)).alias("c")).first()
    except (PySparkException, Py4JJavaError):
        return EvaluationError
    assert found is not None
    return found["c"]


def test_aggregates_are_those_of_spark(spark: SparkSession, quiet: None) -> None:
    records = [r for r in ROWS if r["l"] != 2**63 - 1]
    frame = rows(spark, WIDE, records).coalesce(1)
    texts = lines(AGGREGATES)
    found = frame.agg(*(to_spark(Expression.parse(t)).alias(f"c{i}") for i, t in enumerate(texts))).first()
    assert found is not None
    for i, text in enumerate(texts):
        assert (text, plain(aggregate(Expression.parse(text), records, WIDE))) == (text, plain(found[f"c{i}"]))


RECORDS: list[dict[str, Any]] = [
    dict(a=a, b=b, x=x, y=y, s=s, t=t, p=p, d=d)
    for a, b, x, y, s, t, p, d in [
        (7, 2, 1.5, 2.0, "ab", "a", True, date(2024, 2, 29)),
        (-7, 2, math.nan, 1.0, "éab", "é", False, date(1, 1, 1)),
        (7, -2, math.nan, 4.0, "", "", True, date(1969, 12, 31)),
        (-7, -3, -math.inf, -2.5, " a ", " ", None, None),
        (0, 1, -0.0, 0.5, "日本", "b", None, date(9999, 12, 31)),
        (2**31, 3, 3.0, 3.0, "x", "xx", False, date(2000, 1, 1)),
        (None, 2, None, 1.0, None, "a", True, None),
        (50, None, 2.5, None, "aab", None, True, None),
    ]
]


def test_compiled_functions_give_in_spark_what_cpython_gives(spark: SparkSession, quiet: None) -> None:
    """All functions over all records in one job."""
    frame = rows(spark, SCHEMA, RECORDS)
    columns = []
    for function in COMPILED:
        compiled = from_python(function)
        assert isinstance(compiled, Expression), compiled
        columns.append(to_spark(compiled).alias(function.__name__))
    found = frame.select(*columns).collect()
    for record, row in zip(RECORDS, found, strict=True):
        expected = {f.__name__: plain(called(f, record)) for f in COMPILED}
        assert {k: plain(v) for k, v in row.asDict().items()} == expected


@pytest.mark.parametrize("name", ["floor_divided", "remainder", "divided", "truncated"])
def test_a_function_that_fails_in_python_fails_in_spark(spark: SparkSession, quiet: None, name: str) -> None:
    from pyspark.errors import PySparkException

    function = next(f for f in COMPILED if f.__name__ == name)
    record = dict(RECORDS[0], b=0, y=math.inf if name == "truncated" else 0.0)
    with pytest.raises((ZeroDivisionError, OverflowError)):
        called(function, record)
    compiled = from_python(function)
    assert isinstance(compiled, Expression)
    with pytest.raises(PySparkException):
        rows(spark, SCHEMA, [record]).select(to_spark(compiled)).collect()
