"""Cases from start to finish: find them, run them, say how they went."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as Xml

import click

from headrace.declare.parameters import Values
from headrace.errors import UsageError
from headrace.testing.find import cases_of, flows_at
from headrace.testing.run_cases import Outcome, run_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_and_report(
    path: Path, *, only: str = "", junit: Path | None = None, as_json: bool = False, given: Values | None = None
) -> int:
    """Runs every case at or below a path, with these values for parameters; the exit code is 1 if one failed."""
    begun = time.monotonic()
    outcomes: list[Outcome] = []
    for file in tested(path):
        for outcome in run_file(file, session, only=only, given=given):
            outcomes.append(outcome)
            if not as_json:
                _say(outcome)
    if not outcomes:
        raise UsageError(f'no case in {path} has "{only}" in its name', hint="-k takes a part of a case's name")
    failed = sum(not o.passed for o in outcomes)
    if junit is not None:
        _junit(outcomes, junit)
    if as_json:
        click.echo(json.dumps([_plain(o) for o in outcomes], indent=2))
    seconds = time.monotonic() - begun
    click.echo(f"{len(outcomes) - failed} passed, {failed} failed in {seconds:.0f} s", err=as_json)
    return 1 if failed else 0


def tested(path: Path) -> list[Path]:
    """The flows at or below a path that have cases."""
    if not path.exists():
        raise UsageError(f"there is no {path}")
    found = [file for file in flows_at([path]) if cases_of(file).exists()]
    if not found:
        raise UsageError(f"there are no cases in {path}", hint="the cases of orders.yaml are in orders.cases.yaml")
    return found


@cache
def session() -> SparkSession:
    """One session for all cases, started when the first flow is known to be sound."""
    from headrace.project import Project
    from headrace.run import classes
    from headrace.run.inline import local_session

    project = Project.find()
    classes.ready(project.settings.java.home, lambda text: click.echo(text, err=True))
    click.echo("starting Spark …", err=True)
    return local_session(project, brief=True)


def _say(outcome: Outcome) -> None:
    mark = "pass" if outcome.passed else "FAIL"
    click.echo(f"{mark}  {outcome.flow}: {outcome.case} ({outcome.seconds:.1f} s)")
    for line in outcome.lines:
        click.echo(f"      {line}")


def _plain(outcome: Outcome) -> dict[str, Any]:
    return {
        "flow": outcome.flow,
        "case": outcome.case,
        "passed": outcome.passed,
        "seconds": round(outcome.seconds, 3),
        "lines": list(outcome.lines),
    }


def _junit(outcomes: list[Outcome], file: Path) -> None:
    failed = sum(not o.passed for o in outcomes)
    suite = Xml.Element("testsuite", name="headrace", tests=str(len(outcomes)), failures=str(failed))
    for outcome in outcomes:
        case = Xml.SubElement(
            suite, "testcase", classname=outcome.flow, name=outcome.case, time=f"{outcome.seconds:.3f}"
        )
        if not outcome.passed:
            Xml.SubElement(case, "failure", message=outcome.lines[0]).text = "\n".join(outcome.lines)
    Xml.ElementTree(suite).write(file, encoding="utf-8", xml_declaration=True)
