"""bench: the benchmarks, which are part of the source checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

CHECKOUT = Path(__file__).resolve().parents[3]


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(name: str | None, arguments: tuple[str, ...]) -> None:
    """Run a benchmark of the source checkout, or list them.

    Each prints a table and a plot and keeps its result in bench/results; ARGUMENTS go to the benchmark. What they are
    is told by `headrace bench w1 -- --help`; docs/performance.md says what is measured.

    \b
    Examples:
      headrace bench
      headrace bench w1 --events 400000 --rounds 1 --only headrace flink
    """
    from headrace.errors import UsageError

    if not (CHECKOUT / "bench" / "__main__.py").is_file():
        raise UsageError(
            "the benchmarks are part of the source checkout, and this is an installed package",
            hint="make bench in a checkout",
        )
    command = [sys.executable, "-m", "bench", *([name] if name else []), *arguments]
    done = subprocess.run(command, cwd=CHECKOUT, check=False)
    if done.returncode:
        sys.exit(done.returncode)


COMMANDS = [bench]
