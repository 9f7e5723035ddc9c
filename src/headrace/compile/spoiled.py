"""Batches with files that cannot be read: the files are noted, the batch is done without them, they are dead letters.

Nothing is looked for as long as all goes well. When a batch fails because Spark cannot read a file, its files are read
one by one; those that fail are noted in the run's home, and the batch is done again without them. Of a sink that keeps
some of a batch that fails nothing may have been written by then, so before such a sink the files are read first.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.compile.counting import Counts, Once
from headrace.compile.frames import Branch, read_name
from headrace.compile.letters import UNREADABLE, Counting
from headrace.compile.observed import this_execution
from headrace.compile.planner import format_of, in_record, wanted
from headrace.connectors.base import Reading, SourceConnector
from headrace.connectors.unreadable import empty_in, tells_of_file
from headrace.model import Delivery, Source

if TYPE_CHECKING:
    from headrace.compile.lower import Lowered
    from headrace.compile.where import Where

_TRIES = 3
"""How often a batch is done again though each of its files can be read by itself: one may just have been completed."""
WRITTEN = "headrace_written"
"""On an error: the sinks have the batch already."""


class SpoiledFilesError(Exception):
    """Files of a batch cannot be read; they are noted, and it is to be done again without them."""


class Sieve:
    """Finds out whether a batch that failed can be done again without some files."""

    def __init__(self) -> None:
        self._tries: dict[int, int] = {}

    def again(self, error: BaseException, lowered: Lowered, batch: int) -> bool:
        """Whether to do a batch again, for there is hope that it does not fail the same way."""
        if isinstance(error, SpoiledFilesError):
            return True
        if not tells_of_file(error) or getattr(error, WRITTEN, False) or not concerns(lowered):
            return False
        try:
            if set_aside(lowered, batch):
                return True
        except Exception:  # noqa: BLE001, what is looked for is a way out of an error that must not be lost for it
            traceback.print_exc()
            return False
        self._tries[batch] = self._tries.get(batch, 0) + 1
        return self._tries[batch] <= _TRIES


def concerns(lowered: Lowered) -> bool:
    """Whether a query reads files that are taken whole or not at all."""
    return any(_sources(lowered))


def before(lowered: Lowered, batch: int) -> None:
    """Looks at the files of a batch before anything of it is written, as far as that cannot wait until it fails."""
    if not concerns(lowered):
        return
    if lowered.where.streaming:
        execution = this_execution(lowered.where.session)
        empty = empty_in(execution.optimizedPlan()) if execution is not None else frozenset()
        if empty:
            set_aside(lowered, batch, empty=empty)  # Spark reads none of them, so the batch is right without them
    if _keeps_halves(lowered) and set_aside(lowered, batch):
        raise SpoiledFilesError


def set_aside(lowered: Lowered, batch: int, *, empty: frozenset[str] | None = None) -> int:
    """Notes the files of a batch that cannot be read; how many were not known before."""
    session, found = lowered.where.session, 0
    session.sparkContext.setJobDescription(f"headrace files of {lowered.query.name} batch {batch}")
    where, _ = lowered.once_more(batch)
    for source, connector, reading in _sources(lowered, where):
        columns = in_record(source, wanted(lowered.plan.flow, lowered.plan.schemas, source)).names
        found += connector.set_aside(reading, batch, columns, empty=empty)
    return found


def with_files(lowered: Lowered, batch: int, counts: Counts) -> Counts:
    """The counts of a batch of a stream and in them, as records that were read and are not readable, its files."""
    if not lowered.where.streaming:
        return counts  # there each of them is a row
    for source, connector, reading in _sources(lowered):
        number, name = connector.left_out(reading, batch), f"{source.name}.{UNREADABLE.where}"
        if number:
            rows, taken = {**counts.rows}, {**counts.taken}
            if read_name(source.name) in rows:
                rows[read_name(source.name)] += number
            before: Mapping[str, int] = taken.get(name, {})
            taken[name] = {**before, UNREADABLE.field: before.get(UNREADABLE.field, 0) + number}
            counts = replace(counts, rows=rows, taken=taken)
    return counts


def _sources(lowered: Lowered, where: Where | None = None) -> Iterator[tuple[Source, SourceConnector[Any], Reading]]:
    """The sources of a query whose files are taken whole or not at all."""
    where = where or lowered.where
    branch = Branch(lowered.plan, where, {}, rejects=Counting(Once(where.session)))
    for source in lowered.plan.flow.sources:
        if source.name not in lowered.query.sources or source.table is not None:
            continue
        connector = where.source(source)
        form = format_of(source, connector.default_format)
        if connector.carries == "files" and form is not None and form.whole_files:
            yield source, connector, branch.reading(source, connector)


def _keeps_halves(lowered: Lowered) -> bool:
    """Whether a sink may have some of a batch that fails while it reads, or would not take it a second time."""
    for sink in lowered.plan.flow.sinks:
        if sink.name not in lowered.query.sinks:
            continue
        if next(p.delivery for p in lowered.plan.promises if p.sink == sink.name) is Delivery.AT_MOST_ONCE:
            return True
        if lowered.connector(sink).task_by_task and not lowered.query.stateful:  # behind state all has been read
            return True
    return False
