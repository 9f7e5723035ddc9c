"""A frame that is looked at more than once and computed once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def computed_once(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame, kept within; one that somebody keeps already stays kept.

    Spark knows what is kept by its plan, not by who asked: to let go of a frame is to let go of it for everybody.
    """
    level = frame.storageLevel
    if level.useMemory or level.useDisk:
        yield frame
        return
    kept = frame.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
