"""audit: the ledger of a run, added up."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from headrace.cli.answers import json_option, print_json, table

if TYPE_CHECKING:
    from headrace.run.audit import Audit


@click.command()
@click.argument("run")
@click.option("--batches", is_flag=True, help="Also every batch.")
@json_option
def audit(run: str, batches: bool, as_json: bool) -> None:
    """Add up what became of every record of a run.

    For each source, and each step that keeps no state: read = emitted + filtered + dead-lettered; for distinct: read =
    emitted + repeated + late; rows given to a sink = written + skipped as already written; offsets = records read +
    lost upstream + offsets without a record. The numbers are counted apart from each other while the run goes on. Of
    other steps with state they are shown and not checked: see headrace verify. Exits with 1 if they do not add up, and
    says where.

    \b
    Examples:
      headrace audit revenue
      headrace audit revenue --json
    """
    from headrace.project import Project
    from headrace.run import audits, control

    project = Project.find()
    home = control.find(project, run)
    made = audits.of_run(project, home)
    if as_json:
        answer = made.as_dict()
        print_json(answer | {"entries": audits.entries(home)} if batches else answer)
    else:
        for line in lines(made):
            click.echo(line)
        if batches:
            for entry in audits.entries(home):
                for part in entry["lines"]:
                    numbers = ", ".join(f"{name} {n:,}" for name, n in part["numbers"].items())
                    click.echo(f"{entry['query']} batch {entry['batch']}: {part['part']}: {numbers}")
    if not made.balanced:
        sys.exit(1)


def lines(made: Audit) -> list[str]:
    """The answer for a reader."""
    from headrace.run.audit import COLUMNS

    shown = [c for c in COLUMNS if any(c in t.numbers for t in made.totals)]
    rows = [
        (f"{t.part} -> {t.towards}" if t.towards else t.part, *(_cell(t.numbers.get(c)) for c in shown))
        for t in made.totals
    ]
    said = [table(("part", *shown), rows)] if rows else []
    said += [f'lost upstream of "{lost.source}": {lost.records:,}, {lost}' for lost in made.lost]
    said += [
        f'source "{source}": {gap:,} offsets hold no record (ends of transactions, or compacted)'
        for source, gap in made.gaps.items()
    ]
    said += [f"does not add up: {finding}" for finding in made.findings]
    batches = f"{made.batches:,} batch{'es' if made.batches != 1 else ''}"
    said.append(f"{batches}: every record is accounted for" if made.balanced else f"{batches}: NOT balanced")
    return said


def _cell(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


COMMANDS: list[click.Command] = [audit]
