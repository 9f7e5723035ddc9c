"""Where a plan is lowered to: what the frames of a query may know of the world they run in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.catalogue import SOURCES
from headrace.compile.letters import Recent
from headrace.compile.spans import Again
from headrace.compile.tables import Tables
from headrace.connectors.base import Between, Place, SinkConnector, SourceConnector
from headrace.model import Flow, Source
from headrace.operators.calls import UNNOTED, Calls
from headrace.operators.late import Aside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where a plan runs: the session, the run's home, the project's folder and Kafka."""

    session: SparkSession
    streaming: bool
    home: Path
    base: Path
    kafka: Mapping[str, str] = field(default_factory=dict)
    start: str | None = None
    stop: str | None = None
    sources: Mapping[str, SourceConnector[Any]] = field(default_factory=dict)
    """Stand-ins by step name: what a test gives in place of the outside world."""
    sinks: Mapping[str, SinkConnector[Any]] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    between: Mapping[str, Between] = field(default_factory=dict)
    """By source, what of it to read once more; those not named are read as usual. For batches."""
    pinned: bool = False
    """Whether what sources hold is noted in the home, so that a batch that is repeated has the same records."""
    again: Again | None = None
    """Some batches of a stream, to be answered once more as one batch."""
    at: int | None = None
    """When the batch that is read once more was planned, in milliseconds: what was now to it."""
    calls: Calls = UNNOTED
    """Where a run is answered once more: the calls that raised then."""
    query: str = ""
    """The name of the query that is lowered, where there is one."""
    repeated: int | None = None
    """The batch of it that was begun and not finished."""
    checkpoint: Path | None = None
    """Of the query that is lowered, where there is one."""
    note: Callable[[dict[str, Any]], None] = lambda told: None
    """Told of the dead letters of a batch, once they are kept."""
    recent: Recent = field(default_factory=Recent)
    """The dead letters of the last minute, of all queries that run here."""
    counted: bool = False
    """Whether rows are counted on every wire, for the ledger."""
    journal: Path | None = None
    """Of the query, where workers cannot read the checkpoint."""
    real_time: bool = False
    """Whether records flow through one by one: nothing is done batch by batch, and all is counted by `observe`."""

    def source(self, source: Source) -> SourceConnector[Any]:
        """What reads a source."""
        return self.sources.get(source.name) or SOURCES[source.connector](source.options)

    def aside(self, step: str) -> Aside | None:
        """Where a step of a stream puts records aside."""
        if not self.streaming or self.checkpoint is None or self.real_time:
            return None
        folder = (self.home / "aside" / step).resolve()
        return Aside(checkpoint=self.checkpoint.resolve(), folder=folder, journal=self.journal)

    def place(self, flow: Flow, step: str) -> Place:
        """What a connector is told; its folder is made."""
        folder = self.home / "places" / step
        folder.mkdir(parents=True, exist_ok=True)
        return Place(step=step, flow=flow.name, home=folder, base=self.base, kafka=self.kafka)
