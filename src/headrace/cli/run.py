"""Commands about runs: run, status, stop, restart, logs, list."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from headrace.cli.parameters import param_option

_MODES = ("auto", "batch", "micro-batch", "real-time")


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


@click.command(epilog=_examples("headrace run flows/orders.yaml", "headrace run flows/orders.yaml --until-done"))
@click.argument("flows", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--mode", type=click.Choice(_MODES), default="auto", help="How the flow is driven.")
@click.option("--until-done", is_flag=True, help="Process all there is, close the last windows, then end.")
@click.option("--from", "start", metavar="OFFSET|TIME", help="Where sources that can seek begin.")
@click.option("--to", "stop", metavar="OFFSET|TIME", help="Where they end.")
@click.option("--master", metavar="URL", help="Spark's master, such as local[4] or spark://host:7077.")
@click.option("--bootstrap", metavar="HOST:PORT", help="The Kafka to use.")
@param_option
@click.option("--fresh", is_flag=True, help="Begin anew; the old home is set aside, not deleted.")
@click.option(
    "--restore",
    metavar="PATH",
    help="Continue from a copy of a run's home or checkpoints, or from checkpoints at an address Hadoop takes.",
)
@click.option("--restarts", type=click.IntRange(min=0), default=5, show_default=True, help="Tries after failures.")
@click.option(
    "--outage",
    default="10 minutes",
    show_default=True,
    metavar="DURATION",
    help="How long an outside system may be away before the run gives up.",
)
@click.option("--spare", is_flag=True, help="Keep a second driver ready, to go on within seconds if the first dies.")
@click.option("--json", "as_json", is_flag=True, help="Events on standard output, one JSON object per line.")
@click.option("--detach", is_flag=True, help="Run in the background; follow with `headrace logs -f`.")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
def run(
    flows: tuple[Path, ...],
    mode: str,
    until_done: bool,
    start: str | None,
    stop: str | None,
    master: str | None,
    bootstrap: str | None,
    parameters: dict[str, str],
    fresh: bool,
    restore: str | None,
    restarts: int,
    outage: str,
    spare: bool,
    as_json: bool,
    detach: bool,
    quiet: bool,
) -> None:
    """Run a flow until it is stopped, and resume where it was.

    Ctrl-C stops it after the current batch and says where it will go on. Several FLOWS, or a folder of them, are
    started together, each as a run of its own: those that write a topic before those that read it, and topics between
    them are made if they are not there.
    """
    from headrace.run.home import Asked

    asked = Asked(
        mode=None if mode == "auto" else mode,
        until_done=until_done,
        start=start,
        stop=stop,
        master=master,
        bootstrap=bootstrap,
        restarts=restarts,
        parameters=parameters,
        outage=_seconds(outage),
        spare=spare,
    )
    if len(flows) == 1 and not flows[0].is_dir():
        _start(flows[0], asked, fresh=fresh, restore=restore, as_json=as_json, background=detach, quiet=quiet)
    else:
        _start_together(flows, asked, fresh=fresh, as_json=as_json, background=detach, quiet=quiet)


def _start_together(
    paths: tuple[Path, ...], asked: Any, *, fresh: bool, as_json: bool, background: bool, quiet: bool
) -> None:
    from headrace.project import Project
    from headrace.run.board import Board
    from headrace.run.together import run_together
    from headrace.testing.find import flows_at

    files = flows_at(paths)
    board = Board(as_json=as_json, quiet=quiet)
    code = run_together(Project.find(), files, asked, board, fresh=fresh, detach=background)
    if code:
        sys.exit(code)


def _seconds(text: str) -> float:
    from headrace.options import parse_duration

    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--outage") from None


def _start(
    flow: Path, asked: Any, *, fresh: bool, restore: str | None = None, as_json: bool, background: bool, quiet: bool
) -> None:
    from headrace.project import Project
    from headrace.run import classes
    from headrace.run.prepare import prepare
    from headrace.run.remote import checkpoint_root
    from headrace.run.supervisor import supervise
    from headrace.run.view import View

    project = Project.find()
    source = checkpoint_root(restore.rstrip("/")) if restore else None
    ready = prepare(project, flow, asked, fresh=fresh, restore=source)
    with ready.lock:
        view = View(as_json=as_json, quiet=quiet)
        for note in ready.notes:
            view.note(note)
        classes.ready(project.settings.java.home, view.note)
        if background:
            _in_background(ready.home, ready.lock, view)
            return
        code = supervise(ready.home, ready.lock, view)
    if code:
        sys.exit(code)


def _in_background(home: Any, lock: Any, view: Any) -> None:
    """Waits until the queries run, so that what goes wrong at the start is said here and now."""
    from headrace.run.control import status
    from headrace.run.failure import Failure
    from headrace.run.supervisor import detach

    keeper = detach(home, lock)
    while keeper.alive and status(home)["status"] == "starting":
        time.sleep(0.1)
    now = status(home)
    if now["status"] in ("failed", "died", "starting"):
        failure = Failure.from_dict(now["failure"] or {"kind": "internal", "message": "the supervisor ended"})
        raise failure.error(now["log"])
    view.note(f'"{home.name}" is {now["status"]} (process {keeper.pid}); headrace logs -f {home.name}')


@click.command(epilog=_examples("headrace status", "headrace status orders --json"))
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(run: str | None, as_json: bool) -> None:
    """Show how far a run is, or all of them."""
    from headrace.project import Project
    from headrace.run import control

    project = Project.find()
    if run is None:
        _table(control.runs(project), as_json)
        return
    found = control.status(control.find(project, run))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for line in _describe(found):
        click.echo(line)


def _restarts(found: dict[str, Any]) -> str:
    from headrace.run.supervisor import show_replayed

    last, whole = found["last_restart"], found["last_recovery"]
    if not last or not found["restarts"]:
        return str(found["restarts"])
    took = f", first batch after {whole['seconds']:g} s" if whole and whole["at"] >= last["at"] else ""
    return f"{found['restarts']}; the last took {last['seconds']:g} s{took}{show_replayed(last.get('replaying') or {})}"


def _describe(found: dict[str, Any]) -> list[str]:
    from headrace.run.view import show_resume

    progress = dict(found["progress"])
    sources = progress.pop("watermarks", {})
    numbers = ", ".join(f"{k} {v:,}" if isinstance(v, int) else f"{k} {v}" for k, v in progress.items() if v)
    rows = [
        ("run", found["name"]),
        ("status", f"{found['status']} since {found['since']}" + (f", process {found['pid']}" if found["pid"] else "")),
        ("flow", found["file"]),
        ("mode", found["mode"]),
        ("progress", numbers or "none yet"),
        *((f"watermark {name}", mark) for name, mark in sorted(sources.items())),
        *((f"ledger {_of(one)}", _numbers(one["numbers"])) for one in found["ledger"]),
        ("restarts", _restarts(found)),
        *((f"resume {name}", show_resume(point)) for name, point in found["resume"].items()),
        *([("failure", found["failure"]["message"])] if found["failure"] else []),
        ("log", found["log"]),
    ]
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {value}" for name, value in rows]


def _of(one: dict[str, Any]) -> str:
    return f"{one['part']} -> {one['towards']}" if one["towards"] else str(one["part"])


def _numbers(numbers: dict[str, int]) -> str:
    """The totals of one part, in the order of the audit."""
    from headrace.run.audit import COLUMNS

    return ", ".join(f"{name} {numbers[name]:,}" for name in COLUMNS if name in numbers)


@click.command("list", epilog=_examples("headrace list", "headrace list --json"))
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def list_(as_json: bool) -> None:
    """List the project's runs."""
    from headrace.project import Project
    from headrace.run import control

    _table(control.runs(Project.find()), as_json)


def _table(rows: list[Any], as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    if not rows:
        click.echo("nothing has run here yet; headrace run FLOW", err=True)
        return
    cells = [("RUN", "STATUS", "SINCE", "MODE", "IN", "OUT", "LAG", "FLOW")]
    for row in rows:
        numbers = (_number(row.progress.get(k)) for k in ("in", "out", "lag"))
        cells.append((row.name, row.status, row.since[:19], row.mode, *numbers, row.file))
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for line in cells:
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "-"


@click.command(epilog=_examples("headrace stop orders", "headrace stop flows/orders.yaml"))
@click.argument("runs", nargs=-1, required=True)
def stop(runs: tuple[str, ...]) -> None:
    """Stop a run after its current batch, and say where it will resume.

    RUNS are names, files of flows, or a folder of flows: all that run of those below it.
    """
    from headrace.project import Project
    from headrace.run import control

    project = Project.find()
    homes = [home for run in runs for home in control.find_all(project, run)]
    for home in homes:
        _stop(home)


def _stop(home: Any) -> None:
    from headrace.run import control
    from headrace.run.view import show_resume

    if not control.stop(home, waiting=lambda: click.echo("stopping after the current batch …", err=True)):
        click.echo(f'"{home.name}" does not run', err=True)
        return
    found = control.status(home)
    click.echo(f'"{home.name}" is {found["status"]}', err=True)
    for query, point in found["resume"].items():
        click.echo(f"  {query} will resume {show_resume(point)}", err=True)


@click.command(epilog=_examples("headrace restart orders", "headrace restart flows/orders.yaml"))
@click.argument("run")
def restart(run: str) -> None:
    """Stop a run and start it again in the background.

    It takes the flow as it is written now.
    """
    from headrace.project import Project
    from headrace.run import control

    home = control.find(Project.find(), run)
    record = home.read()
    _stop(home)
    _start(Path(record.file), record.asked, fresh=False, as_json=False, background=True, quiet=False)


@click.command(epilog=_examples("headrace logs orders", "headrace logs -f orders"))
@click.argument("run")
@click.option("-f", "--follow", is_flag=True, help="Go on as more comes, until Ctrl-C.")
@click.option("-n", "--lines", type=click.IntRange(min=0), default=50, show_default=True, help="Lines to begin with.")
@click.option("--events", "as_events", is_flag=True, help="The run's events instead of its driver's log.")
def logs(run: str, follow: bool, lines: int, as_events: bool) -> None:
    """Show the end of a run's log."""
    from headrace.project import Project
    from headrace.run import control

    home = control.find(Project.find(), run)
    path = home.events if as_events else home.log
    position = 0
    if path.exists():
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 256 * 1024))
            for line in file.read().decode("utf-8", errors="replace").splitlines()[-lines:] if lines else ():
                click.echo(line)
            position = path.stat().st_size
    while follow:
        position = _more(path, position)
        time.sleep(0.2)


def _more(path: Path, position: int) -> int:
    """Prints what was added to a file; from its beginning if it is a new one."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(position if size >= position else 0)
        click.echo(file.read().decode("utf-8", errors="replace"), nl=False)
        return file.tell()


COMMANDS: list[click.Command] = [run, status, stop, restart, logs, list_]
