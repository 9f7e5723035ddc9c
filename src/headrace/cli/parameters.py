"""`--param NAME=VALUE`: what commands that read flows share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from headrace.declare.parameters import Values


def _parsed(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{text!r} is not NAME=VALUE")
        found[name.strip()] = value
    return found


param_option = click.option(
    "--param",
    "parameters",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_parsed,
    help="A value for a parameter of the flow; may be given several times.",
)


def given(parameters: dict[str, Any]) -> Values:
    """The values for parameters that a command means: the flags over the environment over the project's."""
    import os

    from headrace.declare.parameters import Values

    return Values(asked=parameters, environment=os.environ, project=_of_project)


def _of_project() -> dict[str, Any]:
    from headrace.project import Project

    return Project.find().settings.parameters
