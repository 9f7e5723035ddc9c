"""How a batch of files becomes visible exactly once.

Under the folder that is written to:

    _headrace/<writer>/<batch>.staging/    what Spark writes; readers skip names that begin with _
    _headrace/<writer>/<batch>.publishing  written when all of it is there: which file goes where
    _headrace/<writer>/<batch>.json        the same, renamed when every file is in its place

A crash before `.publishing` leaves nothing to be seen; the batch is written anew. A crash after it is completed
from it: the batch would have the same rows anyway. Once `.json` is there the batch is not written again. Everything
goes through Hadoop's FileSystem, so it is the same on a local disk and on HDFS. An object store has no atomic
rename of a folder, but each file still appears whole.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from headrace.connectors.base import Written
from headrace.connectors.folder import Folder
from headrace.connectors.identity import known_writer, writer, writer_of
from headrace.connectors.row_count import RowCount

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.connectors.base import Batch, Place

_KEPT = 20
"""Records of complete batches that are kept for each writer; only the newest id decides."""


def publish(
    frame: DataFrame, batch: Batch, path: str, kind: str, options: Mapping[str, str], partition_by: tuple[str, ...]
) -> Written:
    """Write a batch under `path`, unless it is there already."""
    name = writer(batch)
    records = f"{path}/_headrace/{name}"
    folder = Folder(frame.sparkSession, path)
    # Ids are padded so that names sort as they were written.
    pending, done = f"{records}/{batch.id:010d}.publishing", f"{records}/{batch.id:010d}.json"
    staging = f"{records}/{batch.id:010d}.staging"
    if folder.exists(pending):
        _complete(folder, path, pending, done, staging)
        return Written(skipped=frame.count())
    known = sorted(n for n in folder.names(records) if n.endswith(".json"))
    if known and batch.id <= int(known[-1].removesuffix(".json")):
        return Written(skipped=frame.count())
    _clean(folder, records)
    counted = RowCount(frame)
    (counted.frame.write.format(kind).options(**options).partitionBy(*partition_by).save(staging))
    rows = counted.rows()
    if rows:
        moves = _moves(folder.files(staging), batch.id, name)
        folder.write(pending, json.dumps({"batch": batch.id, "rows": rows, "files": moves}, indent=1))
        _complete(folder, path, pending, done, staging)
        for old in known[: -_KEPT + 1]:
            folder.delete(f"{records}/{old}")
    else:
        folder.delete(staging)
    return Written(written=rows)


def newest_published(session: SparkSession, place: Place, path: str) -> int | None:
    """The newest batch under `path` that this run has published, or has begun to."""
    name = known_writer(place)
    names = [] if name is None else Folder(session, path).names(f"{path}/_headrace/{name}")
    return max(
        (int(found[1]) for n in names if (found := re.fullmatch(r"(\d+)\.(?:json|publishing)", n))), default=None
    )


def published_files(session: SparkSession, place: Place, path: str, batches: tuple[int, int] | None) -> list[str]:
    """The files under `path` that this run has written, all or those of some batches."""
    folder, name = Folder(session, path), writer_of(place)
    if not folder.exists(path):
        return []
    found = []
    for file in folder.files(path):
        mine = re.search(rf"(?:^|/)part-(\d{{10}})-\d{{4,}}-{re.escape(name)}(?:\.|$)", file)
        if mine and not file.startswith("_headrace/") and (batches is None or batches[0] <= int(mine[1]) <= batches[1]):
            found.append(f"{path}/{file}")
    return sorted(found)


def _moves(files: list[str], batch: int, name: str) -> dict[str, str]:
    """From the names Spark gave, within the staging folder, to final ones that say who wrote them and when."""
    moves: dict[str, str] = {}
    for number, file in enumerate(sorted(f for f in files if not re.match(r"[._]", f.rsplit("/", 1)[-1]))):
        folder, _, base = file.rpartition("/")
        endings = base.partition(".")[2]
        final = f"part-{batch:010d}-{number:04d}-{name}{'.' if endings else ''}{endings}"
        moves[file] = f"{folder}/{final}" if folder else final
    return moves


def _complete(folder: Folder, path: str, pending: str, done: str, staging: str) -> None:
    for staged, final in json.loads(folder.read(pending))["files"].items():
        if folder.exists(f"{staging}/{staged}"):  # if not, it was moved before a crash
            folder.move(f"{staging}/{staged}", f"{path}/{final}")
    folder.move(pending, done)
    folder.delete(staging)


def _clean(folder: Folder, records: str) -> None:
    """Removes what a killed batch left behind."""
    for name in folder.names(records):
        if name.endswith(".staging"):
            folder.delete(f"{records}/{name}")
