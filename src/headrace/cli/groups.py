"""group: list, describe, reset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.answers import bootstrap_option, client_of, joined, json_option, print_json, table

if TYPE_CHECKING:
    from headrace.log.groups import Group, Move


@click.group()
def group() -> None:
    """List, describe and reset consumer groups.

    \b
    Examples:
      headrace group list
      headrace group describe billing
    """


@group.command("list")
@bootstrap_option
@json_option
@click.option("--all", "everything", is_flag=True, help="Those too in which sinks note which batches are written.")
def group_list(bootstrap: str | None, as_json: bool, everything: bool) -> None:
    """List groups and their states.

    \b
    Examples:
      headrace group list
      headrace group list --json
    """
    from headrace.connectors.kafka_transactions import MARKS
    from headrace.log import groups

    found = [g for g in groups.listing(client_of(bootstrap)) if everything or not g.name.startswith(f"{MARKS}/")]
    if as_json:
        print_json([{"name": g.name, "state": g.state} for g in found])
    else:
        click.echo(table(("group", "state"), [(g.name, g.state) for g in found]))


@group.command("describe")
@click.argument("name")
@bootstrap_option
@json_option
def group_describe(name: str, bootstrap: str | None, as_json: bool) -> None:
    """Show a group's state, its members, and how far it is.

    \b
    Examples:
      headrace group describe billing
      headrace group describe billing --json
    """
    from headrace.log import groups

    found = groups.describe(client_of(bootstrap), name)
    if as_json:
        print_json(found.as_dict())
    else:
        click.echo(_group_text(found))


def _group_text(found: Group) -> str:
    rows = [
        (p.topic, p.partition, "-" if p.offset is None else p.offset, p.end, p.lag, p.member or "-")
        for p in found.progress
    ]
    members = [(m.id, m.client, m.host, joined(f"{t}:{p}" for t, p in m.partitions) or "-") for m in found.members]
    lines = [f"group {found.name}: {found.state}, lag {found.lag}"]
    lines += [table(("topic", "partition", "offset", "end", "lag", "member"), rows)] if rows else []
    lines += ["", table(("member", "client", "host", "partitions"), members)] if members else []
    return "\n".join(lines)


@group.command("reset")
@click.argument("name")
@click.option("--topic", "topic_name", required=True, help="The topic to move within.")
@click.option("--to", required=True, metavar="PLACE", help='beginning, end, an offset, a time, or "10 min ago".')
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@bootstrap_option
@json_option
def group_reset(name: str, topic_name: str, to: str, dry_run: bool, bootstrap: str | None, as_json: bool) -> None:
    """Move a group to another place in a topic.

    \b
    Examples:
      headrace group reset billing --topic orders --to beginning --dry-run
      headrace group reset billing --topic orders --to 2026-05-01T12:00:00Z
    """
    from headrace.log import groups
    from headrace.log.position import parse_position

    moves = groups.reset(client_of(bootstrap), name, topic_name, parse_position(to), dry_run)
    if as_json:
        print_json({"group": name, "dry_run": dry_run, "moves": [_move(m) for m in moves]})
    else:
        rows = [(m.topic, m.partition, "-" if m.before is None else m.before, m.after) for m in moves]
        click.echo(table(("topic", "partition", "before", "would be" if dry_run else "now"), rows))


def _move(move: Move) -> dict[str, object]:
    return {"topic": move.topic, "partition": move.partition, "before": move.before, "after": move.after}
