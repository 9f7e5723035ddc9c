"""test: the cases written beside flows."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from headrace.cli.parameters import given, param_option


@click.command()
@click.argument("path", type=click.Path(path_type=Path), default=Path(), required=False)
@click.option("-k", "only", default="", help="Only cases whose name contains this text.")
@param_option
@click.option("--junit", type=click.Path(path_type=Path), help="Write the outcome as JUnit XML.")
@click.option("--json", "as_json", is_flag=True, help="The outcome as JSON.")
@click.option(
    "--watch", "watched", is_flag=True, help="Run them again when a file changes; Spark stays up. Ctrl-C ends."
)
def test(path: Path, only: str, parameters: dict[str, str], junit: Path | None, as_json: bool, watched: bool) -> None:
    """Run the cases written beside flows.

    PATH is a flow or a folder (this one if none is named). The cases of orders.yaml are in orders.cases.yaml.
    Exit code 1 if a case fails.

    \b
    Examples:
      headrace test --watch
      headrace test flows/orders.yaml --junit report.xml
    """
    from headrace.testing.report import run_and_report
    from headrace.testing.watch import watch

    if watched:
        if junit or as_json:
            raise click.UsageError("--watch is for people: --junit and --json do not go with it")
        watch(path, only=only, given=given(parameters))
        return
    sys.exit(run_and_report(path, only=only, junit=junit, as_json=as_json, given=given(parameters)))


COMMANDS = [test]
