"""Commands that carry records to and from the log: produce, consume."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, get_args

import click

from headrace.cli.answers import bootstrap_option, client_of, json_option

if TYPE_CHECKING:
    from headrace.log.records import Form

_FORMS = ("text", "json", "csv", "raw")
_SUFFIXES: dict[str, Form] = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv"}


@click.command()
@click.argument("topic")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMS),
    help="Lines of text or JSON, CSV with a header, or one value as it is; by the file's name unless told.",
)
@click.option("--key", help="The same key for every record.")
@click.option("--key-column", metavar="NAME", help="The JSON field or CSV column that is the key.")
@click.option("--key-separator", metavar="TEXT", help="In text, what stands between key and value.")
@click.option(
    "--null", metavar="TEXT", help="Text that stands for no value, which deletes a key from a compacted topic."
)
@click.option("--round-robin", is_flag=True, help="Deal records out evenly, whatever their key.")
@click.option("--rate", type=float, metavar="N", help="At most N records a second.")
@click.option("--count", type=click.IntRange(min=0), help="Stop after so many records.")
@bootstrap_option
@json_option
def produce(
    topic: str,
    file: Path | None,
    form: Form | None,
    key: str | None,
    key_column: str | None,
    key_separator: str | None,
    null: str | None,
    round_robin: bool,
    rate: float | None,
    count: int | None,
    bootstrap: str | None,
    as_json: bool,
) -> None:
    """Send records to a topic.

    They come from a file, or from standard input. The command ends well only when every record is on the log.

    \b
    Examples:
      headrace produce orders orders.csv --key-column user
      echo '{"user": "ann", "amount": 3}' | headrace produce orders --format json
    """
    from headrace.log import produce as producing
    from headrace.log.records import Reading, read_records

    chosen: Form = form or (_SUFFIXES.get(file.suffix.lower(), "text") if file else "text")
    reading = Reading(form=chosen, key=key, key_column=key_column, key_separator=key_separator, null=null)
    client = client_of(bootstrap)
    live = sys.stderr.isatty()
    confirmed = 0

    def tell(records: int) -> None:
        nonlocal confirmed
        confirmed = records
        if live:
            click.echo(f"\r\033[K{records} records", err=True, nl=False)

    with ExitStack() as opened:
        stream = _open(file, opened)
        if file is None and sys.stdin.isatty():
            click.echo("one record a line; Ctrl-D ends", err=True)
        try:
            done = producing.produce(
                client,
                topic,
                read_records(stream, reading, str(file) if file else "stdin"),
                spread="round-robin" if round_robin else "key",
                rate=rate,
                count=count,
                progress=tell,
            )
        except KeyboardInterrupt:
            click.echo(f"{chr(10) if live else ''}stopped; {confirmed} records are on topic {topic}", err=True)
            raise
    if live:
        click.echo("\r\033[K", err=True, nl=False)
    if as_json:
        click.echo(json.dumps(done.as_dict()))
    else:
        click.echo(f"{done.records} records to {topic} in {done.seconds:.1f} s")


def _open(file: Path | None, opened: ExitStack) -> BinaryIO:
    from headrace.errors import UsageError

    if file is None:
        return sys.stdin.buffer
    try:
        return opened.enter_context(file.open("rb"))
    except OSError as error:
        raise UsageError(f'the file "{file}" cannot be read: {error.strerror}') from None


@click.command()
@click.argument("topic")
@click.option(
    "--from", "start", metavar="PLACE", help='beginning (the default), end, an offset, a time, or "10 min ago".'
)
@click.option("--group", help="Read as a member of this group, from where it left off.")
@click.option("--max", "maximum", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option("--until-end", is_flag=True, help="Stop at the end as it is now.")
@click.option("--partition", type=click.IntRange(min=0), help="Only this one.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "raw"]),
    default="text",
    show_default=True,
    help="How to write values.",
)
@click.option("--metadata", is_flag=True, help="Add partition, offset, time, key and headers.")
@bootstrap_option
@click.option("--json", "as_json", is_flag=True, help="The same as --format json --metadata: one object a line.")
def consume(
    topic: str,
    start: str | None,
    group: str | None,
    maximum: int | None,
    until_end: bool,
    partition: int | None,
    form: str,
    metadata: bool,
    bootstrap: str | None,
    as_json: bool,
) -> None:
    """Read records from a topic.

    It goes on until Ctrl-C, unless told where to stop.

    \b
    Examples:
      headrace consume orders --until-end
      headrace consume orders --from "10 min ago" --max 5 --json
    """
    from headrace.log import consume as consuming
    from headrace.log.position import parse_position
    from headrace.log.show import Form as Shown
    from headrace.log.show import show

    shown: Shown = "json" if as_json else next(f for f in get_args(Shown) if f == form)
    records = consuming.consume(
        client_of(bootstrap),
        topic,
        start=None if start is None else parse_position(start),
        group=group,
        maximum=maximum,
        until_end=until_end,
        partition=partition,
    )
    out = sys.stdout.buffer
    given = 0
    try:
        with closing(records):
            for record in records:
                out.write(show(record, shown, metadata or as_json))
                given += 1
                if not until_end or group is not None:  # someone watches, or the record counts as read from now on
                    out.flush()
    except KeyboardInterrupt:
        click.echo(f"stopped after {given} records", err=True)  # the way to end it, so no failure
    out.flush()
