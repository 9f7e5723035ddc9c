"""A query's journal: what each of its batches read, kept for as long as the run is.

Spark forgets a batch's offsets and watermark after a hundred more. What a batch read decides what it should have
written, so it is written down here, before the batch is; again, and the same, when the batch is repeated. A batch
counts once it is committed. One line of JSON for each, about two hundred bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.compile.leaves import Leaf
from headrace.connectors.base import Between
from headrace.errors import UsageError
from headrace.observe.events import append_line
from headrace.run.checkpoint import Planned, last_committed, planned

_NOTHING = "-"
"""What Spark writes for a source that had nothing yet."""


@dataclass(frozen=True)
class Entry:
    """What one batch read, and under which watermark."""

    batch: int
    watermark: int
    """Milliseconds; 0: there was none yet."""
    at: int
    """When it was planned, in milliseconds: what `current_timestamp` is in it."""
    sources: tuple[tuple[str, int, str | None], ...]
    """Of each leaf: the source, the number of its folder, and the offset it was read up to."""

    @classmethod
    def of(cls, batch: int, plan: Planned, leaves: Sequence[Leaf]) -> Entry:
        assert len(leaves) == len(plan.offsets), f"{len(plan.offsets)} offsets for {len(leaves)} sources"
        sources = tuple(
            (leaf.source, leaf.folder, None if text == _NOTHING else text)
            for leaf, text in zip(leaves, plan.offsets, strict=True)
        )
        said = plan.metadata
        return cls(batch, int(said.get("batchWatermarkMs", 0)), int(said.get("batchTimestampMs", 0)), sources)

    def render(self) -> str:
        said = {"batch": self.batch, "watermark": self.watermark, "at": self.at, "sources": self.sources}
        return json.dumps(said, separators=(",", ":"))

    @classmethod
    def parse(cls, line: str) -> Entry:
        said: Mapping[str, Any] = json.loads(line)
        return cls(said["batch"], said["watermark"], said["at"], tuple((n, f, o) for n, f, o in said["sources"]))


class Journal:
    """The journal of one query, in a file of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, entry: Entry) -> None:
        """Adds a line, durable on return."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        append_line(self.path, entry.render(), durable=True)

    def entries(self) -> dict[int, Entry]:
        """Every batch that was begun, by its number, in order."""
        if not self.path.exists():
            return {}
        found = {}
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                entry = Entry.parse(line)
            except (ValueError, KeyError, TypeError):
                continue  # cut short by a crash; the batch was repeated, and noted again
            found[entry.batch] = entry
        return dict(sorted(found.items()))


def note(journal: Journal, checkpoint: Path, batch: int, leaves: Sequence[Leaf]) -> Entry:
    """Notes what a batch that is about to be written has read, as its checkpoint says."""
    entry = Entry.of(batch, planned(checkpoint, batch), leaves)
    journal.add(entry)
    return entry


def betweens(entries: Mapping[int, Entry], checkpoint: str, first: int, last: int) -> dict[str, Between]:
    """What the batches `first` to `last` read, by source; raises UsageError if that is not known any more.

    A source that the query reads twice, as in a join with itself, may be further in one place than in the other:
    those batches cannot be told apart by source, and that is said.
    """
    missing = [n for n in (first - 1, last) if n >= 0 and n not in entries]
    if missing:
        known = f"batches {min(entries)} to {max(entries)}" if entries else "no batch"
        raise UsageError(f"what batch {missing[0]} read is not known any more; {known} can be read again")
    before = {} if first == 0 else {i: offset for i, (_, _, offset) in enumerate(entries[first - 1].sources)}
    found: dict[str, Between] = {}
    for index, (source, folder, offset) in enumerate(entries[last].sources):
        made = Between(start=before.get(index), end=offset, kept=f"{checkpoint}/sources/{folder}")
        other = found.setdefault(source, made)
        if (other.start, other.end) != (made.start, made.end):
            raise UsageError(
                f'source "{source}" is read in two places, and they were not equally far at batch {last}',
                hint="stop the run when it has read everything, and ask again",
            )
    return found


def committed(entries: Iterable[Entry], checkpoint: Path) -> dict[int, Entry]:
    """The batches that are done."""
    last = last_committed(checkpoint)
    return {e.batch: e for e in entries if last is not None and e.batch <= last}
