"""What keeps a flow from running in real-time mode, where records flow through one by one; and what to write instead.

Spark runs there what needs no batch: columns, filters, splits, unions, tables beside a stream, duplicates, counts and
windows that give changes; from Kafka, to sinks that take rows one by one. Everything else is said here, part by part.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from headrace.catalogue import SINKS, SOURCES
from headrace.check.wires import Wires, renewed
from headrace.errors import Problem
from headrace.model import Delivery, Flow, Part, Sink, Source, Step
from headrace.operators.base import Operator

SHORTEST = timedelta(seconds=1)
"""The latency that micro-batches can keep: planning, running and committing one takes most of it."""


def in_the_way(flow: Flow, found: Wires) -> tuple[Problem, ...]:
    """Every reason why a flow cannot run in real-time mode, at its place; none: it can."""
    return (*_of_flow(flow), *(problem for part in flow for problem in _of_part(flow, found, part)))


def _of_flow(flow: Flow) -> Iterator[Problem]:
    stateful = [step.name for step in flow.steps if _remembers(step)]
    if flow.state == "memory" and stateful:
        yield Problem(
            code="unsupported",
            message=f'flow "{flow.name}" cannot run in real-time mode: Spark holds state there in RocksDB only',
            location=flow.places.at("state"),
            step=stateful[0],
            hint="write `state: rocksdb`, or leave it out; or run it in micro-batches",
        )


def _of_part(flow: Flow, found: Wires, part: Part) -> Iterator[Problem]:
    if isinstance(part, Source):
        yield from _of_source(part)
    elif isinstance(part, Step):
        yield from _of_step(flow, found, part)
    elif not aside(flow, part):
        yield from _of_sink(part)


def _of_source(source: Source) -> Iterator[Problem]:
    if source.table is not None:
        return
    if not SOURCES[source.connector].in_real_time:
        yield _problem(source, source.connector, "Spark reads only Kafka there", "put the records into a topic")
    elif source.time is not None and source.time.idle is not None:
        why = "the watermark of a silent source is moved between two batches"
        yield _problem(source, source.connector, why, "leave `idle` out", "time", "idle")


def _of_step(flow: Flow, found: Wires, step: Step) -> Iterator[Problem]:
    operator: Operator = step.options
    given = found.given(step)
    if given is None:
        return
    why = operator.in_real_time(given)
    if why is not None:
        yield _problem(step, step.operator, why, operator.real_time_instead(), step.operator)
    elif renewed(flow, step):
        why = "a table that is read again is met by each batch anew"
        yield _problem(step, step.operator, why, "leave `refresh` out: the table is read when the run starts")
    elif step.operator == "union" and _twice(flow, step):
        why = "Spark reads no source twice in one query there"
        yield _problem(step, step.operator, why, "")
    remembers = [n for n in (*flow.upstream(step.name), step.name) if _remembers(flow[n])]
    if remembers and step.expect is not None and any(step.expect.fate(r) == "dead-letter" for r in step.expect.rules):
        why = f'a record refused behind "{remembers[0]}", which remembers, cannot be found again'
        yield _problem(step, step.operator, why, "drop such records, or stop at them", "expect")


def _of_sink(sink: Sink) -> Iterator[Problem]:
    if not SINKS[sink.connector].in_real_time:
        why = "Spark hands records to it only in batches"
        yield _problem(sink, sink.connector, why, "write to a Kafka topic, and from there with a second flow")
    elif sink.delivery is not None and Delivery.parse(sink.delivery) is not Delivery.AT_LEAST_ONCE:
        why = f"it asks for {sink.delivery}, and what came since the last checkpoint is written again after a crash"
        yield _problem(sink, sink.connector, why, "ask for at-least-once", "delivery")


def aside(flow: Flow, sink: Sink) -> bool:
    """Whether a sink takes late records or dead letters, which are found and written when a batch is done."""
    return bool(flow.letters_of(sink.inputs[0])) or late_from(flow, sink) is not None


def late_from(flow: Flow, sink: Sink) -> str | None:
    """The step whose late records a sink takes; None: it takes others."""
    port, seen = sink.inputs[0], set[str]()
    while port.step in flow and port.step not in seen:  # in a circle, which is a problem of its own, there is none
        seen.add(port.step)
        part = flow[port.step]
        if isinstance(part, Step) and port.port in part.options.sides():
            return part.name
        if len(part.inputs) != 1:
            return None
        port = part.inputs[0]
    return None


def _remembers(part: Part) -> bool:
    return isinstance(part, Step) and part.options.state(()) is not None


def _twice(flow: Flow, step: Step) -> bool:
    """Whether a source comes into a step by two ways."""
    above = [{p.step, *flow.upstream(p.step)} for p in step.inputs]
    sources = {s.name for s in flow.sources if s.table is None}
    return any(a & b & sources for i, a in enumerate(above) for b in above[:i])


def _problem(part: Part, what: str, why: str, instead: str, *option: str) -> Problem:
    kind = type(part).__name__.lower()
    return Problem(
        code="unsupported",
        message=f'{kind} "{part.name}" ({what}) cannot run in real-time mode: {why}',
        location=part.places.at(*option) if option else part.places.location,
        step=part.name,
        hint=f"{instead}; or run it in micro-batches" if instead else "run it in micro-batches",
    )
