"""topic: create, list, describe, alter, delete."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.answers import bootstrap_option, client_of, joined, json_option, print_json, table

if TYPE_CHECKING:
    from headrace.log.topics import Keeping, Topic


@click.group()
def topic() -> None:
    """Create, list, describe, alter and delete topics.

    \b
    Examples:
      headrace topic create orders --partitions 3
      headrace topic list
    """


def _reader(parser: str, unbounded: Any) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Reads an option by one of the parsers of `headrace.options`, or as a word for "without bound"."""

    def read(_ctx: click.Context, param: click.Parameter, text: str | None) -> Any:
        from pydantic_core import PydanticCustomError

        from headrace import options

        if text is None:
            return None
        if text.lower() in ("forever", "unlimited"):
            return unbounded
        try:
            return getattr(options, parser)(text)
        except PydanticCustomError as error:
            raise click.BadParameter(
                f"{error.message()}; {(error.context or {}).get('hint', '')}", param=param
            ) from None

    return read


def _keeping_options(command: Callable[..., None]) -> Callable[..., None]:
    options = (
        click.option(
            "--retention",
            callback=_reader("parse_duration", timedelta(0)),
            metavar="TIME",
            help='Keep records this long: "7 days", or forever.',
        ),
        click.option(
            "--retention-size",
            callback=_reader("parse_size", -1),
            metavar="SIZE",
            help='Keep at most this much per partition: "1 GB", or unlimited.',
        ),
        click.option("--compact/--no-compact", default=None, help="Keep only the last record of each key."),
        click.option(
            "--set", "settings", multiple=True, metavar="NAME=VALUE", help="One of Kafka's own topic settings."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _keeping(
    retention: timedelta | None, retention_size: int | None, compact: bool | None, settings: tuple[str, ...]
) -> Keeping:
    from headrace.errors import UsageError
    from headrace.log.topics import Keeping

    pairs = [text.partition("=") for text in settings]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise UsageError(f'"{name}" is not a setting with its value', hint="--set max.message.bytes=2000000")
    own = {name.strip(): value.strip() for name, _, value in pairs}
    return Keeping(retention=retention, retention_size=retention_size, compact=compact, settings=own)


@topic.command("create")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), default=1, show_default=True, help="How many.")
@click.option(
    "--replication", type=click.IntRange(min=1), help="Copies of each record; the cluster's default unless told."
)
@_keeping_options
@bootstrap_option
@json_option
def topic_create(
    name: str, partitions: int, replication: int | None, bootstrap: str | None, as_json: bool, **keeping: Any
) -> None:
    """Create a topic.

    \b
    Examples:
      headrace topic create orders --partitions 3 --retention "7 days"
      headrace topic create prices --compact
    """
    from headrace.log import topics

    client = client_of(bootstrap)
    topics.create(client, name, partitions, replication, _keeping(**keeping))
    _show_topic(topics.describe(client, name), as_json)


@topic.command("list")
@click.option("--all", "internal", is_flag=True, help="Kafka's own topics too.")
@bootstrap_option
@json_option
def topic_list(internal: bool, bootstrap: str | None, as_json: bool) -> None:
    """List topics.

    \b
    Examples:
      headrace topic list
      headrace topic list --json
    """
    from headrace.log import topics

    found = topics.listing(client_of(bootstrap), internal)
    if as_json:
        rows = ({k: v for k, v in t.as_dict().items() if k != "settings"} for t in found)
        print_json([{**row, "partitions": len(t.partitions)} for row, t in zip(rows, found, strict=True)])
    else:
        head = ("topic", "partitions", "copies", "records")
        click.echo(table(head, [(t.name, len(t.partitions), t.replication, t.records) for t in found]))


@topic.command("describe")
@click.argument("name")
@bootstrap_option
@json_option
def topic_describe(name: str, bootstrap: str | None, as_json: bool) -> None:
    """Show a topic's partitions, leaders, copies, offsets and settings.

    \b
    Examples:
      headrace topic describe orders
      headrace topic describe orders --json
    """
    from headrace.log import topics

    _show_topic(topics.describe(client_of(bootstrap), name), as_json)


@topic.command("alter")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), help="Raise the number to this.")
@_keeping_options
@bootstrap_option
@json_option
def topic_alter(name: str, partitions: int | None, bootstrap: str | None, as_json: bool, **keeping: Any) -> None:
    """Change a topic's partitions, retention or compaction.

    \b
    Examples:
      headrace topic alter orders --partitions 6
      headrace topic alter orders --retention "1 day" --retention-size "500 MB"
    """
    from headrace.errors import UsageError
    from headrace.log import topics

    wanted = _keeping(**keeping)
    if partitions is None and not wanted.config():
        raise UsageError(
            "there is nothing to change", hint="--partitions, --retention, --retention-size, --compact, --set"
        )
    client = client_of(bootstrap)
    topics.alter(client, name, partitions, wanted)
    _show_topic(topics.describe(client, name), as_json)


@topic.command("delete")
@click.argument("names", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
@json_option
def topic_delete(names: tuple[str, ...], yes: bool, bootstrap: str | None, as_json: bool) -> None:
    """Delete topics with everything in them.

    \b
    Examples:
      headrace topic delete orders
      headrace topic delete orders payments --yes
    """
    from headrace.log import topics

    client = client_of(bootstrap)
    if not yes and sys.stdin.isatty():
        click.confirm(f"Delete {', '.join(names)} at {client['bootstrap.servers']}?", abort=True, err=True)
    topics.delete(client, names)
    if as_json:
        print_json({"deleted": list(names)})
    else:
        click.echo(f"deleted {', '.join(names)}")


def _show_topic(found: Topic, as_json: bool) -> None:
    if as_json:
        print_json(found.as_dict())
        return
    rows = [
        (p.id, p.leader if p.leader >= 0 else "none", joined(p.replicas), joined(p.in_sync), p.begin, p.end)
        for p in found.partitions
    ]
    lines = [f"topic {found.name}", table(("partition", "leader", "copies", "in sync", "begin", "end"), rows)]
    click.echo("\n".join([*lines, *(f"{name} = {value}" for name, value in found.settings.items())]))
