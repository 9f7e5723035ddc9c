"""Python over whole batches and as aggregates, as a stream and as a batch, with what goes wrong told."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from headrace import Aggregator, Flow, session, tumbling
from headrace.check import check
from headrace.check.wires import wires
from headrace.errors import DataError
from headrace.run.failure import explain
from headrace.testing.cases import Case, Input
from headrace.testing.compare import difference
from headrace.testing.run_cases import outputs

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import SparkSession

COLUMNS = "user STRING, amount DOUBLE, at TIMESTAMP"
ROWS = [
    {"user": user, "amount": amount, "at": f"2026-01-01T00:00:{second:02d}Z"}
    for user, amount, second in (
        ("ann", 5.0, 4),
        ("bob", 1.0, 2),
        ("ann", 2.0, 1),
        ("ann", None, 3),
        ("ann", 9.0, 12),
        ("bob", 4.0, 5),
        ("ann", 7.0, 14),
    )
]


class Path(Aggregator):
    """The amounts one after the other, as they happened."""

    returns = "STRING"

    def init(self) -> list[str]:
        return []

    def add(self, state: list[str], amount: float | None) -> list[str]:
        return [*state, "-" if amount is None else f"{amount:g}"]

    def finish(self, state: list[str]) -> str:
        return " ".join(state)


def spread(amount: list[float | None]) -> float:
    some = [a for a in amount if a is not None]
    return max(some) - min(some)


def told(at: list[Any], price: list[Any], day: list[Any], tags: list[Any], raw: list[Any], place: list[Any]) -> str:
    return repr([at[0].isoformat(), price[0], day[0], tags[0], raw[0], place[0], tags[1]])


def middle(amount: pd.Series) -> float:
    return float(amount.median())


def doubled(orders: pd.DataFrame) -> pd.DataFrame:
    return orders.assign(twice=orders["amount"] * 2, other=1)


def large(batch: pa.RecordBatch) -> Any:
    import pyarrow.compute as pc

    yield batch.filter(pc.fill_null(pc.greater(batch["amount"], 4), False))
    yield None


def broken(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(["user"])


def built() -> Any:
    flow = Flow("functions")
    rows = flow.source("rows", "values", rows=[], schema=COLUMNS, time={"column": "at", "watermark": "1 minute"})
    answers: dict[str, Any] = {"path": Path, "spread": spread, "middle": middle, "n": "count(*)"}
    per = rows.key_by("user").window(tumbling("10 seconds")).aggregate("per", compute=answers)
    per.sink("windows", "console")
    rows.aggregate("sat", by="user", window=session("5 seconds"), path=Path).sink("sessions", "console")
    rows.map_batches("twice", doubled, returns="user STRING, twice DOUBLE").sink("frames", "console")
    rows.map_batches("large", large, returns=COLUMNS).aggregate(
        "many", by="user", window=tumbling("1 minute"), n="count(*)"
    ).sink("batches", "console")
    return flow.build()


@pytest.mark.parametrize("mode", ["batch", "micro-batch"])
def test_batches_and_aggregates_in_python(mode: str, spark: SparkSession) -> None:
    flow = built()
    assert check(flow).errors == ()
    cut = (tuple(ROWS[:3]), tuple(ROWS[3:5]), tuple(ROWS[5:])) if mode != "batch" else (tuple(ROWS),)

    found = outputs(flow, {"rows": Input(batches=cut)}, Case(name="case", given={}, expect={}, mode=mode), spark)

    expected: dict[str, list[dict[str, Any]]] = {
        "windows": [
            {
                "window_start": "2026-01-01T00:00:00Z",
                "user": "ann",
                "path": "2 - 5",
                "spread": 3.0,
                "middle": 3.5,
                "n": 3,
            },
            {
                "window_start": "2026-01-01T00:00:10Z",
                "user": "ann",
                "path": "9 7",
                "spread": 2.0,
                "middle": 8.0,
                "n": 2,
            },
            {
                "window_start": "2026-01-01T00:00:00Z",
                "user": "bob",
                "path": "1 4",
                "spread": 3.0,
                "middle": 2.5,
                "n": 2,
            },
        ],
        "sessions": [
            {"user": "ann", "path": "2 - 5"},
            {"user": "ann", "path": "9 7"},
            {"user": "bob", "path": "1 4"},
        ],
        "frames": [
            {"user": r["user"], "twice": None if r["amount"] is None else r["amount"] * 2}
            for r in ROWS  # type: ignore[operator]
        ],
        "batches": [{"user": "ann", "n": 3}],
    }
    schemas = wires(flow).schemas
    for sink, rows in expected.items():
        assert not difference(rows, found[sink], schemas[flow[sink].inputs[0]]), sink


def test_an_aggregate_in_python_takes_what_map_takes(spark: SparkSession) -> None:
    columns = "price DECIMAL(12,2), day DATE, tags ARRAY<STRING>, raw BINARY, place STRUCT<x: DOUBLE, s: STRING>"
    flow = Flow("kinds")
    time = {"column": "at", "watermark": "1 minute"}
    rows = flow.source("rows", "values", rows=[], schema=f"at TIMESTAMP, {columns}", time=time)
    rows.aggregate("told", window=tumbling("1 hour"), compute={"told": told}).sink("out", "console")
    given = (
        {
            "at": "2026-01-01T00:00:01.5Z",
            "price": "1.50",
            "day": "2026-02-03",
            "tags": ["a", None],
            "raw": "raw",
            "place": {"x": 0.5, "s": None},
        },
        {"at": "2026-01-01T00:00:02Z"},
    )

    case = Case(name="case", given={}, expect={}, mode="batch")
    (row,) = outputs(flow.build(), {"rows": Input(batches=(given,))}, case, spark)["out"]

    first = [
        "2026-01-01T00:00:01.500000+00:00",
        Decimal("1.50"),
        date(2026, 2, 3),
        ["a", None],
        b"raw",
        {"x": 0.5, "s": None},
    ]
    assert row["told"] == repr([*first, None])


def unfit(amount: list[float]) -> str:
    return len(amount)  # type: ignore[return-value]


def test_an_answer_that_does_not_fit_is_told_with_its_records(spark: SparkSession) -> None:
    flow = Flow("unfit")
    rows = flow.source("rows", "values", rows=[], schema=COLUMNS, time={"column": "at", "watermark": "1 minute"})
    rows.aggregate("many", by="user", window=tumbling("1 hour"), n=unfit).sink("out", "console")

    case = Case(name="c", given={}, expect={}, mode="batch")

    with pytest.raises(Exception) as raised:
        outputs(flow.build(), {"rows": Input(batches=(tuple(ROWS[5:6]),))}, case, spark)

    told = explain(raised.value).error()
    assert isinstance(told, DataError)
    assert "many" in str(told)
    assert '{"records": 1, "first": {"amount": 4.0}}' in str(told)


def test_a_function_that_gives_too_little_is_told_with_its_step(spark: SparkSession) -> None:
    flow = Flow("broken")
    rows = flow.source("rows", "values", rows=[], schema=COLUMNS)
    rows.map_batches("less", broken, returns="user STRING, amount DOUBLE").sink("out", "console")

    with pytest.raises(Exception) as raised:
        outputs(
            flow.build(),
            {"rows": Input(batches=(tuple(ROWS),))},
            Case(name="c", given={}, expect={}, mode="batch"),
            spark,
        )

    told = explain(raised.value).error()
    assert isinstance(told, DataError)
    assert "less" in str(told)
    assert "it gave the columns user, but not 'amount'" in str(told)


def test_what_cannot_be_is_refused_before_it_runs() -> None:
    flow = Flow("refused")
    rows = flow.source("rows", "values", rows=[], schema=COLUMNS, time={"column": "at", "watermark": "1 s"})
    rows.aggregate("running", by="user", path=Path).sink("a", "memory", key="user")
    rows.aggregate("counted", by="user", window={"count": 3}, path=Path).sink("b", "console")
    rows.aggregate("unknown", window=tumbling("1 s"), n=lambda price: 1).sink("c", "console")
    rows.aggregate("nothing", window=tumbling("1 s"), n=lambda: 1).sink("d", "console")

    said = "\n".join(str(p) for p in check(flow.declared()).problems)

    assert "in Python needs a window [unsupported]" in said
    assert "cannot be computed over windows of records in order" in said
    assert 'takes column "price", which is not there [unknown-column]' in said
    assert "takes no column [bad-function]" in said
    assert "is not known [bad-function]" in said
