"""How many rows a write has taken, where the writer is Spark's own and does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RowCount:
    """A frame whose rows are counted by the first action that takes them.

    Each task counts what it has passed on; Spark adds up those that count.
    """

    def __init__(self, frame: DataFrame) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        self._observation = Observation()
        self.frame = frame.observe(self._observation, F.count(F.lit(1)).alias("rows"))

    def rows(self) -> int:
        """The count; call it after the action, it waits for one."""
        return int(self._observation.get["rows"])
