from __future__ import annotations

from typing import Any

import pytest

from headrace.observe.progress import OUT_METRIC, Totals, describe_source, lag, measure, show

REPORT: dict[str, Any] = {
    "batchId": 4,
    "batchDuration": 443,
    "numInputRows": 10,
    "processedRowsPerSecond": 22.57,
    "durationMs": {"addBatch": 324, "triggerExecution": 442},
    "eventTime": {"watermark": "2024-01-01T00:02:26.000Z"},
    "stateOperators": [
        {"numRowsTotal": 3, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 2},
        {"numRowsTotal": 4, "memoryUsedBytes": 50, "numRowsDroppedByWatermark": 0},
    ],
    "sources": [
        {
            "description": "KafkaV2[Subscribe[tweets]]",
            "startOffset": {"tweets": {"0": 1}},
            "endOffset": {"tweets": {"0": 11, "1": 5}},
            "latestOffset": {"tweets": {"0": 15, "1": 5}},
            "numInputRows": 10,
        }
    ],
    "observedMetrics": {OUT_METRIC: {"rows": 7}, "tweets.read": {"read": 10, "unreadable": 1}},
    "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
}


def test_a_report_becomes_our_numbers() -> None:
    found = measure(REPORT, "per_tag", ["tweets"])

    assert (found["query"], found["batch"], found["in"], found["out"]) == ("per_tag", 4, 10, 7)
    assert found["seconds"] == 0.442
    assert found["split"] == {"addBatch": 0.324}
    assert found["watermark"] == "2024-01-01T00:02:26.000Z"
    assert (found["lag"], found["state"], found["state_bytes"], found["late"]) == (4, 7, 150, 2)
    assert found["sources"][0]["name"] == "tweets"
    assert found["observed"] == {"tweets.read": {"read": 10, "unreadable": 1}}
    assert found["unreadable"] == 1
    assert "unreadable 1" in show(Totals().add({**found, "at": "2026-01-01T00:00:00.000Z"}), now=0.0)


def test_each_source_has_a_watermark_of_its_own_which_does_not_fall() -> None:
    totals = Totals()
    batches = [
        {"a.time": {"watermark": 1_704_067_346_000}, "b.time": {"watermark": 1_704_067_340_500}},
        {"a.time": {"watermark": 1_704_067_345_000}, "b.time": {"watermark": None}},
        {"a.time": {"watermark": 1_704_067_345_000}, "b.time": {}},
    ]
    for number, seen in enumerate(batches):
        report = {**REPORT, "batchId": number, "observedMetrics": seen}
        totals = totals.add({**measure(report, "both", ["a", "b"]), "at": "2026-01-01T00:00:00.000Z"})

    assert totals.as_dict()["watermarks"] == {"a": "2024-01-01T00:02:26.000Z", "b": "2024-01-01T00:02:20.500Z"}
    assert "watermark 2024-01-01 00:02:26 (a 00:02:26, b 00:02:20)" in show(totals, now=0.0)


def test_what_spark_does_not_say_is_not_invented() -> None:
    found = measure({"batchId": 0, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}}, "q", [])

    assert found["out"] is None
    assert found["lag"] is None
    assert found["state"] is None
    assert found["watermark"] is None
    assert found["rate"] is None


def test_several_sources_are_named_by_their_description() -> None:
    two = {**REPORT, "sources": [*REPORT["sources"], {"description": "FileStreamSource[file:/data/in]"}]}

    assert [s["name"] for s in measure(two, "q", ["a", "b"])["sources"]] == ["kafka tweets", "files /data/in"]


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("RateStreamV2[rowsPerSecond=5, rampUpTimeSeconds=0, numPartitions=default", "rate"),
        ("MemoryStream[value#1]", "memory"),
        ("", "source"),
    ],
)
def test_a_source_has_a_short_name(description: str, name: str) -> None:
    assert describe_source(description) == name


@pytest.mark.parametrize(
    ("end", "latest", "expected"),
    [
        ({"t": {"0": 5}}, {"t": {"0": 5}}, 0),
        (None, {"t": {"0": 5}}, 5),
        ({"t": {"0": 9}}, {"t": {"0": 5}}, 0),
        ({"logOffset": 2}, {"logOffset": 4}, None),
        (3, 4, None),
        ({"t": {"0": 1}}, None, None),
    ],
)
def test_lag_counts_records_where_offsets_do(end: Any, latest: Any, expected: int | None) -> None:
    assert lag(end, latest) == expected


def event(batch: int, rows: int, at: str = "2026-01-01T00:00:10.000Z", **more: Any) -> dict[str, Any]:
    return {"event": "progress", "at": at, "query": "q", "batch": batch, "in": rows, "out": 1, "seconds": 1.0, **more}


def test_a_batch_that_is_repeated_after_a_crash_counts_once() -> None:
    totals = Totals().add(event(0, 10)).add(event(1, 5)).add(event(1, 5)).add(event(2, 1))

    assert (totals.rows_in, totals.rows_out, totals.batches) == (16, 3, 3)


def test_the_watermark_shown_is_that_of_the_slowest_query() -> None:
    totals = Totals().add(event(0, 1, watermark="2024-01-02T00:00:00.000Z", lag=3, state=None))
    totals = totals.add({**event(0, 1, watermark="2024-01-01T00:00:00.000Z", lag=None, state=5), "query": "r"})

    assert totals.watermark == "2024-01-01T00:00:00.000Z"
    assert (totals.lag, totals.state) == (3, 5)


def test_the_rate_is_that_of_late_batches_only() -> None:
    totals = Totals().add(event(0, 1000, at="2026-01-01T00:00:00.000Z"))
    totals = totals.add(event(1, 50, at="2026-01-01T00:01:00.000Z"))

    assert totals.rate(now=totals.recent[-1][0] + 5) == 10.0
    assert totals.rate(now=totals.recent[-1][0] + 60) == 0.0


def test_the_rate_of_a_batch_that_takes_a_minute_holds_until_the_next_is_due() -> None:
    totals = Totals().add(event(0, 6000, at="2026-01-01T00:01:00.000Z", seconds=60.0))
    ended = totals.recent[-1][0] + 60

    assert (totals.rate(now=ended + 1), totals.rate(now=ended + 59)) == (100.0, 100.0)
    assert totals.rate(now=ended + 90) == 0.0


def test_the_line_is_cut_to_the_width_of_the_terminal() -> None:
    totals = Totals().add(event(0, 1_234_567, lag=12, state=3, watermark="2024-01-01T00:00:00.000Z", late=4))

    whole = show(totals, now=0.0)

    assert "in 1,234,567 · out 1 ·" in whole
    assert "lag 12 · watermark 2024-01-01 00:00:00 · late 4 · 1 batch · state 3" in whole
    assert show(totals, now=0.0, width=20) == whole[:19] + "…"
