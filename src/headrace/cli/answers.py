"""What commands about the log share: options, tables, JSON, progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from headrace.kafka_settings import ClientSettings

bootstrap_option = click.option("--bootstrap", metavar="HOST:PORT", help="The Kafka to use; the project's unless told.")
json_option = click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")


def client_of(bootstrap: str | None) -> ClientSettings:
    """How to reach the Kafka that a command means."""
    from headrace.project import Project, kafka_client

    return kafka_client(Project.find(), bootstrap)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows in aligned columns, numbers to the right.

    >>> print(table(("name", "n"), [("a", 1), ("bc", 20)]))
    name   n
    a      1
    bc    20
    """
    body = list(rows)
    cells = [list(head), *([str(cell) for cell in row] for row in body)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    right = [bool(body) and all(isinstance(row[i], int) for row in body) for i in range(len(head))]
    lines = (
        "  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in cells
    )
    return "\n".join(lines)


def joined(items: Iterable[object]) -> str:
    """Items with commas between them."""
    return ",".join(str(item) for item in items)


def print_json(answer: object) -> None:
    """One answer as JSON on standard output."""
    click.echo(json.dumps(answer, indent=2, ensure_ascii=False))


def progress_line() -> Callable[[str], None]:
    """Shows progress on stderr: in place on a terminal, else one line for each tenth of it."""
    if sys.stderr.isatty():
        return lambda text: (
            click.echo(f"\r\033[K{text}", err=True, nl=False) if "/" in text else click.echo(text, err=True)
        )
    seen = 0

    def tell(text: str) -> None:
        nonlocal seen
        seen += 1
        if "/" not in text or seen % 10 == 1 or "verified" in text:
            click.echo(text, err=True)

    return tell
