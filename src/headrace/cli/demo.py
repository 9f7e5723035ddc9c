"""demo: everything at once."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), default=Path(".headrace/demo"), help="Where it lives.")
@click.option("--seconds", type=click.FloatRange(min=1), help="End by itself after showing the table this long.")
def demo(folder: Path, seconds: float | None) -> None:
    """Start a broker, a live source and a flow, and watch it.

    Ctrl-C stops all of it and leaves nothing running.

    \b
    Examples:
      headrace demo
      headrace demo --seconds 60
    """
    from headrace.demo.run import run_demo

    run_demo(folder.resolve(), seconds, lambda line: click.echo(line, err=True))


COMMANDS = [demo]
