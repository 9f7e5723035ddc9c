"""Memory: rows kept in the process, for tests and previews."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import Field as Option

from headrace.connectors.base import Batch, Holding, Place, TransactionalSink, Written, connector
from headrace.connectors.identity import known_writer, writer
from headrace.model import REMOVED
from headrace.options import Names, Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]


@dataclass
class Table:
    """What one sink was given; `rows` is replaced, never changed, so a reader's copy stays as it is."""

    rows: tuple[Row, ...] = ()
    last: dict[str, int] = field(default_factory=dict)
    """The last batch of each writer."""


tables: dict[tuple[str, str], Table] = {}
"""Every memory sink of this process, by flow and sink."""
_lock = threading.Lock()


class MemoryOptions(Options):
    """How rows are kept."""

    key: Names = Option((), description="Columns that identify a row: a later one replaces it.", examples=["user"])


@connector(
    "memory",
    options=MemoryOptions,
    example="""
preview:
  from: totals
  memory: {key: user}
""",
)
class MemorySink(TransactionalSink[MemoryOptions]):
    """Rows as dictionaries in `memory.tables[flow, sink]`; gone when the process ends.

    When a key occurs twice in a batch, the last row holds.
    """

    def takes_updates(self) -> bool:
        return bool(self.options.key)

    def key(self) -> tuple[str, ...]:
        return self.options.key

    def newest(self, session: SparkSession, place: Place) -> int | None:
        name, table = known_writer(place), tables.get((place.flow, place.step))
        return None if name is None or table is None else table.last.get(name)

    def holds(self, holding: Holding) -> DataFrame | None:
        from headrace.expressions.spark import spark_schema

        table = tables.get((holding.place.flow, holding.place.step))
        if table is None:
            return None  # it was in another process, and is gone
        rows = [tuple(row.get(name) for name in holding.schema.names) for row in table.rows]
        return holding.session.createDataFrame(rows, spark_schema(holding.schema))

    def write(self, frame: DataFrame, batch: Batch) -> Written:
        table = tables.setdefault((batch.place.flow, batch.place.step), Table())
        name = writer(batch)
        if table.last.get(name, -1) >= batch.id:
            return Written(skipped=frame.count())
        given = [row.asDict(recursive=True) for row in frame.collect()]
        with _lock:
            table.rows = merged(table.rows, given, self.options.key)
            table.last[name] = batch.id
        return Written(written=len(given))


def merged(old: tuple[Row, ...], new: list[Row], key: tuple[str, ...]) -> tuple[Row, ...]:
    """The rows with the new ones added, or in the place of those with the same key; without those that are taken back.

    >>> merged(({"k": 1, "n": 1},), [{"k": 1, "n": 2}, {"k": 2, "n": 3}], ("k",))
    ({'k': 1, 'n': 2}, {'k': 2, 'n': 3})
    >>> merged(({"k": 1, "n": 1},), [{"k": 1, "n": 1, REMOVED: True}, {"k": 2, "n": 3, REMOVED: False}], ("k",))
    ({'k': 2, 'n': 3},)
    """
    marked = [(row.pop(REMOVED, False), row) for row in new]
    gone, new = [row for removed, row in marked if removed], [row for removed, row in marked if not removed]
    if not key:
        return (*old, *new)

    def identity(row: Row) -> tuple[object, ...]:
        lower = {name.lower(): value for name, value in row.items()}
        return tuple(repr(lower[name.lower()]) for name in key)

    held = {identity(row): row for row in old}
    for row in gone:
        held.pop(identity(row), None)
    held.update((identity(row), row) for row in new)
    return tuple(held.values())
