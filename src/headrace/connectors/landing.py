"""Records of a spout on disk: numbered, written once, read as often as a batch is repeated. No Spark here.

<place>/landed/
  00000000000000000000.arrow   records from that number on, with their ids; one file for each time some were taken
  readers/<query>              up to where a query has committed
  lock                         held by the one process that asks the spout
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from headrace.connectors import durable

if TYPE_CHECKING:
    import pyarrow as pa

ID = "_headrace_id"


@dataclass
class Landing:
    """The folder of one spout."""

    folder: Path
    readers: tuple[str, ...]
    """The queries that read it: a record is done with when all of them have committed it."""
    _lock: IO[str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        (self.folder / "readers").mkdir(parents=True, exist_ok=True)

    def take(self) -> bool:
        """Makes this process the one that asks the spout; False if another one is."""
        if self._lock is None:
            handle = (self.folder / "lock").open("a+")
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.close()
                return False
            self._lock = handle
        return True

    def release(self) -> None:
        """Lets another process ask."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _files(self) -> list[tuple[int, Path]]:
        return sorted((int(file.stem), file) for file in self.folder.glob("*.arrow"))

    def end(self) -> int:
        """The number of the record that will be landed next."""
        files = self._files()
        if not files:
            return self._number(self.folder / "end")
        first, file = files[-1]
        return first + int(_read(file).num_rows)

    def land(self, records: pa.RecordBatch) -> int:
        """Writes records, with their ids as the last column; they are durable when this returns. The new end."""
        import pyarrow as pa

        first = self.end()
        draft = self.folder / "draft"
        with draft.open("wb") as file:
            with pa.ipc.new_file(file, records.schema) as writer:
                writer.write_batch(records)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self.folder / f"{first:020d}.arrow")
        durable.sync(self.folder)
        return first + int(records.num_rows)

    def read(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The records of a range, with their ids."""
        files = self._files()
        for index, (first, file) in enumerate(files):
            behind = files[index + 1][0] if index + 1 < len(files) else None
            if first >= end or (behind is not None and behind <= start):
                continue
            records = _read(file)
            low, high = max(start, first) - first, min(end - first, records.num_rows)
            if high > low:
                yield records.slice(low, high - low)

    def ids(self, start: int, end: int) -> list[Any]:
        """The ids of a range, of those records that have one."""
        said = [text for batch in self.read(start, end) for text in batch.column(ID).to_pylist()]
        return [json.loads(text) for text in said if text is not None]

    def commit(self, reader: str, position: int) -> None:
        """Notes that a query is done with all records before a position."""
        self._put(self.folder / "readers" / reader, position)

    def done(self) -> int:
        """Up to where all queries are."""
        return min((self._number(self.folder / "readers" / name) for name in self.readers), default=0)

    def acknowledged(self) -> int:
        """Up to where the spout was told so."""
        return self._number(self.folder / "acknowledged")

    def acknowledge(self, position: int) -> None:
        """Notes that the spout was told, and removes files that nobody will read again."""
        self._put(self.folder / "acknowledged", position)
        files = self._files()
        if files:
            self._put(self.folder / "end", self.end())
        for index, (_, file) in enumerate(files):
            behind = files[index + 1][0] if index + 1 < len(files) else self.end()
            if behind <= position:
                file.unlink()

    def _number(self, file: Path) -> int:
        try:
            return int(file.read_text(encoding="ascii"))
        except FileNotFoundError:
            return 0

    def _put(self, file: Path, number: int) -> None:
        draft = file.with_name(f".{file.name}")
        with draft.open("w", encoding="ascii") as handle:
            handle.write(str(number))
            handle.flush()
            os.fsync(handle.fileno())
        draft.rename(file)


def _read(file: Path) -> pa.RecordBatch:
    import pyarrow as pa

    with pa.ipc.open_file(file.read_bytes()) as reader:
        return reader.get_batch(0)
