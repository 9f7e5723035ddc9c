"""What is left to do for a batch of real-time mode once it is committed: the counts, its dead letters, late records.

Nothing can be done before the commit: rows have left one by one, and Spark tells what it counted when the batch is
over. What the batch read is on disk by then, so bad and late records are found as in micro-batches, by reading just
that again. If the process dies in between, the next one does it (`again`), and counts anew what can be counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.compile.counting import Counts, Observed, Once
from headrace.compile.frames import Branch
from headrace.compile.letters import Counting
from headrace.compile.lower import Lowered, Outcome
from headrace.connectors.base import Written
from headrace.model import Port, Step
from headrace.operators.late import Aside


def settle(lowered: Lowered, batch_id: int, report: Mapping[str, Any] | None) -> Outcome:
    """What became of a batch that is committed; `report` is Spark's of it, None: nobody heard it."""
    counts = Observed.read(report) if report is not None else _recounted(lowered, batch_id)
    again = report is None
    written: dict[str, Written] = {}
    branches: dict[str, Counts] = {}
    for name in lowered.query.sinks:
        if report is not None:
            branches[name] = Counts()
            written[name] = Written(written=int((report.get("sink") or {}).get("numOutputRows") or 0))
    outcome = Outcome(trunk=counts, behind=Counts(), branches=branches, sinks=written)
    written |= lowered.keep_letters({}, batch_id, outcome, again=again)
    if lowered.query.asides and (again or counts.refused or any(t.get("late") for t in counts.taken.values())):
        written |= _late(lowered, batch_id)
    return outcome


def _recounted(lowered: Lowered, batch_id: int) -> Counts:
    """The records of a batch counted by reading them again, up to where state begins."""
    where, _ = lowered.once_more(batch_id)
    once = Once(where.session)
    branch = Branch(lowered.plan, where, {}, rejects=Counting(once), wires=once)
    where.session.sparkContext.setJobDescription(f"headrace count of {lowered.query.name} batch {batch_id}")
    for port in lowered.fronts():
        branch.frame(port).write.format("noop").mode("overwrite").save()
    return once.read()


def _late(lowered: Lowered, batch_id: int) -> dict[str, Written]:
    """Writes the late records of a batch to the sinks that take them."""
    plan, flow = lowered.plan, lowered.plan.flow
    where, _ = lowered.once_more(batch_id)
    assert lowered.where.checkpoint is not None
    sinks = [sink for sink in flow.sinks if sink.name in lowered.query.asides]
    given = {}
    for step in (flow[name] for name in lowered.query.stateful):
        mark = Aside(checkpoint=lowered.where.checkpoint, folder=where.home).watermark(batch_id)
        if not isinstance(step, Step) or not step.options.sides() or mark is None:
            continue
        frame = Branch(plan, where, {}, rejects=Counting(Once(where.session))).frame(step.inputs[0])
        time = plan.schemas[step.inputs[0]].event_time
        for port in step.options.sides():
            given[Port(step.name, port)] = step.options.late_rows(frame, time, mark)
    written = {}
    for sink in sinks if given else ():
        branch = Branch(plan, where, given, rejects=Counting(Once(where.session)))
        written[sink.name] = lowered.write_sink(sink, branch.frame(sink.inputs[0]), batch_id)
    return written
