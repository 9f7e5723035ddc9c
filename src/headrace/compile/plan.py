"""A plan: what will run, as a value that can be printed. No Spark here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from headrace.check.guarantees import Promise
from headrace.model import Changes, Flow, Mode, Port, Schema


@dataclass(frozen=True, kw_only=True)
class Query:
    """One Spark query: everything up to its trunk runs as one stream, then each sink takes its branch.

    What follows the trunk remembers nothing, so it is applied to each batch as it comes; sinks that share
    a trunk share one read of the sources.
    """

    name: str
    """Names the checkpoint, so it is a promise: the trunk's step name."""
    trunk: Port
    sources: tuple[str, ...]
    steps: tuple[str, ...]
    """Every step up to the trunk, in order."""
    sinks: tuple[str, ...]
    changes: Changes
    stateful: tuple[str, ...] = ()
    """The steps that remember: backwards as Spark numbers them, so the sources' first, of two branches the second."""
    letters: tuple[str, ...] = ()
    """The sinks that take dead letters of its parts."""
    owned: tuple[str, ...] = ()
    """The parts whose dead letters are its to keep; a source or step that two queries use is the first one's."""
    asides: tuple[str, ...] = ()
    """In real-time mode, the sinks that take late records: found and written when a batch is done."""
    ticks: bool = False
    """Whether something may come due without a record, so that there are batches without any."""
    every: timedelta | None = None
    """How long at least from the beginning of a batch to that of the next; None: no pause."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One decision of the planner with its reason, for `explain`."""

    what: str
    value: str
    why: str
    by_author: bool = False


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A flow made ready: queries, columns on every wire, guarantees, settings."""

    flow: Flow
    mode: Mode
    queries: tuple[Query, ...]
    schemas: Mapping[Port, Schema]
    promises: tuple[Promise, ...]
    choices: tuple[Choice, ...] = ()
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of the Spark session."""
    reading: Mapping[str, str] = field(default_factory=dict)
    """How Kafka's consumers are set, by their own names."""
    per_batch: int | None = None
    """Most records of a source in one batch, where its author does not say; None: all there are."""
    writing: Mapping[str, str] = field(default_factory=dict)
    """How Kafka's producers are set."""
    java: str = ""
    """What Java is told."""
    checkpoint: timedelta | None = None
    """In real-time mode, how long between two checkpoints."""
    slots: int | None = None
    """In real-time mode, how many tasks run at once; None: not known before the topics were asked."""
    changes: Mapping[Port, Changes] = field(default_factory=dict)
    """What the rows on each wire mean."""
