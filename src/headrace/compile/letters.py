"""Dead letters of a batch: counted on the way, and looked for again only if there are any.

The main path takes bad records out and counts them. When a batch has some, the same steps are lowered once more as a
batch over exactly the offsets it read, with the origin of each record carried along, and this time it is the bad
records that are kept. They are written before the batch is committed, under its id, so each is there once.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headrace.compile.counting import TIMED, Counter, Counts
from headrace.connectors.base import ORIGIN
from headrace.errors import DataError
from headrace.formats.json import EXACT_TIMES
from headrace.model import Schema
from headrace.operators.calls import UNNOTED, Calls, Note
from headrace.operators.letters import LETTERS, because

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FOLDER = "dead-letters"
"""In the run's home: a folder for each query, a file for each batch that had any."""
FAILURES = "failed"
"""In the run's home: what keyed functions raised on, until the batch is written."""
_HIDDEN = "_headrace_"
_MESSAGE = 100_000
"""Bytes of a value, key or record that go into a message; as text in JSON they are a few times as many, and Kafka takes
a megabyte unless told otherwise."""
CALL = "_headrace_call"
"""Beside letters: the call that raised, where one did."""
_COUNTS = ("unreadable", "dead_letters")
_MINUTE = 60.0
_SAME = (".read", TIMED)
"""Counts of a source that may be lowered twice in a plan: they are the same, and Spark takes them for one."""


class Counted(NamedTuple):
    """Under what name, behind that of the part, records are counted that are taken out, and as what."""

    where: str
    field: str


UNREADABLE = Counted("read", "unreadable")
UNTIMED = Counted("time", "unreadable")
REJECTED = Counted("rejected", "dead_letters")


class Rejects(Protocol):
    """What becomes of bad records in one lowering of a flow."""

    carried: tuple[str, ...]
    calls: Calls

    def take(
        self,
        part: str,
        frame: DataFrame,
        failed: Column,
        bad: Column | None = None,
        *,
        counted: Counted = REJECTED,
        readable: bool = True,
    ) -> DataFrame:
        """The frame without the records that failed; `bad` says the same in a yes or no, where that is cheaper."""

    def drop(self, part: str, frame: DataFrame, bad: Column) -> DataFrame:
        """The frame without records that nobody wants to see again."""


@dataclass
class Counting:
    """The main path: bad records are counted and left out."""

    counter: Counter
    calls: Calls = UNNOTED
    carried: tuple[str, ...] = ()
    _names: dict[str, int] = field(default_factory=dict)

    def take(
        self,
        part: str,
        frame: DataFrame,
        failed: Column,
        bad: Column | None = None,
        *,
        counted: Counted = REJECTED,
        readable: bool = True,
    ) -> DataFrame:
        good = failed.isNull() if bad is None else ~bad
        return self.counter.kept(frame, self._name(f"{part}.{counted.where}"), counted.field, good)

    def drop(self, part: str, frame: DataFrame, bad: Column) -> DataFrame:
        return self.counter.kept(frame, self._name(f"{part}.expect"), "dropped", ~bad)

    def _name(self, name: str) -> str:
        if name.endswith(_SAME):
            return name
        number = self._names[name] = self._names.get(name, 0) + 1
        return name if number == 1 else f"{name}.{number}"


@dataclass
class Looking:
    """The second look: bad records are what is kept."""

    owned: frozenset[str]
    """The parts whose dead letters are asked for; another query has those of the others."""
    calls: Calls
    carried: tuple[str, ...] = (ORIGIN,)
    found: list[DataFrame] = field(default_factory=list)

    def take(
        self,
        part: str,
        frame: DataFrame,
        failed: Column,
        bad: Column | None = None,
        *,
        counted: Counted = REJECTED,
        readable: bool = True,
    ) -> DataFrame:
        if part in self.owned:
            self.found.append(_letters(part, frame, failed, readable))
        return frame.where(failed.isNull())

    def drop(self, part: str, frame: DataFrame, bad: Column) -> DataFrame:
        return frame.where(~bad)


def _letters(part: str, frame: DataFrame, failed: Column, readable: bool) -> DataFrame:
    """The records of a frame that failed, as dead letters but for `at`."""
    from pyspark.sql import functions as F

    known = frame.schema[ORIGIN].dataType.fieldNames() if ORIGIN in frame.columns else ()  # type: ignore[attr-defined]
    record = F.lit(None).cast("string")
    if readable:
        record = as_json(frame)
    elif "record" in known:
        record = F.col(f"{ORIGIN}.record")
    told = {
        "step": F.lit(part),
        "reason": failed["reason"],
        "function": failed["function"],
        "place": failed["place"],
        "record": F.coalesce(failed["record"], record),
    }
    for name in LETTERS.names:
        if name not in told and name != "at":
            told[name] = F.col(f"{ORIGIN}.{name}") if name in known else F.lit(None)
    # Without a reason: a function that did not raise when it counted. Its row is in the sinks.
    bad = frame.where(failed["reason"].isNotNull())
    return bad.select(*(told[n].cast(str(LETTERS[n])).alias(n) for n in told), failed["call"].alias(CALL))


def as_json(frame: DataFrame) -> Column:
    """A record as JSON that can be read back."""
    from pyspark.sql import functions as F

    columns = [F.col(f"`{n}`") for n in frame.columns if not n.startswith(_HIDDEN)]
    return F.to_json(F.struct(*columns), EXACT_TIMES) if columns else F.lit("{}")


def stopped(part: str, frame: DataFrame, failed: Column, bad: Column | None = None) -> DataFrame:
    """The frame, which ends the flow at the first record that failed."""
    from pyspark.sql import functions as F

    record = F.coalesce(failed["record"], as_json(frame))
    place = F.when(failed["place"].isNotNull(), F.concat(F.lit(" at "), failed["place"])).otherwise(F.lit(""))
    said = F.concat(
        F.lit(f'headrace.errors.DataError: "{part}" stops at a record: '), failed["reason"], place, F.lit(": "), record
    )
    stop = F.raise_error(F.translate(F.substring(said, 1, 3000), "\n", " "))
    # In a filter: Spark may not leave it out, as it would a column that nothing reads.
    bad = failed.isNotNull() if bad is None else bad
    return frame.where(F.when(bad, stop.cast("boolean")).otherwise(F.lit(True)))


def expected(part: Any, frame: DataFrame, schema: Schema, rejects: Rejects, *, keeps: bool = True) -> DataFrame:
    """The frame without the records that break a rule of the part's; `keeps`: dead letters can be kept here."""
    rules = part.expect
    if rules is None:
        return frame
    if (broken := rules.broken(schema, "stop")) is not None:
        frame = stopped(part.name, frame, because(broken[0]), broken[1])
    if (broken := rules.broken(schema, "drop")) is not None:
        frame = rejects.drop(part.name, frame, broken[1])
    if (broken := rules.broken(schema, "dead-letter")) is not None:
        failed, bad = because(broken[0]), broken[1]
        frame = rejects.take(part.name, frame, failed, bad) if keeps else stopped(part.name, frame, failed, bad)
    return frame


def counted(*counts: Counts) -> int:
    """How many records these counts tell were rejected."""
    return sum(int(found.get(name) or 0) for one in counts for found in one.taken.values() for name in _COUNTS)


class Recent:
    """The dead letters of the last minute; all queries of a flow add to one."""

    def __init__(self) -> None:
        self._told: deque[tuple[float, int]] = deque()
        self._lock = Lock()

    def add(self, number: int) -> None:
        with self._lock:
            self._told.append((time.monotonic(), number))

    def number(self) -> int:
        """How many there were."""
        with self._lock:
            while self._told and self._told[0][0] < time.monotonic() - _MINUTE:
                self._told.popleft()
            return sum(n for _, n in self._told)


@dataclass
class Rate:
    """How many dead letters there were in the last minute, and how many there may be."""

    most: int
    recent: Recent = field(default_factory=Recent)

    def allows(self, number: int) -> bool:
        """Whether so many more may come now."""
        return self.recent.number() + number <= self.most

    def add(self, number: int) -> None:
        self.recent.add(number)

    def check(self, number: int, flow: str, example: str = "") -> None:
        """Raises if so many more are too many."""
        if self.allows(number):
            return
        raise DataError(
            f'flow "{flow}" has more than {self.most:,} dead letters in a minute and stops',
            detail="nothing of the batch is committed; it is read again when the run resumes"
            + (f"; one of them: {example}" if example else ""),
            hint="see what comes in, or allow more: `dead_letters: {per_minute: N}`",
        )


def failures_folder(home: Path, query: str, step: str) -> Path:
    """Where a query puts what a step's keyed function raised on, a folder for each of its batches."""
    return home / FAILURES / query / step


def failures_of(home: Path, query: str, steps: Iterable[str], batch: int) -> Iterator[tuple[str, dict[str, str]]]:
    """What keyed functions raised on in a batch of a query."""
    for step in steps:
        for file in sorted((failures_folder(home, query, step) / str(batch)).glob("*.jsonl")):
            for line in file.read_text(encoding="utf-8").splitlines():
                yield step, json.loads(line)


def forget_failures(home: Path, query: str, batch: int) -> None:
    """Removes what an attempt at a batch of a query has left."""
    for folder in failures_folder(home, query, "").glob(f"*/{batch}"):
        shutil.rmtree(folder, ignore_errors=True)


def failures_frame(session: SparkSession, failures: list[tuple[str, dict[str, str]]]) -> DataFrame:
    """The same as dead letters but for `at`."""
    from headrace.expressions.spark import spark_schema

    columns = spark_schema(LETTERS.keeping(n for n in LETTERS.names if n != "at")).add(CALL, "string")
    rows = [tuple({"step": step, **told}.get(name) for name in columns.fieldNames()) for step, told in failures]
    return session.createDataFrame(rows, columns)


def raised_on(found: DataFrame, notes: Mapping[str, Note]) -> DataFrame:
    """Of letters that were found, those of calls that raised as often as they did; what was not found, as noted.

    Records that are alike have the same digest, and a function may have raised on some of them only. One that is
    not found comes from a function that gave something else the second time: what is noted is all that is known.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if not notes:
        return found
    columns = f"{CALL} STRING, times INT, step STRING, reason STRING, function STRING, place STRING, record STRING"
    said = "when the batch was read again it did not come to the function as before, and is not known"
    told = found.sparkSession.createDataFrame(
        [
            (call, n.times, n.step, n.reason if n.record else f"{n.reason}; {said}", n.function, n.place, n.record)
            for call, n in notes.items()
        ],
        columns,
    )
    alike = Window.partitionBy(CALL).orderBy("source", "topic", "partition", "offset", "file", "line", "record")
    by_call = found.where(F.col(CALL).isNotNull()).withColumn("_headrace_rank", F.row_number().over(alike))
    as_often = by_call.join(told.select(CALL, "times"), CALL).where("_headrace_rank <= times")
    missing = told.join(by_call.select(CALL), CALL, "left_anti")
    whole = found.where(F.col(CALL).isNull()).unionByName(as_often.select(*found.columns))
    return whole.unionByName(missing.drop("times"), allowMissingColumns=True)


def not_found(letters: DataFrame, owned: Iterable[str], *counts: Counts) -> list[tuple[str, dict[str, str]]]:
    """A letter for each part that has rejected more records than were found again, so that it is not silent."""
    kept = {row["step"]: row["count"] for row in letters.groupBy("step").count().collect()}
    found = []
    for part in owned:
        # What two steps read may be lowered, and counted, twice: no count alone is more than there were.
        numbers = [
            int(told.get(name) or 0)
            for one in counts
            for where, told in one.taken.items()
            if where.startswith(f"{part}.")
            for name in _COUNTS
        ]
        missing = max(numbers, default=0) - kept.get(part, 0)
        if missing > 0:
            reason = f"{missing} records were rejected and not found again: a function before gave other answers"
            found.append((part, {"reason": reason}))
    return found


def bounded(letters: DataFrame, kept: str) -> DataFrame:
    """The letters without what is too large for a message; their reason says so, and where all of it is."""
    from pyspark.sql import functions as F

    notes = []
    for name in ("value", "key", "record"):
        size = F.octet_length(name)
        said = F.concat(F.lit(f"its {name} of "), F.format_number(size, 0), F.lit(f" bytes is only in {kept}"))
        notes.append(F.when(size > _MESSAGE, said))
        letters = letters.withColumn(f"{_HIDDEN}{name}", F.when(size <= _MESSAGE, F.col(name)))
    letters = letters.withColumn("reason", F.concat_ws("; ", "reason", *notes))
    return letters.select(
        *(F.col(f"{_HIDDEN}{n}" if n in ("value", "key", "record") else n).alias(n) for n in LETTERS.names)
    )


def at_time(frame: DataFrame, milliseconds: int) -> DataFrame:
    """Letters with the time of their batch."""
    from pyspark.sql import functions as F

    return frame.withColumn("at", F.timestamp_millis(F.lit(milliseconds))).select(*LETTERS.names, CALL)


def keep(letters: DataFrame, file: Path, query: str, batch: int, rate: Rate, flow: str) -> dict[str, int]:
    """Writes the letters of a batch to a file that appears whole; how many there were of each step.

    Always in the same order, so that a letter keeps its number when the batch is repeated.
    """
    draft = file.with_suffix(".new")
    file.parent.mkdir(parents=True, exist_ok=True)
    numbers: dict[str, int] = {}
    order = ("source", "topic", "partition", "offset", "file", "line", "step", "reason", "record")
    with draft.open("w", encoding="utf-8") as out:
        for number, row in enumerate(letters.orderBy(*order).toLocalIterator()):
            told = {name.removeprefix(_HIDDEN): _plain(value) for name, value in row.asDict().items()}
            letter = {"id": f"{query}/{batch}/{number}"} | told
            if not rate.allows(number + 1):
                out.close()
                draft.unlink()
                rate.check(number + 1, flow, f'step "{row["step"]}": {row["reason"]}')
            numbers[row["step"]] = numbers.get(row["step"], 0) + 1
            out.write(json.dumps({k: v for k, v in letter.items() if v is not None}) + "\n")
        out.flush()
        os.fsync(out.fileno())
    if numbers:
        draft.replace(file)
    else:
        draft.unlink()
    rate.add(sum(numbers.values()))
    return numbers


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return value.isoformat() + "Z" if isinstance(value, datetime) else value


def file_of(home: Path, query: str, batch: int) -> Path:
    """The file of a batch's dead letters."""
    return home / FOLDER / query / f"{batch:010d}.jsonl"


def planned_at(checkpoint: Path, batch: int) -> tuple[int, tuple[str | None, ...], tuple[str | None, ...]]:
    """When a batch was planned, in milliseconds, and the offsets of its sources: before it, and at its end."""

    def parse(number: int) -> tuple[Mapping[str, Any], tuple[str | None, ...]]:
        _, metadata, *offsets = (checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
        return json.loads(metadata), tuple(None if text == "-" else text for text in offsets)

    metadata, ends = parse(batch)
    starts = parse(batch - 1)[1] if batch > 0 else tuple(None for _ in ends)
    return int(metadata.get("batchTimestampMs", 0)), starts, ends
