"""What a query's checkpoint says about where it stands, read from its files without Spark.

`offsets/N` is written before batch N runs and says what it reads; `commits/N` is written after it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.compile.leaves import Leaf
from headrace.run.remote import RemotePath


@dataclass(frozen=True)
class Planned:
    """One entry of the offset log: a version, metadata with the watermark, then the offsets of each source."""

    version: str
    metadata: dict[str, Any]
    offsets: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Planned:
        version, metadata, *offsets = text.rstrip("\n").split("\n")
        return cls(version, json.loads(metadata), tuple(offsets))

    def render(self) -> str:
        return "\n".join([self.version, json.dumps(self.metadata, separators=(",", ":")), *self.offsets])

    def at_watermark(self, milliseconds: int) -> Planned:
        """The same offsets under another watermark."""
        return replace(self, metadata={**self.metadata, "batchWatermarkMs": milliseconds})


def last_planned(checkpoint: Path) -> int | None:
    """The newest batch that was begun."""
    return _newest(checkpoint / "offsets")


def last_committed(checkpoint: Path) -> int | None:
    """The newest batch that is done."""
    return _newest(checkpoint / "commits")


def planned(checkpoint: Path, batch: int) -> Planned:
    """What a batch reads."""
    return Planned.parse((checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8"))


def state_format(checkpoint: Path) -> int | None:
    """How state lies in a checkpoint: 2 where each batch names its files, as in real-time mode; else 1.

    None: there is no batch yet, or no state.
    """
    batch = last_committed(checkpoint)
    if batch is None or not (checkpoint / "state").is_dir():
        return None
    said = (checkpoint / "commits" / str(batch)).read_text(encoding="utf-8").split("\n")[-1]
    return 2 if json.loads(said or "{}").get("stateUniqueIds") else 1


def resume_point(checkpoint: Path) -> dict[str, Any] | None:
    """Where a query goes on: the last batch that is done and the offsets it ended at; None: at the beginning."""
    batch = last_committed(checkpoint)
    if batch is None:
        return None
    try:
        offsets = planned(checkpoint, batch).offsets
    except FileNotFoundError:
        return None
    return {"batch": batch, "offsets": [_offset(text) for text in offsets]}


def forget_unplanned(checkpoint: Path, leaves: Sequence[Leaf]) -> None:
    """Takes back the files a source listed for a batch that was then never begun; `leaves` are the query's.

    Spark lists them a moment before it plans the batch. Killed in between, it would read them together with those of
    the next listing: another cut of the input, by which other records may be late.
    """
    batch = last_planned(checkpoint)
    lines = planned(checkpoint, batch).offsets if batch is not None else ()
    if len(lines) != len(leaves):
        return  # nothing was begun, or by a flow with other sources
    for leaf, text in zip(leaves, lines, strict=True):
        taken, folder = _offset(text), checkpoint / "sources" / str(leaf.folder)
        if not (isinstance(taken, dict) and "logOffset" in taken and folder.is_dir()):
            continue
        for listed in folder.iterdir():
            if listed.name.isdigit() and int(listed.name) > taken["logOffset"]:
                listed.with_name(f".{listed.name}.crc").unlink(missing_ok=True)
                listed.unlink()


def hold_back(checkpoint: Path) -> tuple[int, int]:
    """Lets the next batch begin with the watermark of the last one done; it, and what it would have begun with."""
    batch = last_committed(checkpoint)
    if batch is None:
        return 0, 0
    mark = int(planned(checkpoint, batch).metadata.get("batchWatermarkMs", 0))
    path = checkpoint / "commits" / str(batch)
    *head, last = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    said = json.loads(last)
    before = int(said["nextBatchWatermarkMs"])
    if before != mark:
        write_whole(path, "\n".join([*head, json.dumps({**said, "nextBatchWatermarkMs": mark})]))
    return mark, before


def write_whole(path: Path | RemotePath, text: str) -> None:
    """Makes a log's file appear whole or not at all, as Spark does. No checksum beside it: Spark takes it without."""
    if isinstance(path, RemotePath):
        path.write_whole(text)
        return
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    draft = path.with_name(f".{path.name}.headrace.tmp")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _offset(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _newest(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    return max((int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()), default=None)
