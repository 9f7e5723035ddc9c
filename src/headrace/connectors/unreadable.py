"""Files that cannot be read: found one by one, noted in the run's home, and left out of their batch as a whole.

<home of the source>/unreadable/<query>/<batch>.json   the files of a batch, on disk before the batch is written

What is noted holds, whatever becomes of the file: a batch that is repeated after a crash leaves out the same files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from headrace.connectors import durable
from headrace.connectors.base import ORIGIN, REASON, Place
from headrace.connectors.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EMPTY = "the file is empty"
NOT_PARQUET = "the file is not a whole Parquet file"
DAMAGED = "a part of the file is damaged"
OTHER_TYPE = "a column of the file has another type than is stated"
REASONS = frozenset({EMPTY, NOT_PARQUET, DAMAGED, OTHER_TYPE})
"""Why a file as a whole is a dead letter; no rule says one of these."""
_FOLDER = "unreadable"
_FAILED = "FAILED_READ_FILE"
_OUTSIDE = re.compile(
    r"FileNotFoundException|FILE_NOT_EXIST|AccessControlException|AccessDenied|Permission denied"
    r"|Socket(?:Timeout)?Exception|ConnectException|UnknownHost|NoRouteToHost|InterruptedIO|ClosedByInterrupt"
    r"|Connection reset|[Tt]imed out|BlockMissing|Sdk(?:Client|Service)?Exception|AWS\w*Exception|OutOfMemoryError"
)
"""Why a file may be unreadable now that says nothing about what is in it."""
_LONGEST = 300


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    """A file that is left out."""

    path: str
    """As Hadoop takes it."""
    address: str
    """As Spark shows it: the same as a URI."""
    reason: str
    error: str = ""
    length: int
    modified: int
    """When it was changed last, in milliseconds, as it was found to be unreadable."""
    planned: int | None = None
    """The same as the stream saw it when it planned the batch."""
    copy: str | None = None
    """Where a copy lies, if the source deletes its files."""

    @property
    def record(self) -> str:
        """What is known of the file, as JSON."""
        at = datetime.fromtimestamp(self.modified / 1000, UTC).isoformat(timespec="milliseconds")
        told = {"length": self.length, "modified": at.replace("+00:00", "Z"), "error": self.error, "copy": self.copy}
        return json.dumps({name: value for name, value in told.items() if value not in ("", None)})


class Noted:
    """The unreadable files of a source in the batches of one query."""

    def __init__(self, place: Place, query: str) -> None:
        self.folder = place.home / _FOLDER / query

    def of(self, batch: int) -> list[Unreadable]:
        """Those of one batch."""
        return [*self._read(self.folder / f"{batch}.json")]

    def known(self, batch: int) -> bool:
        """Whether anything was noted of a batch, be it that all of its files can be read."""
        return (self.folder / f"{batch}.json").exists()

    def all(self) -> list[Unreadable]:
        """Those of all batches."""
        return [one for file in sorted(self.folder.glob("*.json")) for one in self._read(file)]

    def add(self, batch: int, found: Iterable[Unreadable]) -> None:
        """Notes some more of a batch; durable on return."""
        known = {one.path: one for one in (*found, *self.of(batch))}
        told = [asdict(known[path]) for path in sorted(known)]
        durable.write(self.folder / f"{batch}.json", json.dumps(told, indent=1))

    @staticmethod
    def _read(file: Path) -> Iterator[Unreadable]:
        if file.exists():
            yield from (Unreadable(**told) for told in json.loads(file.read_text(encoding="utf-8")))


def failing(load: Callable[[Sequence[str]], DataFrame], files: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The files that Spark cannot read, each with what it says; halved until each is alone.

    Raises what has to do with the file's place and not with the file.
    """
    pending = [[*files]] if files else []
    while pending:
        some = pending.pop()
        said = _said(load(some))
        if said is None:
            continue
        if len(some) == 1:
            yield some[0], said
        else:
            middle = len(some) // 2
            pending += [some[middle:], some[:middle]]


def _said(frame: DataFrame) -> str | None:
    try:
        frame.write.format("noop").mode("overwrite").save()
    except Exception as error:
        said = _text(error)
        if _FAILED not in said or _OUTSIDE.search(said):
            raise
        return said
    return None


def tells_of_file(error: BaseException) -> bool:
    """Whether an error says that a file could not be read for what is in it."""
    said = _text(error)
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
        said += _text(error)
    return _FAILED in said and not _OUTSIDE.search(said)


def _text(error: BaseException) -> str:
    """What an error says itself; while one file is looked at, that behind it is the error about another."""
    return f"{error}\n{getattr(error, '_stackTrace', '') or ''}\n"


def reason_of(said: str) -> str:
    """Why a file cannot be read, from what Spark says.

    >>> reason_of("Caused by: java.lang.RuntimeException: file:/in/a.parquet is not a Parquet file. Expected …")
    'the file is not a whole Parquet file'
    """
    if "is not a Parquet file" in said or "ParquetFileReader.readFooter" in said:
        return NOT_PARQUET
    return OTHER_TYPE if "PARQUET_COLUMN_DATA_TYPE_MISMATCH" in said else DAMAGED


def cause_of(said: str) -> str:
    """The line of what Spark says that is about the file.

    >>> cause_of(
    ...     "x\\nCaused by: a.b.ParquetDecodingException: no page\\nCaused by: c.ZstdIOException: no frame\\n\\tat y"
    ... )
    'ZstdIOException: no frame'
    """
    causes = re.findall(r"^\s*Caused by: (?:[\w$]+\.)*([\w$]+(?::.*)?)$", said, re.MULTILINE)
    return causes[-1].strip()[:_LONGEST] if causes else ""


def plain(path: str) -> str:
    """A path by which others can be compared: of a local one, Hadoop writes as many slashes as it likes.

    >>> plain("file:///in/a b"), plain("file:/in/a b"), plain("s3a://in/a")
    ('/in/a b', '/in/a b', 's3a://in/a')
    """
    return re.sub(r"^file:/+", "/", path)


def decoded(address: str) -> str:
    """The path that Spark shows as a URI.

    >>> decoded("file:///a%20b")
    'file:///a b'
    """
    return unquote(address) if urlsplit(address).scheme else address


def looked_up(
    session: SparkSession,
    path: str,
    reason: str,
    *,
    said: str = "",
    planned: int | None = None,
    copy: Path | None = None,
) -> Unreadable:
    """What is known of a file that cannot be read; a copy of it goes to the folder `copy`."""
    folder = Folder(session, path)
    length, modified = folder.status(path)
    kept = None
    if copy is not None:
        copy.mkdir(parents=True, exist_ok=True)
        kept = str(folder.fetch(path, copy))
    return Unreadable(
        path=path,
        address=folder.address(path),
        reason=reason,
        error=cause_of(said),
        length=length,
        modified=modified,
        planned=planned,
        copy=kept,
    )


def empty_in(plan: Any) -> frozenset[str]:
    """The files of nought bytes among those that a plan of Spark's reads: it opens none of them, and says nothing.

    Spark has just listed the files. Each question to Java takes its time, so it is asked for the text of all.
    """
    leaves = plan.collectLeaves()
    found: set[str] = set()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.nodeName() != "LogicalRelation":
            continue
        if leaf.relation().getClass().getSimpleName() == "HadoopFsRelation":
            said = str(leaf.relation().location().allFiles().mkString("\n"))
            found.update(re.findall(r"path=(.*); isDirectory=false; length=0;", said))
    return frozenset(found)


def without(frame: DataFrame, left: Collection[Unreadable]) -> DataFrame:
    """The frame without the files that are left out; none of them is opened.

    A condition on nothing but the name of the file is one that Spark holds against its list of files.
    """
    from pyspark.sql import functions as F

    if not left:
        return frame
    # Of a local file Spark writes one slash or three, depending on who has listed it.
    names = {re.sub("^file:/+", slashes, one.address) for one in left for slashes in ("file:/", "file:///")}
    return frame.where(~F.col("_metadata.file_path").isin(sorted(names)))


def as_rows(frame: DataFrame, left: Sequence[Unreadable]) -> DataFrame:
    """The frame and behind it a row for each file that is left out: with its REASON, and nothing in its columns."""
    from pyspark.sql import functions as F

    if not left:
        return frame
    rows = [(one.address, one.record, one.reason) for one in left]
    told = frame.sparkSession.createDataFrame(rows, "file STRING, record STRING, reason STRING").coalesce(1)
    made: Mapping[str, Any] = {ORIGIN: F.struct("file", "record"), REASON: F.col("reason")}
    return frame.unionByName(
        told.select(
            *(made.get(field.name, F.lit(None).cast(field.dataType)).alias(field.name) for field in frame.schema.fields)
        )
    )
