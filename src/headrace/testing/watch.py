"""Cases again whenever something changes, on a Spark that stays up: a second or two instead of a start.

A change of a flow or its cases concerns that flow; any other, of a module or an input, may concern all of them. Where
Python or the project's settings have changed, Spark's session begins anew, since its workers keep the modules that they
have imported; the Java below it stays, warm, and with the options it was started with.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import click

from headrace.author.callables import is_authors
from headrace.declare.load import SUFFIXES
from headrace.declare.parameters import Values
from headrace.errors import HeadraceError, UsageError
from headrace.project import FILE, Project
from headrace.testing import report
from headrace.testing.find import cases_of

LOOK, SHARE = 0.2, 0.1
"""Seconds between two looks at least, and the part of the time that looking may take."""
_READ = frozenset({*SUFFIXES, ".jsonl", ".ndjson", ".csv", ".txt"})
"""How the names of flows, modules and inputs end."""
_NOT_OURS = frozenset({"__pycache__", "node_modules", "venv"})
Seen = Mapping[Path, tuple[int, int]]
"""Files, each with the time of its last change and its size."""


def watch(path: Path, *, only: str = "", given: Values | None = None) -> None:
    """Runs the cases at or below a path, and after each change those it may concern, until Ctrl-C."""
    folder, again = folder_of(path), [path]
    report.tested(path)  # that nothing is there is a slip at the start, and may be for a moment later on
    seen = look(folder)
    with suppress(KeyboardInterrupt):
        while True:
            for one in again:
                try:
                    report.run_and_report(one, only=only, given=given)
                except HeadraceError as error:
                    click.echo(str(error), err=True)
            click.echo(f"waiting for a change in {folder}; Ctrl-C ends", err=True)
            seen, changed = _next(folder, seen)
            click.echo(f"\n{', '.join(sorted(str(file.relative_to(folder)) for file in changed))} changed", err=True)
            if any(file.suffix == ".py" or file.name == FILE for file in changed):
                _begin_anew(folder)
            again = concerned(path, changed)


def folder_of(path: Path) -> Path:
    """Below which the files are that cases may depend on: the project's folder, if they are in it."""
    beside = path.resolve() if path.is_dir() else path.resolve().parent
    root = Project.find().root
    return root if beside.is_relative_to(root) else beside


def look(folder: Path) -> Seen:
    """The files below a folder that cases may depend on, as they are now."""
    found = {}
    for file in _below(folder):
        with suppress(OSError):  # it has just gone
            told = file.stat()
            found[file] = (told.st_mtime_ns, told.st_size)
    return found


def changed_between(before: Seen, after: Seen) -> set[Path]:
    """The files that are new, gone or other than they were."""
    return {file for file, _ in before.items() ^ after.items()}


def concerned(path: Path, changed: Iterable[Path]) -> list[Path]:
    """What is to be run at or below a path after a change: the flows that have changed, or all of it.

    A flow in Python may be imported by others, so it concerns all.
    """
    with suppress(UsageError):  # there are no cases at the moment
        own = {mine.resolve(): flow for flow in report.tested(path) for mine in (flow, cases_of(flow))}
        if all(file in own and file.suffix != ".py" for file in changed):
            return list(dict.fromkeys(own[file] for file in sorted(changed)))
    return [path]


def _next(folder: Path, seen: Seen) -> tuple[Seen, set[Path]]:
    """Waits until something is other than it was: the files then, and what has changed."""
    while True:
        begun = time.monotonic()
        now = look(folder)
        if changed := changed_between(seen, now):
            return now, changed
        time.sleep(max(LOOK, (time.monotonic() - begun) / SHARE))


def _below(folder: Path) -> Iterator[Path]:
    for at, inside, names in os.walk(folder):
        inside[:] = [name for name in inside if not name.startswith(".") and name not in _NOT_OURS]
        yield from (Path(at, name) for name in names if Path(name).suffix in _READ or name == FILE)


def _begin_anew(folder: Path) -> None:
    """Forgets the author's modules, here and in Spark's workers."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and name != "__main__" and Path(file).is_relative_to(folder) and is_authors(file):
            del sys.modules[name]
    if report.session.cache_info().currsize:
        report.session().stop()
        report.session.cache_clear()
