"""Runs cases: the real flow, on one local Spark session, between stand-ins."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.catalogue import SINKS, SOURCES
from headrace.check import load
from headrace.check.wires import wires
from headrace.compile.letters import FOLDER
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.connectors import memory
from headrace.declare.parameters import Values
from headrace.errors import HeadraceError
from headrace.model import Flow, Mode, Port, Step
from headrace.operators.base import Operator
from headrace.testing.cases import Case, Input, read_cases, read_input
from headrace.testing.compare import difference
from headrace.testing.find import cases_of
from headrace.testing.standins import Given, kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_FEW = 5
"""Records on which a function raised that are told of a case."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one case went; `lines` tell what is wrong, none if it passed."""

    flow: str
    case: str
    seconds: float
    lines: tuple[str, ...] = ()
    problem: bool = False
    """It could not even be run."""

    @property
    def passed(self) -> bool:
        return not self.lines


def run_file(
    file: Path, session: Callable[[], SparkSession], only: str = "", given: Values | None = None
) -> Iterator[Outcome]:
    """The outcome of every case beside a flow; what is wrong with flow or cases is an outcome too."""
    begun = time.monotonic()
    try:
        flow = load(file, given=given)
        cases = read_cases(cases_of(file), flow)
    except HeadraceError as error:
        lines = tuple(str(error).splitlines())
        yield Outcome(flow=str(file), case="-", seconds=time.monotonic() - begun, lines=lines, problem=True)
        return
    for case in cases:
        if only in case.name:
            # By its file: a flow may be written twice, as a flow file and in Python.
            yield replace(_with_parameters(flow, file, case, session, given or Values()), flow=str(file))


def _with_parameters(flow: Flow, file: Path, case: Case, session: Callable[[], SparkSession], given: Values) -> Outcome:
    """Runs a case with the values it gives for parameters over all others."""
    try:
        if case.parameters:
            flow = load(file, given=replace(given, asked={**given.asked, **case.parameters}))
    except HeadraceError as error:
        return Outcome(flow=flow.name, case=case.name, seconds=0.0, lines=tuple(str(error).splitlines()), problem=True)
    return run_case(flow, case, cases_of(file), session())


def run_case(flow: Flow, case: Case, file: Path, session: SparkSession) -> Outcome:
    """Runs a flow on a case's input and compares what its sinks would hold."""
    from headrace.run.failure import explain

    begun = time.monotonic()
    lines: list[str] = []
    problem = False
    try:
        given = {name: read_input(value, file) for name, value in case.given.items()}
        raised: list[Mapping[str, Any]] = []
        found = outputs(flow, given, case, session, raised)
        schemas = wires(flow).schemas
        for sink in flow.sinks:
            if sink.name in case.expect:
                wrong = difference(case.expect[sink.name], found[sink.name], schemas[sink.inputs[0]])
                lines += [f"sink {sink.name}:", *(f"  {line}" for line in wrong)] if wrong else []
        routed = {part for sink in flow.sinks for part in flow.letters_of(sink.inputs[0])}
        told = [letter for letter in raised if letter["step"] not in routed]
        lines, problem = [*map(_told, told[:_FEW]), *lines], bool(told)
    except HeadraceError as error:
        lines, problem = str(error).splitlines(), True
    except Exception as error:  # noqa: BLE001 - whatever Spark raises is the case's outcome
        lines, problem = str(explain(error).error()).splitlines(), True
    return Outcome(
        flow=flow.name, case=case.name, seconds=time.monotonic() - begun, lines=tuple(lines), problem=problem
    )


def _told(letter: Mapping[str, Any]) -> str:
    """A record on which a function raised, for whoever did not expect it."""
    record = str(letter.get("record", ""))[:2000]
    where = f'{letter["place"]}: step "{letter["step"]}"'
    return f'{where}: function "{letter["function"]}" raised {letter["reason"]}\n  record: {record}'


def outputs(
    flow: Flow,
    given: dict[str, Input],
    case: Case,
    session: SparkSession,
    raised: list[Mapping[str, Any]] | None = None,
) -> dict[str, tuple[dict[str, Any], ...]]:
    """What each sink holds after the flow has taken all its input; `raised` gets what functions raised on."""
    from headrace.run.inline import run_to_end

    mode = Mode(case.mode) if case.mode else Mode.MICRO_BATCH
    made = plan(flow, mode=mode)
    for key, value in made.spark.items():
        session.conf.set(key, value)
    sinks = {s.name: kept(SINKS[s.connector](s.options), row_key(flow, s.inputs[0])) for s in flow.sinks}
    # Without a clock a case says nothing about arrivals, so no time in it is too far ahead of one.
    clocked = "clock" in case.model_fields_set
    sources = {
        s.name: Given(
            SOURCES[s.connector](s.options),
            given[s.name],
            case.clock,
            arrives=clocked or (s.time is not None and s.time.kind == "ingestion"),
        )
        for s in flow.sources
    }
    with tempfile.TemporaryDirectory(prefix="headrace-case-", ignore_cleanup_errors=True) as home:
        where = Where(
            session=session,
            streaming=mode is not Mode.BATCH,
            home=Path(home),
            base=Path.cwd(),
            sources=sources,
            sinks=sinks,
        )
        for sink in flow.sinks:
            memory.tables.pop((flow.name, sink.name), None)
        for query in made.queries:
            run_to_end(made, query, where, Path(home) / "checkpoints" / query.name)
        for file in sorted(Path(home).glob(f"{FOLDER}/*/*.jsonl")) if raised is not None else ():
            letters = map(json.loads, file.read_text(encoding="utf-8").splitlines())
            raised += [letter for letter in letters if letter.get("function")]  # type: ignore[operator]
        return {
            s.name: memory.tables[flow.name, s.name].rows if (flow.name, s.name) in memory.tables else ()
            for s in flow.sinks
        }


def row_key(flow: Flow, port: Port) -> tuple[str, ...]:
    """The columns that identify a changing row: those of the nearest aggregate above; none for what was put aside."""
    above = (port.step, *reversed(flow.upstream(port.step)))
    ports = {i.step: i.port for name in above for i in flow[name].inputs} | {port.step: port.port}
    for name in above:
        part = flow[name]
        operator: Operator | None = part.options if isinstance(part, Step) else None
        if operator is not None and ports.get(name) in operator.sides():
            return ()
        if operator is not None and operator.identifies():
            return operator.identifies()
    return ()
