"""Which files a stream read in which batch: the log that Spark's file source keeps in the checkpoint.

`sources/<i>/N` lists the files of the source's own batch N, `N.compact` those of all batches up to N. A source's
batch is its offset, `{"logOffset": N}`; it has fewer of them than the query has batches, since not each brings a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.connectors.base import Between
from headrace.connectors.folder import Folder
from headrace.connectors.unreadable import decoded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def files_of(session: SparkSession, between: Between) -> list[str]:
    """The files that were read between two offsets, as paths that Hadoop takes, in order."""
    return [path for path, _ in dated_files_of(session, between)]


def dated_files_of(session: SparkSession, between: Between) -> list[tuple[str, int]]:
    """The same, each with when it had been changed last when the stream found it, in milliseconds."""
    if between.end is None or between.kept is None:
        return []
    folder = Folder(session, between.kept)
    names = [n for n in folder.names(between.kept) if n.removesuffix(".compact").isdigit()]
    texts = (folder.read(f"{between.kept}/{name}") for name in names)
    return listed(texts, behind=_offset(between.start), up_to=_offset(between.end))


def listed(texts: Iterable[str], *, behind: int, up_to: int) -> list[tuple[str, int]]:
    """The files of some batches with their times, from the texts of the log.

    >>> listed(['v1\\n{"path":"file:///a%20b","timestamp":1,"batchId":3}'], behind=2, up_to=3)
    [('file:///a b', 1)]
    """
    found = {entry for text in texts for entry in _entries(text) if behind < entry[0] <= up_to}
    return [(path, time) for _, path, time in sorted(found)]


def _entries(text: str) -> Iterator[tuple[int, str, int]]:
    for line in text.split("\n")[1:]:
        if line.strip():
            entry = json.loads(line)
            yield int(entry["batchId"]), decoded(entry["path"]), int(entry["timestamp"])


def _offset(text: str | None) -> int:
    return int(json.loads(text)["logOffset"]) if text else -1
