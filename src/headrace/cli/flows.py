"""check and explain: what can be said about flows without running them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from headrace.cli.parameters import given, param_option


@click.command()
@click.argument("flows", nargs=-1, required=True, type=click.Path(path_type=Path))
@param_option
@click.option("--json", "as_json", is_flag=True, help="Problems as JSON on stdout.")
def check(flows: tuple[Path, ...], parameters: dict[str, str], as_json: bool) -> None:
    """Find all problems of flows, without running anything.

    FLOWS are flow files, Python files, or folders of them. Exit code 1 if there is any error.

    \b
    Examples:
      headrace check flows/orders.yaml
      headrace check flows --json
    """
    from headrace.check import check as check_flow
    from headrace.declare.load import declare
    from headrace.testing.find import flows_at

    files = flows_at(flows)
    values = given(parameters)
    reports = [check_flow(declare(file, given=values)) for file in files]
    problems = [p for r in reports for p in r.problems]
    errors = [p for p in problems if not p.warning]
    if as_json:
        click.echo(json.dumps([p.as_dict() for p in problems], indent=2))
    else:
        for problem in problems:
            click.echo(str(problem))
        flows_word = "1 flow" if len(files) == 1 else f"{len(files)} flows"
        warnings = len(problems) - len(errors)
        noted = f", {warnings} to know about" if warnings else ""
        click.echo(f"{flows_word}: {_count(len(errors))}{noted}", err=True)
    sys.exit(1 if errors else 0)


def _count(errors: int) -> str:
    return "no problems" if not errors else "1 problem" if errors == 1 else f"{errors} problems"


@click.command()
@click.argument("flow", type=click.Path(path_type=Path))
@click.option(
    "--mode",
    type=click.Choice(["auto", "batch", "micro-batch", "real-time"]),
    default="auto",
    help="Plan for this mode; auto: the one that the flow's goal asks for.",
)
@click.option("--master", metavar="URL", help="Spark's master, as for `headrace run`.")
@param_option
@click.option("--svg", "picture", type=click.Path(path_type=Path), help="Write the flow as a picture to this file.")
@click.option("--json", "as_json", is_flag=True, help="The plan as JSON.")
def explain(
    flow: Path, mode: str, master: str | None, parameters: dict[str, str], picture: Path | None, as_json: bool
) -> None:
    """Show the plan: columns, queries, guarantees, state, settings.

    \b
    Examples:
      headrace explain flows/orders.yaml
      headrace explain flows/orders.yaml --master spark://host:7077
    """
    from headrace.check import load
    from headrace.compile.explain import explain as explain_plan
    from headrace.compile.explain import text
    from headrace.compile.planner import plan
    from headrace.model import Mode
    from headrace.project import Project
    from headrace.run import session

    settings = Project.find().settings.spark
    where = session.choose_master(master, settings.master)
    made = plan(
        load(flow, given=given(parameters)),
        mode=None if mode == "auto" else Mode(mode),
        cores=session.cores(where),
        local=session.is_local(where),
        project=settings.settings,
    )
    if picture is not None:
        from headrace.declare.picture import svg

        picture.write_text(svg(made.flow), encoding="utf-8")
        click.echo(f"{picture} is written", err=True)
        return
    click.echo(json.dumps(explain_plan(made), indent=2) if as_json else text(made))


COMMANDS = [check, explain]
