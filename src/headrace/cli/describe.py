"""describe: the reference on the command line, from the option models."""

from __future__ import annotations

import json
from typing import Any

import click

from headrace.errors import UsageError, nearest


@click.command()
@click.argument("what", nargs=-1, metavar="[KIND] [NAME]")
@click.option("--json", "as_json", is_flag=True, help="JSON; for one thing, the JSON Schema of its options.")
def describe(what: tuple[str, ...], as_json: bool) -> None:
    """Show what connectors, operators and formats there are.

    KIND is connector, source, sink, operator or format; a NAME alone is looked for in all of them.

    \b
    Examples:
      headrace describe
      headrace describe connector kafka
    """
    from headrace import reference

    if len(what) > 2:
        raise UsageError("describe takes a kind and a name", hint="headrace describe operator aggregate")
    kind = what[0] if what and (len(what) == 2 or what[0] in _KINDS) else None
    if kind is not None and kind not in _KINDS:
        raise UsageError(f'there is no kind "{kind}"', hint=nearest(kind, _KINDS))
    kinds = _KINDS.get(kind or "", tuple(reference.KINDS))
    if not what or what == (kind,):
        shown = {k: v for k, v in reference.summary().items() if k in kinds}
        click.echo(json.dumps(shown, indent=2) if as_json else _list(shown))
        return
    found = reference.search(kinds, what[-1], kind or "part")
    if as_json:
        schemas = {k: reference.schema(thing) for k, thing in found.items()}
        click.echo(json.dumps(schemas if len(found) > 1 else next(iter(schemas.values())), indent=2))
    else:
        click.echo("\n\n".join(reference.text(k, thing) for k, thing in found.items()))


_KINDS = {"connector": ("source", "sink")} | {kind: (kind,) for kind in ("source", "sink", "operator", "format")}


def _list(kinds: dict[str, dict[str, Any]]) -> str:
    width = max(len(name) for names in kinds.values() for name in names)
    lines: list[str] = []
    for kind, names in kinds.items():
        lines += [f"{kind}s", *(f"  {name:{width}}  {first}" for name, first in names.items()), ""]
    return "\n".join(lines).rstrip()


COMMANDS = [describe]
