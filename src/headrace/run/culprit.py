"""Which step met a value that Spark refuses to evaluate, and in which record; found by doing the batch once more.

Spark says which value it could not cast or divide by, but not where in the flow: its generated code has several steps
in one. So the batch is read again and computed up to one step after another, and the records that go into the first
that fails are halved until one is left. This happens once, when the run ends for it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.compile.counting import Once
from headrace.compile.frames import Branch
from headrace.compile.letters import Counting, as_json
from headrace.model import Location, Port, Step
from headrace.run.failure import tells_of_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.compile.lower import Lowered

_NUMBER = "_headrace_number"


@dataclass(frozen=True, kw_only=True)
class Culprit:
    """Where it happened, as far as it is known."""

    step: str
    location: Location
    record: str = ""


def blame(error: BaseException, lowered: Lowered, batch: int) -> None:
    """Notes on an error which step and record it came from, if it tells of a value and they can be found."""
    if not tells_of_value(error):
        return
    try:
        error.headrace_culprit = culprit(lowered, batch)  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001, what is looked for is more about an error that must not be lost for it
        traceback.print_exc()


def culprit(lowered: Lowered, batch: int) -> Culprit | None:
    """The first step of a batch that cannot be computed, and the first record that goes into it that is to blame."""
    where, _ = lowered.once_more(batch)

    def given(frames: Mapping[Port, DataFrame]) -> Branch:
        return Branch(lowered.plan, where, frames, rejects=Counting(Once(where.session)))

    all_of_it = given({})
    step = next((one for one in _in_order(lowered) if _fails(all_of_it, one)), None)
    if step is None:
        return None
    at, (first, *others) = step.places.location, step.inputs
    if others:
        return Culprit(step=step.name, location=at)
    rows = all_of_it.frame(first)
    return Culprit(step=step.name, location=at, record=_record(rows, lambda some: _fails(given({first: some}), step)))


def _in_order(lowered: Lowered) -> Iterator[Step]:
    """The steps that can be computed from what a batch has read, each behind those it reads from.

    What lies behind a step that remembers cannot: it depends on batches before.
    """
    flow, stateful = lowered.plan.flow, set(lowered.query.stateful)
    names = {n for sink in lowered.query.sinks for n in flow.upstream(sink)} | set(lowered.query.steps)
    for name in sorted(names, key=lambda n: (len(flow.upstream(n)), n)):
        part = flow[name]
        if isinstance(part, Step) and not stateful & set(flow.upstream(name)):
            yield part


def _fails(branch: Branch, step: Step) -> bool:
    sides = step.options.sides()
    try:
        for port in step.options.ports():
            if port not in sides:
                branch.frame(Port(step.name, port)).write.format("noop").mode("overwrite").save()
    except Exception as error:
        if tells_of_value(error):
            return True
        raise
    return False


def _record(given: DataFrame, fails: Callable[[DataFrame], bool]) -> str:
    """The first of the rows given that makes a step fail, as JSON; empty: no single one does."""
    from pyspark.sql import functions as F

    numbered = given.withColumn(_NUMBER, F.monotonically_increasing_id()).persist()
    try:
        numbers = [row[0] for row in numbered.select(_NUMBER).sort(_NUMBER).toLocalIterator()]
        first = _bisect(numbers, lambda end: fails(numbered.where(F.col(_NUMBER) <= end).drop(_NUMBER)))
        if first is None:
            return ""
        row = numbered.where(F.col(_NUMBER) == first).select(as_json(given)).first()
        return str(row[0]) if row else ""
    finally:
        numbered.unpersist()


def _bisect(numbers: Sequence[int], fails: Callable[[int], bool]) -> int | None:
    """The smallest number up to which it fails; None: up to the last it does not.

    >>> _bisect([3, 5, 8, 9], lambda end: end >= 8)
    8
    """
    if not numbers or not fails(numbers[-1]):
        return None
    low, high = 0, len(numbers) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(numbers[middle]) else (middle + 1, high)
    return numbers[low]
