"""Records of many keys in one Arrow batch: told apart as Spark does, in order, and out again as windows."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.operators.arrays import FIRST, FROM, SIZE, TO
from headrace.operators.drawers import _unsigned
from headrace.operators.folds import Fold, in_order
from headrace.operators.sorting import Keys, Windows, by_key, ordered

KEYS = Keys(name_of=repr, owner_of=_unsigned)


@pytest.mark.parametrize(
    ("columns", "owners", "codes"),
    [
        ([pa.array(["a", None, "b", "a", None])], ["('a',)", "(None,)", "('b',)"], [0, 1, 2, 0, 1]),
        ([pa.array([0.0, math.nan, -0.0, None])], ["(0.0,)", "(nan,)", "(None,)"], [0, 1, 0, 2]),
        ([pa.array([[1], [], [1], None])], ["([1],)", "([],)", "(None,)"], [0, 1, 0, 2]),
        ([pa.array([1, 1, None]), pa.array([None, 2, 1])], ["(1, None)", "(1, 2)", "(None, 1)"], [0, 1, 2]),
        ([pa.array([], pa.int64())], [], []),
    ],
)
def test_keys_are_told_apart_as_spark_does(columns: list[pa.Array], owners: list[str], codes: list[int]) -> None:
    found, numbers = KEYS.told_apart(columns)
    names = list(found)
    assert sorted(names) == sorted(owners)
    assert [names[number] for number in numbers.tolist()] == [owners[code] for code in codes]


@pytest.mark.parametrize("seed", range(20))
def test_many_keys_at_once_are_as_each_alone(seed: int) -> None:
    chance = random.Random(seed)
    kept = {k: sorted((chance.randrange(5), chance.choice("xy")) for _ in range(chance.randrange(3))) for k in range(4)}
    new = [(chance.randrange(4), chance.randrange(10, 20), chance.choice(["x", "y", None])) for _ in range(30)]
    schema = pa.schema([("at", pa.int64()), ("v", pa.string())])
    batch = pa.RecordBatch.from_arrays([pa.array(c) for c in list(zip(*new, strict=True))[1:]], schema=schema)
    codes = np.array([k for k, *_ in new])
    old = [
        pa.RecordBatch.from_pylist([{"at": a, "v": v} for a, v in rows], schema=schema) if rows else None
        for rows in kept.values()
    ]
    rows, counts = by_key(old, batch, ordered(batch, codes, "at"), codes)
    expected = {k: [*kept[k], *in_order(row[1:] for row in new if row[0] == k)] for k in kept}
    assert counts == [len(found) for found in expected.values()]
    assert [tuple(r.values()) for r in rows.to_pylist()] == [row for found in expected.values() for row in found]

    fold, out, low = Fold(kind="sliding", size=4), Windows(), 0
    told: list[tuple[Any, ...]] = []
    for number, mine in expected.items():
        turn = fold.over([at for at, _ in mine], len(kept[number]), 0, 20)
        out.add(number, low, turn.closed)
        low += len(mine)
        told += [(number, w.start, w.end, [v for _, v in mine[w.first : w.first + w.size]]) for w in turn.closed]
    spans = [(name, pa.list_(pa.int64())) for name in (FROM, TO)] + [(n, pa.list_(pa.int32())) for n in (FIRST, SIZE)]
    made = pa.schema([("k", pa.int64()), *spans, ("v", pa.list_(pa.string()))])
    given = []
    for one in out.batches(rows, [(k,) for k in expected], made):
        for k, begins, ends, firsts, sizes, values in (tuple(r.values()) for r in one.to_pylist()):
            for begin, end, first, size in zip(begins, ends, firsts, sizes, strict=True):
                given.append((k, begin, end, values[first - 1 : first - 1 + size]))
    assert given == told
