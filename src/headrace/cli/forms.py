"""convert, fmt and diff: a flow in another form, in one layout, and what two of them differ in."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command()
@click.argument("flow", type=click.Path(path_type=Path))
@click.option("--to", "form", required=True, type=click.Choice(["yaml", "python", "sql", "json"]), help="The form.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; standard output unless told.")
def convert(flow: Path, form: str, output: Path | None) -> None:
    """Write a flow in another form, with the same meaning.

    What the form cannot say, such as a Python lambda, is a problem. JSON carries the author's own text along, so that
    comments come back.

    \b
    Examples:
      headrace convert flows/orders.yaml --to sql
      headrace convert flows/orders.sql --to python -o flows/orders.py
    """
    from headrace.declare.convert import convert as convert_flow

    text = convert_flow(flow, form)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
        click.echo(f"wrote {output}", err=True)


@click.command()
@click.argument("flows", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Change nothing; exit code 1 if a file would be changed.")
def fmt(flows: tuple[Path, ...], check: bool) -> None:
    """Bring flow files into the one layout, comments kept.

    FLOWS are flow files, SQL and JSON, or folders of them. Python is left to a Python formatter.

    \b
    Examples:
      headrace fmt flows
      headrace fmt --check flows/orders.yaml flows/orders.sql
    """
    from headrace.declare.convert import tidy
    from headrace.errors import FlowError, UsageError
    from headrace.testing.find import flows_at

    changed, wrong = 0, False
    for file in flows_at(flows):
        if file.suffix == ".py":
            click.echo(f"{file}: Python is left to a Python formatter", err=True)
            continue
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file} could not be read: {error}") from None
        try:
            made = tidy(file, text)
        except FlowError as error:
            click.echo(str(error), err=True)
            wrong = True
            continue
        if made != text:
            changed += 1
            click.echo(str(file))
            if not check:
                file.write_text(made, encoding="utf-8")
    said = "would be changed" if check else "changed"
    click.echo(f"{changed} file{'' if changed == 1 else 's'} {said}", err=True)
    sys.exit(1 if wrong or (check and changed) else 0)


@click.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="The changes as JSON.")
def diff(old: Path, new: Path, as_json: bool) -> None:
    """Show what changed between two flows by meaning, and what it does to state.

    The two may be in different forms. Exit code 0 if they mean the same, 1 if not.

    \b
    Examples:
      headrace diff flows/orders.yaml flows/orders.sql
      headrace diff --json before/orders.yaml flows/orders.yaml
    """
    from headrace.check import load
    from headrace.cli.answers import print_json
    from headrace.compile.planner import plan
    from headrace.declare.diff import diff as diff_flows
    from headrace.run.change import compare, describe

    flows = load(old), load(new)
    changes = diff_flows(*flows)
    verdict = compare(*(describe(plan(flow)) for flow in flows))
    if as_json:
        state = {"kept": list(verdict.kept), "in_the_way": list(verdict.in_the_way)}
        print_json({"changes": [change.as_dict() for change in changes], "state": state if changes else {}})
    elif changes:
        for change in changes:
            click.echo(str(change))
        click.echo("state:")
        for line in (*verdict.in_the_way, *verdict.kept):
            click.echo(f"  {line}")
    sys.exit(1 if changes else 0)


COMMANDS = [convert, fmt, diff]
