"""chaos: flows under faults, on local parts of their own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.answers import json_option, print_json, table

if TYPE_CHECKING:
    from headrace.testing.chaos.run import Outcome


@click.command()
@click.argument("flows", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--kills", type=click.IntRange(min=1), default=10, show_default=True, help="How many kill -9 for each flow."
)
@click.option("--for", "length", default="1 minute", show_default=True, metavar="DURATION", help="At least so long.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed, other faults at other moments.")
@click.option("--fault", "faults", multiple=True, metavar="KIND", help="Only this kind of fault; may be given again.")
@click.option("--rate", type=click.FloatRange(min=0.1), default=50.0, show_default=True, help="Records a second.")
@click.option("--database", metavar="URL", help="A PostgreSQL for the flows' sinks; a namespace is made and dropped.")
@click.option("--master", metavar="URL", help="A Spark cluster on this machine; its executors are killed too.")
@click.option("--workers", type=click.IntRange(min=0), default=0, help="So many workers of a cluster of its own.")
@click.option("--spare", is_flag=True, help="Run them with a second driver ready, as `headrace run --spare` does.")
@json_option
def chaos(
    flows: tuple[Path, ...],
    kills: int,
    length: str,
    seed: int,
    faults: tuple[str, ...],
    rate: float,
    database: str | None,
    master: str | None,
    workers: int,
    spare: bool,
    as_json: bool,
) -> None:
    """Run flows while their processes are killed, and count what was lost or doubled.

    In a scratch project with a Kafka of its own: the flow's sources are fed with copies of its topics' records, with
    those of its cases, or with made-up ones; nothing of yours is written to. Kills: driver, executor (with --workers
    or --master), broker. Behind every second of them comes one of the other faults: pause, full-disk, slow-sink, clock
    (with a C compiler). At the end what the sinks hold is verified row by row and the ledger is audited. Exit code 1
    if a row is lost, or doubled where the guarantee of its sink does not allow it, a sink that can be compared was not,
    or the ledger does not add up.

    \b
    Examples:
      headrace chaos flows/revenue.yaml --kills 5
      headrace chaos flows/revenue.yaml --kills 50 --for 10m --seed 7 --json
    """
    from headrace.options import parse_duration
    from headrace.testing.chaos.run import Asked
    from headrace.testing.chaos.run import chaos as run_chaos

    try:
        seconds = parse_duration(length).total_seconds()
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--for") from None
    asked = Asked(
        kills=kills,
        seconds=seconds,
        seed=seed,
        rate=rate,
        faults=faults,
        database=database,
        master=master,
        workers=workers,
        spare=spare,
    )
    found = run_chaos(flows, asked, lambda text: click.echo(text, err=True))
    if as_json:
        print_json({"seed": seed, "flows": [o.as_dict() for o in found]})
    else:
        for line in told(found):
            click.echo(line)
    if not all(o.good for o in found):
        sys.exit(1)


_SAID = ("sink", "verdict", "allowed", "why")
"""What is said of a sink."""


def told(outcomes: list[Outcome]) -> list[str]:
    """The outcomes as a table, the faults by kind as another, and what must be said besides.

    What was lost is seen only at the end, so it is told by flow and not by kind of fault.
    """
    head = ("flow", "kills", "others", "restarts", "fed", "read", "lost", "doubled", "recovery p50", "max", "verdict")
    rows = [
        (o.flow, o.kills, o.others, o.restarts, o.fed, o.read, o.lost, o.duplicated, *_took(o), _verdict(o))
        for o in outcomes
    ]
    kinds = [(o.flow, kind, n, *_took(o, kind)) for o in outcomes for kind, n in sorted(o.faults.items())]
    lines = table(head, rows).splitlines()
    lines += ["", *table(("flow", "fault", "times", "recovery p50", "max"), kinds).splitlines(), ""]
    for o in outcomes:
        lines += [f"{o.flow}: sink {': '.join(s[k] for k in _SAID if s[k])}" for s in o.sinks]
        lines += [f"{o.flow}: does not add up: {finding}" for finding in o.audit]
        lines += [f"{o.flow}: {o.failure}"] if o.failure else []
    return lines


def _took(outcome: Outcome, *kinds: str) -> tuple[str, str]:
    took = outcome.took(*kinds)
    return (f"{took[0]:.1f} s", f"{took[1]:.1f} s") if took else ("-", "-")


def _verdict(outcome: Outcome) -> str:
    if outcome.good:
        return "good"
    if outcome.failure:
        return "failed"
    if outcome.differs:
        return "differs"
    return "does not add up" if outcome.audit else "not all compared"


COMMANDS: list[click.Command] = [chaos]
