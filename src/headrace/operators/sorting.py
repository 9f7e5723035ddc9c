"""Records of many keys as one Arrow batch: told apart, put in order, and given out again as windows.

For windows in order (`ordered.py`). Whatever is done for each record is done here, for all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from headrace.operators.arrays import FIRST, FROM, SIZE, TO
from headrace.operators.drawers import Owner, namer, owning
from headrace.operators.folds import Stretch, pieces
from headrace.operators.parcels import joined, lists

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import types as s

    Numbers = np.ndarray[Any, np.dtype[Any]]

_VALUES = 500_000
"""How many records the windows of one batch may hold, lest it grow beyond what Arrow takes."""


@dataclass(frozen=True, kw_only=True)
class Keys:
    """How keys of some types are told apart."""

    name_of: Callable[[Owner], Any]
    owner_of: Callable[[Owner], Owner]

    @classmethod
    def of(cls, key: s.StructType) -> Keys:
        return cls(name_of=namer(key), owner_of=owning(key))

    def told_apart(self, columns: Sequence[pa.Array]) -> tuple[dict[Any, Owner], Numbers]:
        """The keys of all records by their names, and for each record the number of its key among them."""
        import numpy as np

        codes = np.zeros(len(columns[0]), np.int64)
        for column in columns:
            each = _numbered(column)
            codes = np.unique(codes * (each.max(initial=0) + 1) + each, return_inverse=True)[1]
        _, firsts, codes = np.unique(codes, return_index=True, return_inverse=True)
        owners: dict[Any, Owner] = {}
        places: dict[Any, int] = {}
        numbers = []
        for first in firsts.tolist():
            owner = self.owner_of(tuple(column[first].as_py() for column in columns))
            name = self.name_of(owner)
            owners.setdefault(name, owner)
            numbers.append(places.setdefault(name, len(places)))  # values that Spark takes for equal have one name
        return owners, np.array(numbers, np.int64)[codes]


def _numbered(column: pa.Array) -> Numbers:
    """A number for each value; equal values may have several only if their names are the same."""
    import numpy as np
    import pyarrow as pa

    try:
        return np.asarray(column.dictionary_encode(null_encoding="encode").indices, np.int64)
    except pa.ArrowNotImplementedError:  # nested values
        known: dict[str, int] = {}
        return np.array([known.setdefault(repr(v), len(known)) for v in column.to_pylist()], np.int64)


def chosen(batch: pa.RecordBatch, which: Numbers) -> pa.RecordBatch:
    """Those records, in their order."""
    import pyarrow as pa

    if which.all():
        return batch
    return batch.filter(pa.array(which)) if which.any() else batch.slice(0, 0)


def ordered(batch: pa.RecordBatch, codes: Numbers, at: str) -> Numbers:
    """Where the records lie in the order of key, time and content."""
    import numpy as np

    times = batch.column(at).to_numpy()
    order: Numbers = np.lexsort((times, codes))
    same = (np.diff(times[order]) == 0) & (np.diff(codes[order]) == 0)
    if not same.any() or batch.num_columns == 1:
        return order
    tied = np.zeros(len(order), bool)  # the text of a record is dear, and most often not needed
    tied[1:] |= same
    tied[:-1] |= same
    places = order[tied]
    columns = [c.to_pylist() for c in batch.drop_columns([at]).take(places).columns]
    texts = map(repr, zip(*columns, strict=True))
    found = sorted(zip(codes[places].tolist(), times[places].tolist(), texts, places.tolist(), strict=True))
    order[tied] = [place for *_, place in found]
    return order


def by_key(
    old: Sequence[pa.RecordBatch | None], new: pa.RecordBatch, order: Numbers, codes: Numbers
) -> tuple[pa.RecordBatch, list[int]]:
    """All records, key after key, of each those kept before (`old`) and then the new ones; and how many each has."""
    import numpy as np

    there = [number for number, batch in enumerate(old) if batch is not None]
    kept = [batch for batch in old if batch is not None]
    numbers = np.repeat(np.array(there, np.int64), [batch.num_rows for batch in kept])
    every = np.concatenate([numbers, codes[order]])
    rows = joined([*kept, new], new.schema)
    places = np.concatenate([np.arange(len(numbers)), order + len(numbers)])[np.argsort(every, kind="stable")]
    return rows.take(places), np.bincount(every, minlength=len(old)).tolist()


@dataclass(frozen=True)
class Windows:
    """Windows of many keys on their way out; a row holds some of one key."""

    rows: list[tuple[int, int, int, Sequence[Stretch]]] = field(default_factory=list)
    """The number of the key, where among all records theirs begin and end, and the windows from there on."""

    def add(self, number: int, low: int, closed: Sequence[Stretch]) -> None:
        """The windows of a key whose records begin at `low`."""
        for first, end, some in pieces(closed):
            self.rows.append((number, low + first, low + end, some))

    def batches(self, records: pa.RecordBatch, owners: Sequence[Owner], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows in batches: the keys, FROM, TO, FIRST, SIZE and the values."""
        begin = size = 0
        for index, (_, low, high, _) in enumerate(self.rows):
            size += high - low
            if size >= _VALUES or index == len(self.rows) - 1:
                yield _batch(self.rows[begin : index + 1], records, owners, schema)
                begin, size = index + 1, 0


def _batch(
    rows: Sequence[tuple[int, int, int, Sequence[Stretch]]],
    records: pa.RecordBatch,
    owners: Sequence[Owner],
    schema: pa.Schema,
) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    def kind(name: str) -> pa.DataType:
        return schema.field(name).type

    mine = [owners[number] for number, *_ in rows]
    keys = schema.names[: schema.get_field_index(FROM)]
    made = [pa.array([owner[i] for owner in mine], kind(name)) for i, name in enumerate(keys)]
    each = np.array([len(some) for *_, some in rows], np.int64)
    flat = chain.from_iterable(window for *_, some in rows for window in some)  # far cheaper than an array of tuples
    spans = np.fromiter(flat, np.int64, 4 * int(each.sum())).reshape(-1, 4)
    # A window's place is told within its row, from 1 on; in `some` it is within the records of its key.
    starts = np.array([some[0].first for *_, some in rows], np.int64)
    spans[:, 2] += 1 - np.repeat(starts, each)
    for column, name in enumerate((FROM, TO, FIRST, SIZE)):
        made.append(lists(pa.array(spans[:, column], kind(name).value_type), each, kind(name)))
    lows, highs = (np.array([row[i] for row in rows], np.int64) for i in (1, 2))
    sizes = highs - lows
    places = np.arange(sizes.sum()) + np.repeat(lows - (np.cumsum(sizes) - sizes), sizes)
    values = schema.names[len(made) :]
    made += [lists(records.column(name).take(pa.array(places)), sizes, kind(name)) for name in values]
    return pa.RecordBatch.from_arrays(made, schema=schema)
