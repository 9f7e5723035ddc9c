"""state: what a run remembers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from headrace.run.state import Found


@click.command()
@click.argument("run")
@click.argument("step")
@click.option("--key", metavar="KEY", help="Only this key: a value, values by comma, or column=value,column=value.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many entries.")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
def state(run: str, step: str, key: str | None, limit: int, as_json: bool) -> None:
    """Show what a step of a run remembers, by key or all of it.

    Works while the flow runs and after it has stopped; the answer is that of the last finished batch.

    \b
    Examples:
      headrace state revenue per_category
      headrace state revenue per_category --key category=books --json
    """
    from headrace.project import Project
    from headrace.run import control
    from headrace.run import state as states
    from headrace.run.inline import local_session

    project = Project.find()
    home = control.find(project, run)
    states.query_of(home, step)  # what can be wrong is said before Spark is started
    found = states.read(home, step, local_session(project, brief=True), key=key, limit=limit)
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=2))
        return
    for line in table(found):
        click.echo(line)
    if not found.entries:
        click.echo("nothing is remembered" + (f' for key "{key}"' if key else ""), err=True)
    more = f"; there is more, --limit {limit * 10}" if found.more else ""
    click.echo(f'as of batch {found.batch} of query "{found.query}"{more}', err=True)


def table(found: Found) -> list[str]:
    """Entries as the lines of a table."""
    if not found.entries:
        return []
    keys = list(found.entries[0].key)
    values = found.entries[0].value
    same = isinstance(values, dict) and all(
        isinstance(e.value, dict) and list(e.value) == list(values) for e in found.entries
    )
    columns = list(values) if same else ["value"]
    extra = [
        name for name in ("state", "at", "expires") if any(getattr(e, name) not in ("", None) for e in found.entries)
    ]
    rows = [[*(k.upper() for k in keys), *(x.upper() for x in extra), *(c.upper() for c in columns)]]
    for entry in found.entries:
        held = [entry.value[c] for c in columns] if same else [entry.value]
        rows.append([_cell(v) for v in (*entry.key.values(), *(getattr(entry, x) for x in extra), *held)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value)


COMMANDS: list[click.Command] = [state]
