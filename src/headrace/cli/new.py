"""new: a project to start from."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path

import click

from headrace.errors import UsageError


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def new(folder: Path) -> None:
    """Make a project: a flow, its cases, a README.

    FOLDER is made; it must not have anything in it yet.

    \b
    Examples:
      headrace new shop
      headrace new ~/projects/sensors
    """
    try:
        _make(folder)
    except OSError as error:
        raise UsageError(
            f"{folder} could not be made: {error.strerror}", hint="name a folder that can be made"
        ) from None
    where = shlex.quote(str(folder))
    click.echo(f"cd {where} && headrace test && headrace run flows/revenue.yaml --until-done")


def _make(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty", hint="name a folder that does not exist yet")
    template = files("headrace") / "templates" / "new"
    for name in ("README.md", "headrace.toml", "gitignore", "flows/revenue.yaml", "flows/revenue.cases.yaml"):
        target = folder / (".gitignore" if name == "gitignore" else name)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = template.joinpath(*name.split("/")).read_text(encoding="utf-8")
        target.write_text(text.replace("{name}", folder.resolve().name), encoding="utf-8")
        click.echo(f"  {target}", err=True)


COMMANDS = [new]
