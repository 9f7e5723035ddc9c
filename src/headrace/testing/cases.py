"""Cases: what goes into a flow and what must come out, written beside it and run on real Spark.

    cases:
      - name: counts the words
        given:
          lines: ["a b", "b"]              # raw records, decoded as the flow says; or rows as mappings; or {file: …}
        expect:
          counts: [{word: a, n: 1}, {word: b, n: 2}]
        parameters: {limit: 3}             # optional: values for the flow's parameters
        clock: 2026-01-01T00:00:00Z        # optional: when the first record arrived, for sources that tell it

Inputs may be cut into batches, `lines: {batches: [[…], […]]}`. Only the columns an expected row names are
compared; order does not count, how often a row comes does.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from headrace.declare.flowfile import plain_yaml
from headrace.errors import FlowError, Problem
from headrace.model import Flow, Location
from headrace.options import Options


class Case(Options):
    """One case as it is written."""

    name: str
    given: dict[str, Any]
    expect: dict[str, list[dict[str, Any]]]
    clock: datetime = Field(datetime(2026, 1, 1, tzinfo=UTC))
    parameters: dict[str, Any] = Field(default_factory=dict)
    mode: str | None = Field(None, pattern="^(batch|micro-batch)$")


class _File(Options):
    cases: list[Case] = Field(min_length=1)


@dataclass(frozen=True, kw_only=True)
class Input:
    """Records for one source, in batches: mappings (rows) or texts (raw records)."""

    batches: tuple[tuple[Any, ...], ...]

    @property
    def records(self) -> tuple[Any, ...]:
        return tuple(record for batch in self.batches for record in batch)

    @property
    def raw(self) -> bool:
        return any(isinstance(record, str) for record in self.records)


def read_cases(file: Path, flow: Flow) -> list[Case]:
    """The cases in a file; raises FlowError with everything that is wrong with them."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FlowError(_wrong(file, f"the cases could not be read: {_reason(error)}")) from None
    data, problems = plain_yaml(text, str(file))
    if problems:
        raise FlowError(*problems)
    try:
        cases = _File.model_validate(data).cases
    except ValidationError as error:
        raise FlowError(*(_problem(file, e) for e in error.errors(include_url=False))) from None
    sources, sinks = {s.name for s in flow.sources}, {s.name for s in flow.sinks}
    for case in cases:
        for what, named, known in (("source", case.given, sources), ("sink", case.expect, sinks)):
            for name in set(named) - known:
                problems.append(_wrong(file, f'case "{case.name}": flow "{flow.name}" has no {what} "{name}"'))
        for name in sources - set(case.given):
            problems.append(_wrong(file, f'case "{case.name}" gives nothing to source "{name}"', "write `NAME: []`"))
    if problems:
        raise FlowError(*problems)
    return cases


def _problem(file: Path, wrong: Mapping[str, Any]) -> Problem:
    path = ".".join(str(part) for part in wrong["loc"])
    return _wrong(
        file, f"{path}: {str(wrong['msg']).lower()}", "a case has name, given, expect, clock, parameters and mode"
    )


def _wrong(file: Path, message: str, hint: str = "") -> Problem:
    return Problem(code="bad-case", message=message, location=Location(str(file)), hint=hint)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    return (error.strerror or str(error)) if isinstance(error, OSError) else f"it is not a list in JSON: {error}"


def read_input(given: Any, file: Path) -> Input:
    """The records a case gives to a source: inline, in batches, or from a file beside it."""
    if isinstance(given, Mapping) and set(given) == {"file"}:
        return Input(batches=(tuple(_from_file(file.parent / str(given["file"]), file)),))
    if isinstance(given, Mapping) and set(given) == {"batches"}:
        return Input(batches=tuple(tuple(batch) for batch in given["batches"]))
    if isinstance(given, list):
        return Input(batches=(tuple(given),))
    raise FlowError(_wrong(file, f"{given!r} is not an input", "write a list, {file: …} or {batches: […]}"))


def _from_file(path: Path, cases: Path) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        if path.suffix == ".json":
            return list(json.loads(text))
    except (OSError, ValueError, TypeError) as error:
        raise FlowError(_wrong(cases, f"input {path} could not be read: {_reason(error)}")) from None
    if path.suffix == ".csv":
        return list(csv.DictReader(text.splitlines()))
    return text.splitlines()
