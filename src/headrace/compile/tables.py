"""Tables of a run: what their sources held when they were last read.

A snapshot is on the driver, apart from its source, so that every batch that uses it sees the same rows, whatever
happens to the source meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.connectors.table import Table
from headrace.operators.marks import named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class Tables:
    """The snapshots, by source; shared by the queries of a run."""

    clock: Callable[[], float] = time.monotonic
    _held: dict[str, tuple[float, DataFrame]] = field(default_factory=dict)

    def frame(self, source: str, table: Table, read: Callable[[], DataFrame]) -> DataFrame:
        """The table as it was last read; read again if it is older than its author allows."""
        now = self.clock()
        held = self._held.get(source)
        if held is None or (table.refresh is not None and now - held[0] >= table.refresh.total_seconds()):
            held = now, _snapshot(_latest(read(), table))
            self._held[source] = held
        return held[1]


def _latest(frame: DataFrame, table: Table) -> DataFrame:
    """Of several rows with one key the latest; if two are equally late, always the same one."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if not table.key or table.latest_by is None:
        return frame
    row = F.to_json(F.struct(*(F.col(named(n)) for n in frame.columns)))
    order = Window.partitionBy(*map(named, table.key)).orderBy(F.col(named(table.latest_by)).desc_nulls_last(), row)
    number = "_headrace_number"
    return frame.withColumn(number, F.row_number().over(order)).where(F.col(number) == 1).drop(number)


def _snapshot(frame: DataFrame) -> DataFrame:
    held = frame.toArrow()
    return frame.sparkSession.createDataFrame(held, schema=frame.schema)
