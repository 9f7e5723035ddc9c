"""How far a batch went on in each partition of each topic, from the offsets that were planned before it ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.compile.plan import Plan
from headrace.connectors.kafka_offsets import offsets_in, parse_position
from headrace.model import Source
from headrace.run.journal import Entry


@dataclass(frozen=True)
class Span:
    """The offsets of one partition from `start` up to, not with, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def offsets(self) -> int:
        return self.end - self.start


Spans = Mapping[str, tuple[Span, ...]]
"""By source; only of sources whose offsets count records."""


def spans(plan: Plan, before: Entry | None, entry: Entry, checkpoint: Path, stop: str | None = None) -> Spans:
    """What a batch read of each Kafka source. A source that is told to end at a time is left out: where that is shows
    only when its records are read.
    """
    until = parse_position(stop, "--to")
    found: dict[str, tuple[Span, ...]] = {}
    for index, (name, folder, text) in enumerate(entry.sources):
        source = plan.flow[name]
        if not isinstance(source, Source) or source.connector != "kafka" or (until and until.time):
            continue
        begun = before.sources[index][2] if before is not None and index < len(before.sources) else None
        starts = offsets_in(begun if begun is not None else _first(checkpoint / "sources" / str(folder) / "0"))
        made = []
        for topic, partitions in offsets_in(text).items():
            for partition, end in partitions.items():
                start = starts.get(topic, {}).get(partition, 0)
                last = until.offset(int(partition)) if until else None
                made.append(Span(topic, int(partition), start, max(start, end if last is None else min(end, last))))
        found[name] = tuple(made)
    return found


def _first(path: Path) -> str | None:
    """Where a run began, as Spark's Kafka source has written it down."""
    return path.read_text(encoding="utf-8").lstrip("\0") if path.exists() else None


def counted(spans: Spans) -> dict[str, int]:
    """How many offsets each source went on by."""
    return {name: sum(span.offsets for span in each) for name, each in spans.items()}
