"""What every connector is built from.

Choose the base class by what the outside system can do; that choice is the guarantee:
`ReplayableSource` can read the same records again, `LossySource` cannot;
`TransactionalSink` and `IdempotentSink` write a repeated batch once, `AppendSink` may write it twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from headrace.model import Changes, Delivery, Schema
from headrace.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from headrace.formats.base import Format

ORIGIN = "_headrace_origin"
"""The column for where a record came from: a struct of what its source knows of value, key, topic, partition, offset,
timestamp, file and line; where it is not readable also `record`, what else is known of it, as JSON."""
REASON = "_headrace_reason"
"""The column for why a record cannot be read; `value` beside it, in ORIGIN, is what was there."""

O = TypeVar("O", bound=Options)  # noqa: E741
C = TypeVar("C", bound="type[Connector[Any]]")


@dataclass(frozen=True, kw_only=True)
class Place:
    """What a connector may know about where it runs; handed in, never looked up."""

    step: str
    """The name of the source or sink."""
    flow: str
    home: Path
    """A folder of its own in the run's home; it exists and survives restarts."""
    base: Path
    """The folder relative paths in the flow are meant from: the project's root."""
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Client settings of the project's Kafka in librdkafka's spelling; at least "bootstrap.servers"."""


@dataclass(frozen=True, kw_only=True)
class Between:
    """The records of some batches of a run: those behind `start`, up to `end`."""

    start: str | None
    """Offsets as the checkpoint's `offsets/N` has them, in the source's own spelling; None: where the run began."""
    end: str | None
    """The same; None: nothing was there to be read yet."""
    kept: str | None = None
    """The folder of the checkpoint in which Spark's source keeps what it must know besides, such as its files."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a source is asked for."""

    session: SparkSession
    streaming: bool
    """False: everything there is, once, as a batch."""
    schema: Schema | None
    """The columns the author stated, if any."""
    format: Format[Any] | None
    place: Place
    start: str | None = None
    """`--from`: an offset or a time, for sources that can seek."""
    stop: str | None = None
    """`--to`."""
    between: Between | None = None
    """Read exactly these records once more, as a batch; `start` is not looked at then."""
    origin: bool = False
    """Whether to add where each record came from, as column ORIGIN with what is known of it."""
    reasons: bool = False
    """Whether to give records that cannot be read too, from a connector that reads files: with REASON set."""
    query: str = ""
    """The query that reads."""
    reads_for: str = ""
    """The query whose records they are, also where they are read once more."""
    repeated: int | None = None
    """The batch of it that was begun and not finished: a stream has it once more, first."""
    files: tuple[str, ...] | None = None
    """Only these files, as a batch; None: whatever there is."""
    readers: tuple[str, ...] = ()
    """All queries of the flow that read this source, each at its own pace."""
    tuned: Mapping[str, str] = field(default_factory=dict)
    """How the planner wants its client set, by the settings' own names."""
    per_batch: int | None = None
    """Most records in one batch where the author does not say; None: all there are."""
    real_time: bool = False
    """Whether records are to flow through one by one, in real-time mode."""
    arrival: bool = False
    """Whether to add when each record reached the log, as column `headrace.connectors.time.ARRIVAL`."""
    pinned: bool = False
    """Whether a batch may be read once more, after a crash, and is to have the same records then."""
    table: bool = False
    """Whether it is read as a table: a record that says that another is deleted takes it out."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What a sink is told about the rows it is given."""

    id: int
    """Rises by one with each batch; a batch repeated after a crash has the same id and the same rows."""
    changes: Changes
    """APPEND: new facts. UPDATE: new values for keys."""
    place: Place
    format: Format[Any] | None = None
    delivery: Delivery = Delivery.EXACTLY_ONCE
    """What the sink is to give: what its author asked for, else the most its path can give."""
    tuned: Mapping[str, str] = field(default_factory=dict)
    """How the planner wants its client set, by the settings' own names."""

    @property
    def owner(self) -> str:
        """Who wrote the batch; with `id` it identifies the batch in an outside system."""
        return f"{self.place.flow}/{self.place.step}"


@dataclass(frozen=True, kw_only=True)
class Written:
    """What became of the rows of a batch, as the sink itself has counted them."""

    written: int = 0
    skipped: int = 0
    """Rows that were there already, from an earlier attempt at the same batch."""


@dataclass(frozen=True, kw_only=True)
class Holding:
    """How a sink is asked what it holds of a run."""

    session: SparkSession
    schema: Schema
    """The columns that were written."""
    format: Format[Any] | None
    place: Place
    batches: tuple[int, int] | None = None
    """The first and last batch, for sinks that know which row is of which; others give all."""
    replays: tuple[Place, ...] = ()
    """Where replays of the run's dead letters wrote from, for sinks that know who wrote what."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something wrong that only shows when options and columns are seen together; a check makes it a Problem."""

    code: str
    message: str
    option: tuple[str | int, ...] = ()
    """Where among the options, from the name of the option inwards."""
    hint: str = ""


class Connector(ABC, Generic[O]):
    """A source or sink of one kind; an instance is one place in one flow."""

    name: ClassVar[str]
    options_model: ClassVar[type[Options]]
    extra: ClassVar[str | None] = None
    example: ClassVar[str]
    """A flow-file entry that is shown in the reference and checked by the tests."""
    carries: ClassVar[Literal["bytes", "files", "rows"]] = "rows"
    """bytes: records need a format. files: the format is the file's. rows: columns are the connector's own."""

    def __init__(self, options: O) -> None:
        self.options: O = options


class SourceConnector(Connector[O]):
    """Where records come from."""

    strongest: ClassVar[Delivery]
    """The most a flow can promise that begins here."""
    weakness: ClassVar[str] = ""
    """Why it is not exactly-once, in a few words."""
    default_format: ClassVar[str | None] = None
    fixed: ClassVar[bool] = False
    """Whether it always holds the same, as what is written in the flow does."""
    in_real_time: ClassVar[bool] = False
    """Whether Spark can read it in real-time mode."""
    arrival: ClassVar[str | None] = None
    """The name of the column that tells when a record reached the log; None: the source does not know."""

    only_table: ClassVar[bool] = False
    """Whether it is read as a table only: all it holds at a moment, since it does not tell what is new."""

    def columns(self) -> Schema | None:
        """The columns this connector always gives; None if the author must state them (`schema:`)."""
        return None

    def metadata(self) -> Schema:
        """Columns added behind the decoded ones, such as a Kafka record's key; empty unless asked for."""
        return Schema()

    def faults(self, schema: Schema) -> Iterator[Fault]:
        """What is wrong with the options for these columns; needs neither Spark nor network."""
        return iter(())

    def set_aside(
        self, reading: Reading, batch: int, columns: Sequence[str], *, empty: frozenset[str] | None = None
    ) -> int:
        """Notes the files of a batch that cannot be read, for `read` to leave out; how many were not known before.

        Those columns must be readable. `empty`: only look for the files that are among these, which are empty.
        Only for formats whose files are taken whole or not at all.
        """
        return 0

    def left_out(self, reading: Reading, batch: int) -> int:
        """How many files of a batch are left out."""
        return 0

    @abstractmethod
    def read(self, reading: Reading) -> DataFrame:
        """A streaming frame, or a batch one over everything there is.

        A connector that carries bytes gives a column `value BINARY` and its metadata columns; others give
        the columns of `columns()` or of `reading.schema`. Asked for `reading.between`, it gives the records that
        a stream was given there, or raises FlowError if it cannot.
        """


class ReplayableSource(SourceConnector[O]):
    """Has offsets: the same records can be read again."""

    strongest = Delivery.EXACTLY_ONCE


class LossySource(SourceConnector[O]):
    """Hands each record over once, whether or not anybody was there."""

    strongest = Delivery.AT_MOST_ONCE


class SinkConnector(Connector[O]):
    """Where records go."""

    strongest: ClassVar[Delivery]
    weakness: ClassVar[str] = ""
    default_format: ClassVar[str | None] = None
    in_real_time: ClassVar[bool] = False
    """Whether Spark can write to it in real-time mode: `stream` gives the writer."""
    complete: ClassVar[bool] = True
    """Whether a write looks at every row of a batch; false: at some, as a screen does."""
    in_one_action: ClassVar[bool] = True
    """Whether it does so in one action of Spark's; false: partition by partition, when Spark hands out what was counted
    before there is anything to count."""

    task_by_task: ClassVar[bool] = False
    """Whether each task of Spark's makes its own rows durable, so that some of a batch stay when the rest fails."""

    keeps_all: ClassVar[bool] = False
    """Whether values stay that newer ones follow, as in a log: only who takes it for a table sees the last alone."""

    def takes_updates(self) -> bool:
        """Whether new values for a key can replace old ones here, and a row be taken back, with these options."""
        return False

    def key(self) -> tuple[str, ...]:
        """The columns that identify a row here, if any."""
        return ()

    def requires(self, given: Schema) -> tuple[str, ...]:
        """Columns the input must have beyond the key, because an option names them."""
        return ()

    newest_by: str | None = None
    """The column that says which of two rows with one key holds; None: the one that was written later."""

    def begins(self, place: Place) -> None:
        """Called before the first batch of a run: a chance to note what is here already, in the place's folder."""

    def newest(self, session: SparkSession, place: Place) -> int | None:
        """The newest batch of the place's writer that is here, by the mark that makes a repeated one known.

        None: there is none, or no mark is kept. Raises EndpointError if nobody answers.
        """
        return None

    def holds(self, holding: Holding) -> DataFrame | None:
        """The rows that are here, with the columns of `holding.schema`; None: they cannot be read back.

        Rows that were here before the run are left out where they can be told; else `held_before` counts them.
        """
        return None

    def held_before(self, place: Place) -> int:
        """How many of the rows that `holds` gives were here before the run began."""
        return 0

    def stream(self, frame: DataFrame, batch: Batch) -> DataStreamWriter:
        """What writes a stream, row by row; for real-time mode. `batch.id` means nothing."""
        raise NotImplementedError  # for those that say `in_real_time`

    @abstractmethod
    def write(self, frame: DataFrame, batch: Batch) -> Written:
        """Write one batch; returns only when the rows are durable, and says how many they were.

        Every row is taken, also to be counted where the batch is skipped, and the frame is computed once: the counts
        of the steps before are made on the way.
        A sink that carries bytes is given `value BINARY` and the flow's columns; see `Format.encode`. Where rows may be
        taken back the frame also has the column REMOVED; such a row is counted as any other, and its `value` is null.
        """


class TransactionalSink(SinkConnector[O]):
    """Rows and batch id are made durable together, so a repeated batch is recognised."""

    strongest = Delivery.EXACTLY_ONCE


class IdempotentSink(SinkConnector[O]):
    """A batch written again changes nothing."""

    strongest = Delivery.EXACTLY_ONCE


class AppendSink(SinkConnector[O]):
    """A batch repeated after a crash is written twice."""

    strongest = Delivery.AT_LEAST_ONCE
    weakness = "a batch repeated after a crash is written again"


def connector(name: str, *, options: type[Options], example: str, extra: str | None = None) -> Callable[[C], C]:
    """Names a connector class and its options, for the catalogue."""

    def mark(cls: C) -> C:
        cls.name, cls.options_model, cls.example, cls.extra = name, options, example.strip("\n"), extra
        return cls

    return mark
