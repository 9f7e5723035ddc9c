"""What every operator is built from: options, a schema rule, a lowering to Spark.

`outputs` runs while a flow is checked, without Spark; it says what is wrong through `Say` and goes on,
so that all problems are found at once. `lower` is a pure function of frames.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeVar

from headrace.model import OUT, Changes, Schema
from headrace.operators.calls import UNNOTED, Calls
from headrace.operators.late import Aside
from headrace.operators.letters import Reject, stop_at
from headrace.options import Options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

T = TypeVar("T", bound="type[Operator]")
WITHOUT_TIME = (
    'give the source `time: {column: …, watermark: "10 seconds"}`, in SQL EVENT TIME … WATERMARK, and keep that column'
)
"""What to do where a step needs event times and its input has none."""


class Say(Protocol):
    """Reports a problem at an option of the step being checked; `at` is an offset within that option's text."""

    def __call__(
        self,
        code: str,
        message: str,
        *option: str | int,
        hint: str = "",
        detail: str = "",
        at: int = 0,
        warning: bool = False,
    ) -> None: ...


@dataclass(frozen=True, kw_only=True)
class State:
    """What a step remembers between batches."""

    what: str
    """In a few words: "one row per tag and window"."""
    bound: str | None
    """What keeps it from growing for ever; None: nothing does."""
    hint: str = ""
    """What to do about that, if the usual advice does not fit."""


Balance = Literal["each", "some", "once", "others", "state"]
"""What becomes of the records a step takes, for the ledger.

each: one leaves for each. some: those it leaves out are counted. once: the first of each key leaves, the others are
counted by its state. others: it makes new ones, of any number. state: they are taken into state, or are late.
"""


@dataclass(frozen=True, kw_only=True)
class Lowering:
    """What a lowering may know besides its frames."""

    step: str
    streaming: bool
    given: tuple[Schema, ...]
    schema: Mapping[str, Schema]
    """What `outputs` answered."""
    inputs: tuple[str, ...] = ()
    """The names of what it reads from."""
    base: Path = Path()
    """The folder relative paths in the flow are meant from."""
    aside: Aside | None = None
    """Where records for a side port are put; None: nothing is put aside, as in a batch, where nothing is late."""
    reject: Reject = stop_at
    """What takes the records out that the step cannot take."""
    carried: tuple[str, ...] = ()
    """Columns beside those of the schemas that a step which makes each record of one other must pass on."""
    calls: Calls = UNNOTED
    """What becomes of calls of its functions that raise."""
    failures: Path | None = None
    """Where a step that cannot reject, because it keeps state, puts the records its function raised on; a folder
    for each batch. None: the flow stops at the first."""
    keep: Callable[[DataFrame, str, str, Column], DataFrame] | None = None
    """How rows are filtered so that those left out are counted, under a name and as what; None: they are not."""

    mark: Column | None = None
    """The watermark by which records of a batch are late, in microseconds; None: none is, or Spark does not tell."""

    def in_time(self, frame: DataFrame, is_open: Callable[[Column], Column]) -> DataFrame:
        """The records for which a window is open under the watermark of a batch; the others are counted."""
        from pyspark.sql import functions as F

        if self.keep is None or self.mark is None:
            return frame
        return self.keep(frame, too_late(self.step), "late", F.coalesce(is_open(self.mark), F.lit(True)))

    def kept(self, frame: DataFrame, condition: Column, port: str = OUT) -> DataFrame:
        """The rows that leave by a port: those for which the condition holds. The others are counted."""
        if self.keep is None:
            return frame.where(condition)
        return self.keep(frame, left_out(self.step, port), "filtered", condition)


def left_out(step: str, port: str) -> str:
    """The name under which the records are counted that do not leave by a port.

    >>> left_out("large", "out")
    'large.out:filtered'
    """
    return f"{step}.{port}:filtered"


def too_late(step: str) -> str:
    """The name under which the records are counted that come too late for a step.

    >>> too_late("minutes")
    'minutes.late'
    """
    return f"{step}.late"


class Operator(Options, ABC):
    """One operation on streams. A subclass is an option model that also knows its schema rule and lowering."""

    name: ClassVar[str]
    inputs: ClassVar[Literal[1, 2] | None] = 1
    """How many streams it takes; None: one or more."""
    example: ClassVar[str]
    python_state: ClassVar[bool] = False
    """Whether its state is handled in Python."""

    def in_rocksdb_only(self) -> bool:
        """Whether its state is of the kind that Spark holds in RocksDB only, not in memory."""
        return self.python_state

    def ports(self) -> tuple[str, ...]:
        """The names of its outputs."""
        return (OUT,)

    def sides(self) -> tuple[str, ...]:
        """Those of its ports that carry records put aside on the way; they are always new facts."""
        return ()

    def output(self, given: Schema, say: Say) -> Schema:
        """The columns that leave, for an operator with one input and one output."""
        raise NotImplementedError  # abstract for those that do not override `outputs`

    def outputs(self, given: tuple[Schema, ...], say: Say) -> dict[str, Schema]:
        """The columns that leave by each port."""
        return {OUT: self.output(given[0], say)}

    def changes(self, given: tuple[Changes, ...]) -> Changes:
        """Whether new facts or new values for keys leave."""
        return Changes.UPDATE if Changes.UPDATE in given else Changes.APPEND

    def identifies(self) -> tuple[str, ...]:
        """The columns that identify a row of its output, where rows are new values for keys; else none."""
        return ()

    def decides_by(self) -> frozenset[str]:
        """The columns by whose values it decides whether a record leaves, how often and by which port."""
        return frozenset()

    def balance(self) -> Balance:
        """What becomes of the records it takes, for the ledger."""
        return "each" if self.state(()) is None else "state"

    def every(self) -> timedelta | None:
        """How long at least between two answers, if it is asked to hold back; None: as soon as there are any."""
        return None

    def ticks(self, given: tuple[Schema, ...]) -> bool:
        """Whether something may come due as the clock goes on, without a record."""
        return False

    def state(self, given: tuple[Schema, ...]) -> State | None:
        """What it remembers between batches; None: nothing, so it may run on any part of the input alone."""
        return None

    def layout(self) -> str:
        """What its options do not tell of how its state lies on disk; another answer: old state cannot be read."""
        return ""

    def rejects(self) -> bool:
        """Whether it may take records out because they fail: a Python function may raise."""
        return False

    def rejects_entering(self) -> bool:
        """Whether records may fail on their way into its state, by something that can be done to them again."""
        return False

    def stops(self) -> str:
        """Which of its functions stop the flow when they raise, and why; empty: none does."""
        return ""

    def remakes_columns(self) -> bool:
        """Whether its columns are new to Spark even under old names, so that it forgets which of them is the time."""
        return False

    def sets_time(self) -> bool:
        """Whether it needs the time of its input marked for Spark, and marks that of its output itself."""
        return False

    def holds_time_back(self) -> bool:
        """Whether behind it the watermark is another than before it, by how much Spark does not tell."""
        return False

    def looks_outside(self) -> bool:
        """Whether it asks another system, which may answer otherwise when a batch is repeated."""
        return False

    def time_instead(self) -> str:
        """What to do where what leaves has no event time though its input has; empty: keep the column."""
        return ""

    def drops_late(self) -> bool:
        """Whether it drops records that come too late, and by a rule that can be applied to a batch; see `MARK`."""
        return False

    def settled(self, frame: DataFrame, watermark: int) -> DataFrame:
        """Of its answers over everything, those that a stream has given by a watermark (in microseconds)."""
        return frame

    def held(self) -> str | None:
        """Why it cannot be said which answers a stream has given before its input has ended; None: it can."""
        return None

    def needs(self, wanted: frozenset[str], given: tuple[Schema, ...]) -> tuple[frozenset[str], ...]:
        """Which columns of each input it takes to make the wanted output columns; all, unless it knows better."""
        return tuple(frozenset(schema.names) for schema in given)

    def how(self, given: tuple[Schema, ...]) -> str:
        """How it is executed, for `explain`: natively, or which Python and why."""
        return "native"

    def in_real_time(self, given: tuple[Schema, ...]) -> str | None:
        """Why it cannot run in real-time mode, where records are not gathered into batches; None: it can."""
        if self.python_state:
            return "Spark has no keyed state in Python there"
        if "Python" in self.how(given):
            return "records would wait for each other in the buffers between Java and Python"
        return None

    def real_time_instead(self) -> str:
        """What an author may write instead for real-time mode; empty: nothing."""
        return ""

    @abstractmethod
    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        """The frames that leave by each port."""


def operator(name: str, *, example: str, inputs: Literal[1, 2] | None = 1) -> Callable[[T], T]:
    """Names an operator class for the catalogue; `example` is a flow-file entry that the tests check."""

    def mark(cls: T) -> T:
        cls.name, cls.inputs, cls.example = name, inputs, example.strip("\n")
        return cls

    return mark
