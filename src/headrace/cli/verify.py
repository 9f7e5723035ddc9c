"""verify: whether a run's sinks hold what they should."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from headrace.cli.answers import json_option, print_json

if TYPE_CHECKING:
    from headrace.run.rows import Difference
    from headrace.run.verify import Verdict


@click.command()
@click.argument("run")
@click.option("--from", "first", type=click.IntRange(min=0), metavar="BATCH", help="The first batch; else all.")
@click.option("--to", "last", type=click.IntRange(min=0), metavar="BATCH", help="The last batch; else all.")
@json_option
def verify(run: str, first: int | None, last: int | None, as_json: bool) -> None:
    """Recompute what a run's sinks should hold, and compare row by row.

    The flow is answered once more as a batch over exactly what the run has read. Exit code 1 if a row differs by more
    than the guarantee of its sink allows: rows may be repeated where that is at-least-once. With --from or --to only
    rows that those batches should have written are looked for. Works while the run goes on; of values that change,
    only those of the last two batches are known then.

    \b
    Examples:
      headrace verify revenue
      headrace verify revenue --to 120 --json
    """
    from headrace.project import Project
    from headrace.run import control
    from headrace.run.inline import local_session
    from headrace.run.verify import verify as verified

    project = Project.find()
    home = control.find(project, run)
    verdicts = verified(project, home, local_session(project), first=first, last=last)
    if as_json:
        print_json({"run": home.name, "sinks": [v.as_dict() for v in verdicts]})
    else:
        for verdict in verdicts:
            for line in told(verdict):
                click.echo(line)
    if any(v.differs for v in verdicts) or all(v.found is None for v in verdicts):
        sys.exit(1)


def told(verdict: Verdict) -> list[str]:
    """A verdict in words."""
    found = verdict.found
    if found is None:
        return [f"{verdict.sink}: not compared: {verdict.why}"]
    first, last = verdict.batches or (0, 0)
    late = f"; {verdict.late:,} late records are left out" if verdict.late else ""
    head = (
        f"{verdict.sink}: {'differs' if verdict.differs else 'equal'}: {found.rows:,} rows of batches {first} to {last}"
    )
    counts = found.counts()
    said = ", ".join(f"{n:,} {kind}" for kind, n in counts.items()) if verdict.differs else verdict.allowed
    lines = [head + (f", {said}" if said else "") + late]
    shown = found.shown if verdict.differs else ()
    lines += [f"  {line}" for d in shown for line in _shown(d)]
    more = sum(counts.values()) - sum(d.times for d in shown)
    if shown and more > 0:
        lines.append(f"  … and {more:,} more")
    return [*lines, f"  note: {verdict.why}"] if verdict.why else lines


def _shown(one: Difference) -> list[str]:
    times = f"  ({one.times} times)" if one.times > 1 else ""
    if one.kind == "different" and one.expected is not None and one.found is not None:
        same = {k: v for k, v in one.expected.items() if one.found.get(k) == v}
        changed = {k: v for k, v in one.expected.items() if k not in same}
        was = {k: one.found.get(k) for k in changed}
        return [f"different   {_row(same)}: expected {_row(changed)}, found {_row(was)}"]
    return [f"{one.kind:<11} {_row(one.expected or one.found or {})}{times}"]


def _row(row: dict[str, object]) -> str:
    return ", ".join(f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in row.items())


COMMANDS: list[click.Command] = [verify]
