"""The `headrace` command: finds the subcommand, runs it, turns errors into words and exit codes.

Subcommands are imported only when called, so that `headrace check` does not pay for what it does not use.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import traceback
from difflib import get_close_matches
from inspect import cleandoc
from pathlib import Path
from typing import NoReturn

import click

from headrace.errors import HeadraceError

COMMANDS = {
    "demo": "demo",
    "new": "new",
    "check": "flows",
    "explain": "flows",
    "convert": "forms",
    "fmt": "forms",
    "diff": "forms",
    "sql": "sql",
    "run": "run",
    "test": "test",
    "list": "run",
    "status": "run",
    "stop": "run",
    "restart": "run",
    "logs": "run",
    "state": "state",
    "dead-letters": "letters",
    "audit": "audit",
    "verify": "verify",
    "chaos": "chaos",
    "broker": "log",
    "topic": "log",
    "produce": "log",
    "consume": "log",
    "group": "log",
    "bench": "bench",
    "describe": "describe",
}
"""Each command and the module of this package it lives in, in the order `--help` shows them."""


_EXAMPLES = "\b\nExamples:"


def examples_last(command: click.Command) -> click.Command:
    """The command, with the examples of its docstring moved below its options, the last thing one reads."""
    head, found, tail = cleandoc(command.help or "").partition(_EXAMPLES)
    if found:
        command.help, command.epilog = head.rstrip(), _EXAMPLES + tail
    if isinstance(command, click.Group) and not isinstance(command, Commands):
        for inner in command.commands.values():
            examples_last(inner)
    return command


class Commands(click.Group):
    """The commands above, loaded one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"headrace.cli.{COMMANDS[name]}")
        commands: list[click.Command] = module.COMMANDS
        return examples_last(next(c for c in commands if c.name == name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = get_close_matches(args[0], COMMANDS, n=1, cutoff=0.5)
            hint = f' Did you mean "{close[0]}"?' if close else ""
            ctx.fail(f'There is no command "{args[0]}".{hint}')
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, SUMMARIES[name]) for name in COMMANDS]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


SUMMARIES = {
    "demo": "Start a broker, a live source and a flow, and watch it.",
    "new": "Make a project: a flow, its cases, a README.",
    "check": "Find all problems of flows, without running anything.",
    "explain": "Show the plan: columns, queries, guarantees, state, settings.",
    "convert": "Write a flow in another form, with the same meaning.",
    "fmt": "Bring flow files into the one layout, comments kept.",
    "diff": "Show what changed between two flows by meaning, and what it does to state.",
    "sql": "Ask streams in SQL, at a prompt or from a script.",
    "run": "Run a flow until it is stopped, and resume where it was.",
    "test": "Run the cases written beside flows.",
    "list": "List the project's runs.",
    "status": "Show how far a run is, or all of them.",
    "stop": "Stop a run after its current batch, and say where it will resume.",
    "restart": "Stop a run and start it again in the background.",
    "logs": "Show the end of a run's log.",
    "state": "Show what a step of a run remembers, by key or all of it.",
    "dead-letters": "List, show and replay the records that a run could not take.",
    "audit": "Add up what became of every record of a run.",
    "verify": "Recompute what a run's sinks should hold, and compare row by row.",
    "chaos": "Run flows while their processes are killed, and count what was lost or doubled.",
    "broker": "Start, stop and look at a local Kafka.",
    "topic": "Create, list, describe, alter and delete topics.",
    "produce": "Send records to a topic.",
    "consume": "Read records from a topic.",
    "group": "List, describe and reset consumer groups.",
    "bench": "Run a benchmark of the source checkout, or list them.",
    "describe": "Show what connectors, operators and formats there are.",
}
"""One line each, so that `--help` need not load the commands; a test keeps them equal to the commands' own."""


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import version

        click.echo(f"headrace {version('headrace')}")
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def headrace() -> None:
    """Streaming pipelines on Spark, every record accounted for.

    \b
    Examples:
      headrace new shop
      headrace check shop/flows/revenue.yaml
    """


examples_last(headrace)


def main() -> NoReturn:
    """The entry point; its exit codes are those of the error tree."""
    try:
        headrace.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show(sys.stderr)
        sys.exit(2)
    except HeadraceError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader of our output has gone, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback reaches a user
        file = Path(tempfile.mkstemp(prefix="headrace-crash-", suffix=".log")[1])
        file.write_text(traceback.format_exc(), encoding="utf-8")
        click.echo(
            f"{type(error).__name__}: {error}\n  detail: this is a mistake in headrace; the trace is in {file}",
            err=True,
        )
        sys.exit(4)
    sys.exit(0)


if __name__ == "__main__":
    main()
