"""Parcels: each record is in one, and one that may be late is alone in its own."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.operators.drawers import DRAWER
from headrace.operators.late import Aside
from headrace.operators.parcels import LAST, PARCEL, _gathered, _parcels, read

SCHEMA = pa.schema([("k", pa.string()), ("at", pa.int64())])
ROWS = [(3, "a", 5), (1, "b", 9), (3, None, 7), (1, "b", 2), (0, "c", 4), (3, "a", 4)]


def batch(rows: list[tuple[int, str | None, int]]) -> pa.RecordBatch:
    drawers, keys, times = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict({DRAWER: pa.array(drawers, pa.int32()), "k": list(keys), "at": list(times)})


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        (0, [(0, 4, ["c4"]), (1, 9, ["b9", "b2"]), (3, 7, ["a5", "None7", "a4"])]),
        (4, [(0, 4, ["c4"]), (1, 2, ["b2"]), (3, 4, ["a4"]), (1, 9, ["b9"]), (3, 7, ["a5", "None7"])]),
        (9, [(0, 4, ["c4"]), (1, 9, ["b9"]), (1, 2, ["b2"]), (3, 5, ["a5"]), (3, 7, ["None7"]), (3, 4, ["a4"])]),
        (math.inf, [(0, 4, ["c4"]), (1, 9, ["b9"]), (1, 2, ["b2"]), (3, 5, ["a5"]), (3, 7, ["None7"]), (3, 4, ["a4"])]),
    ],
)
def test_records_travel_with_their_drawer_and_alone_if_they_may_be_late(
    mark: float, expected: list[tuple[int, int, list[str]]]
) -> None:
    (made,) = _parcels(next(_gathered(iter([batch(ROWS[:2]), batch(ROWS[2:])]))), SCHEMA, "at", mark)
    found = [
        (row[DRAWER], row[LAST], [f"{r['k']}{r['at']}" for r in read(row[PARCEL], SCHEMA).to_pylist()])
        for row in made.to_pylist()
    ]
    assert found == expected


def test_a_watermark_that_cannot_be_found_is_not_taken_for_none(tmp_path: Path) -> None:
    aside = Aside(checkpoint=tmp_path, folder=tmp_path)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{"batchWatermarkMs":0}\n{}')
    (tmp_path / "offsets" / "1").write_text('v1\n{"batchWatermarkMs":12}\n{}')
    assert [aside.told(batch) for batch in range(4)] == [0, 0, 12_000, None]
    assert [aside.watermark(batch) for batch in range(4)] == [None, None, 12_000, None]
