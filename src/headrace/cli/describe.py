"""describe: the reference on the command line, from the option models."""

from __future__ import annotations

import json
from typing import Any

import click


@click.command()
@click.argument("kind", required=False, type=click.Choice(["source", "sink", "operator", "format"]))
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="JSON; for one thing, the JSON Schema of its options.")
def describe(kind: str | None, name: str | None, as_json: bool) -> None:
    """Show what connectors, operators and formats there are.

    \b
    Examples:
      headrace describe
      headrace describe operator aggregate
    """
    from headrace import reference

    if kind is None or name is None:
        shown = {k: v for k, v in reference.summary().items() if kind in (None, k)}
        click.echo(json.dumps(shown, indent=2) if as_json else _list(shown))
        return
    thing = reference.find(kind, name)
    click.echo(json.dumps(reference.schema(thing), indent=2) if as_json else reference.text(kind, thing))


def _list(kinds: dict[str, dict[str, Any]]) -> str:
    width = max(len(name) for names in kinds.values() for name in names)
    lines: list[str] = []
    for kind, names in kinds.items():
        lines += [f"{kind}s", *(f"  {name:{width}}  {first}" for name, first in names.items()), ""]
    return "\n".join(lines).rstrip()


COMMANDS = [describe]
