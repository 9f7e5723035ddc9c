"""Commands about the log: the broker here, the others in modules of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.answers import json_option, print_json, progress_line, table
from headrace.cli.groups import group
from headrace.cli.records import consume, produce
from headrace.cli.topics import topic

if TYPE_CHECKING:
    from headrace.log.state import BrokerInfo


@click.group()
def broker() -> None:
    """Start, stop and look at a local Kafka.

    It belongs to the project, listens on this machine only, and keeps its data in .headrace/broker.

    \b
    Examples:
      headrace broker start
      headrace broker start --brokers 3
    """


@broker.command("start")
@click.option("--brokers", type=int, metavar="N", help="How many nodes: 1, or 3 to have every record three times.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the first node; a free one unless told.")
@click.option("--replication", type=int, metavar="N", help="Copies of each record; at most 3 unless told.")
@json_option
def broker_start(brokers: int | None, port: int | None, replication: int | None, as_json: bool) -> None:
    """Start the project's Kafka and wait until it answers.

    \b
    Examples:
      headrace broker start
      headrace broker start --brokers 3 --json
    """
    from headrace.log import broker as local
    from headrace.project import Project

    info = local.start(Project.find(), brokers, port, replication, progress_line())
    if as_json:
        print_json(info.as_dict())
    else:
        click.echo(f"Kafka {'runs already' if info.already else 'runs'} at {info.bootstrap}")


@broker.command("stop")
@click.option("--delete", is_flag=True, help="Remove the data too: every topic, every record.")
@json_option
def broker_stop(delete: bool, as_json: bool) -> None:
    """Stop the project's Kafka; its data stays unless told.

    \b
    Examples:
      headrace broker stop
      headrace broker stop --delete
    """
    from headrace.log import broker as local
    from headrace.project import Project

    project = Project.find()
    before = local.status(project)
    ran = before is not None and before.running
    local.stop(project, delete)
    if as_json:
        print_json({"stopped": ran, "deleted": delete and before is not None})
        return
    click.echo("Kafka has stopped" if ran else "Kafka did not run")
    if delete and before is not None:
        click.echo("its data is deleted")


@broker.command("status")
@json_option
def broker_status(as_json: bool) -> None:
    """Show whether the project's Kafka runs, and where.

    \b
    Examples:
      headrace broker status
      headrace broker status --json
    """
    from headrace.log import broker as local
    from headrace.project import Project

    info = local.status(Project.find())
    if as_json:
        print_json(info.as_dict() if info else {"running": False, "nodes": []})
    elif info is None:
        click.echo("Kafka was never started here; headrace broker start")
    else:
        click.echo(_broker_text(info))


def _broker_text(info: BrokerInfo) -> str:
    rows = [
        (n.id, n.address, "runs" if n.alive() else "stopped", n.process.pid if n.process and n.alive() else "-")
        for n in info.nodes
    ]
    head = f"Kafka runs at {info.bootstrap}" if info.running else "Kafka is stopped; headrace broker start"
    copies = f"{info.replication} {'copy' if info.replication == 1 else 'copies'} of each record, in {info.folder}"
    return "\n".join([head, copies, table(("node", "address", "state", "pid"), rows)])


COMMANDS: list[click.Command] = [broker, topic, produce, consume, group]
