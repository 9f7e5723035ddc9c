"""dead-letters: the records that a run could not take."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.answers import json_option, print_json, table

if TYPE_CHECKING:
    from headrace.run.letters import Letter

_LONGEST = 2000
"""Characters of a value that are shown unless all are asked for."""


@click.group("dead-letters")
def dead_letters() -> None:
    """List, show and replay the records that a run could not take.

    \b
    Examples:
      headrace dead-letters list orders
      headrace dead-letters replay orders --step parse
    """


@dead_letters.command("list")
@click.argument("run")
@click.option("--step", metavar="STEP", help="Only those of one source or step.")
@json_option
def list_(run: str, step: str | None, as_json: bool) -> None:
    """How many dead letters a run has, by step and reason, with one of each.

    \b
    Examples:
      headrace dead-letters list orders
      headrace dead-letters list orders --step parse --json
    """
    from headrace.project import Project
    from headrace.run import control
    from headrace.run.letters import summary

    found = summary(control.find(Project.find(), run), step=step)
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("there are no dead letters", err=True)
        return
    rows = [(k["letters"], k["replayed"], k["step"], _short(k["reason"], 80), k["example"]) for k in found]
    click.echo(table(("letters", "replayed", "step", "reason", "one of them"), rows))


@dead_letters.command()
@click.argument("run")
@click.argument("letters", nargs=-1, metavar="[LETTER]...")
@click.option("--step", metavar="STEP", help="Only those of one source or step.")
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="At most so many.")
@click.option("--value", "as_bytes", is_flag=True, help="Nothing but the original bytes of one letter.")
@json_option
def show(run: str, letters: tuple[str, ...], step: str | None, limit: int, as_bytes: bool, as_json: bool) -> None:
    """Show dead letters: why they failed, where they came from and what they hold.

    \b
    Examples:
      headrace dead-letters show orders --step parse
      headrace dead-letters show orders orders/3/0 --value
    """
    from itertools import islice

    from headrace.errors import UsageError
    from headrace.project import Project
    from headrace.run import control
    from headrace.run import letters as kept

    home = control.find(Project.find(), run)
    wanted = (one for one in kept.letters(home, step=step) if not letters or one.id in letters)
    found = [*islice(wanted, max(limit, len(letters)))]
    missing = [i for i in letters if i not in {one.id for one in found}]
    if missing:
        raise UsageError(f'run "{run}" has no dead letter "{missing[0]}"', hint=f"headrace dead-letters list {run}")
    if as_bytes:
        if len(found) != 1:
            raise UsageError(f"--value is of one letter, not of {len(found)}", hint="name it")
        sys.stdout.buffer.write(found[0].bytes_of("value") or b"")
    elif as_json:
        print_json([{"id": one.id, **one.told} for one in found])
    else:
        taken = kept.replayed(home)
        click.echo("\n\n".join(_shown(one, replayed=one.id in taken) for one in found) or "there are none")


def _shown(letter: Letter, *, replayed: bool) -> str:
    told = letter.told
    came = [f"{told[w]}" for w in ("source", "topic") if w in told]
    came += [f"{w} {told[w]}" for w in ("partition", "offset", "file", "line") if w in told]
    lines = [
        (letter.id, "replayed" if replayed else ""),
        ("  step", letter.step),
        ("  reason", letter.reason),
        ("  function", " at ".join(told[w] for w in ("function", "place") if told.get(w))),
        ("  from", " · ".join(came)),
        ("  at", told.get("at", "")),
        ("  record", _short(str(told.get("record", "")))),
        ("  value", safe(letter.bytes_of("value"))),
    ]
    return "\n".join(f"{name:<10} {text}".rstrip() for name, text in lines if text or not name.startswith(" "))


def safe(value: bytes | None) -> str:
    r"""Bytes as text that a terminal may be given.

    >>> safe(b"a\x1b[2Jb\xff")
    'a\\x1b[2Jb\\xff'
    """
    if value is None:
        return ""
    text = value[: _LONGEST + 1].decode("utf-8", errors="backslashreplace")
    return _short("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))


def _short(text: str, most: int = _LONGEST) -> str:
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return plain if len(plain) <= most else f"{plain[:most]}…"


@dead_letters.command()
@click.argument("run")
@click.argument("letters", nargs=-1, metavar="[LETTER]...")
@click.option("--step", metavar="STEP", help="Only those of one source or step.")
@json_option
def replay(run: str, letters: tuple[str, ...], step: str | None, as_json: bool) -> None:
    """Put dead letters through the flow again, each once, after a fix.

    The flow is taken as its file is now. A letter goes on where it failed and reaches the sinks behind that; where a
    step behind it remembers, it is sent to its topic again, for the run to take. What fails again is a new letter.

    \b
    Examples:
      headrace dead-letters replay orders
      headrace dead-letters replay orders --step parse
    """
    from headrace.check import load
    from headrace.compile.planner import plan as make_plan
    from headrace.declare.parameters import Values
    from headrace.model import Mode
    from headrace.project import Project
    from headrace.run import control
    from headrace.run import letters as kept

    project = Project.find()
    home = control.find(project, run)
    record = home.read()
    given = Values(asked=record.parameters, strict=False)
    plan = make_plan(load(Path(record.file), given=given), mode=Mode.BATCH)
    taken = kept.replayed(home)
    chosen = [*letters] or [one.id for one in kept.letters(home, step=step) if one.id not in taken]
    if not chosen and kept.unfinished(home) is None:
        click.echo("there are no dead letters to replay", err=True)
        return
    done = kept.replay(home, plan, lambda root: _where(root, project, record, plan), chosen).as_dict()
    if as_json:
        print_json(done)
        return
    again = f", {done['failed']} failed again" if done["failed"] else ""
    sent = f", {done['sent']} of them sent to their topic" if done["sent"] else ""
    click.echo(f"replay {done['replay']}: {done['taken']} letters{sent}{again}")
    for one in done["left"]:
        click.echo(f'{one["letters"]} letters of "{one["step"]}" were left: {one["why"]}', err=True)


def _where(root: Path, project: Any, record: Any, plan: Any) -> Any:
    """Where a replay runs: on this machine, with a home of its own."""
    from headrace.compile.where import Where
    from headrace.run.driver import kafka_of
    from headrace.run.inline import local_session

    kafka = kafka_of(project, plan.flow, record)
    session = local_session(project)
    for name, value in plan.spark.items():
        session.conf.set(name, value)
    return Where(session=session, streaming=False, home=root, base=project.root, kafka=kafka)


COMMANDS: list[click.Command] = [dead_letters]
