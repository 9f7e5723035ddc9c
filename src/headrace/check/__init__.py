"""Everything that can be known to be wrong before anything runs. No Spark, no network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.check.checked import Checked
from headrace.check.rules import RULES
from headrace.check.wires import Wires, wires
from headrace.declare.load import declare
from headrace.declare.parameters import Values
from headrace.declare.resolve import Declared
from headrace.errors import FlowError, Problem
from headrace.model import Flow


@dataclass(frozen=True, kw_only=True)
class Report:
    """A flow, what runs on its wires, and all that is wrong or worth knowing."""

    flow: Flow
    wires: Wires
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(p for p in self.problems if not p.warning)


def check(declared: Declared | Flow) -> Report:
    """Every problem of a flow, in the order of the author's lines."""
    if isinstance(declared, Flow):
        declared = Declared(flow=declared)
    found = wires(declared.flow)
    checked = Checked(flow=declared.flow, wires=found, broken=declared.broken, claims=declared.claims)
    problems = list(declared.problems)
    understood = any(declared.flow) or declared.broken
    if understood or not any(not p.warning for p in problems):  # of what could not be read nothing more is to be said
        problems += [problem for rule in RULES for problem in rule(checked)]
    unique = list(dict.fromkeys(problems))
    return Report(flow=declared.flow, wires=found, problems=tuple(sorted(unique, key=_order)))


def _order(problem: Problem) -> tuple[bool, str, int, int]:
    at = problem.location
    return (problem.warning, at.file, at.line, at.column)


def load(path: Path, *, shown: str | None = None, given: Values | None = None) -> Flow:
    """The flow in a file; raises FlowError with every problem."""
    report = check(declare(path, shown=shown, given=given))
    if report.errors:
        raise FlowError(*report.errors)
    return report.flow


__all__ = ["Report", "check", "load"]
