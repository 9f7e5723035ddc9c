"""A run continued from a copy of its home, or of its checkpoints, made somewhere else; or with checkpoints elsewhere.

Checkpoints outside a home are in a folder with the flow's name and the run's identity, by which sinks know the run. So
they are enough to go on by without writing a batch twice, also when all else is lost.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

from headrace.errors import UsageError
from headrace.run.checkpoint import last_planned
from headrace.run.home import Home, Record
from headrace.run.remote import RemotePath

_LEFT_BEHIND = ("lock", ".record.lock", "scratch", "logs")
"""What belongs to the processes that were there."""


def restored(home: Home, source: Path) -> list[str]:
    """Fills a home that has no run in it from a copy; what to know about it, in words. Raises UsageError."""
    if home.exists:
        raise UsageError(
            f'run "{home.name}" is there already, and a copy would take its place',
            hint="--fresh sets it aside first, and nothing is deleted",
        )
    known = life_of(home.name, source) is not None
    if isinstance(source, RemotePath):
        home.go_on_with_checkpoints_at(str(source))
        home.make()
        return [f'continues with the checkpoints at "{source}", where they are', *_unknown(known)]
    if (source / "run.json").is_file():
        return _whole(home, source)
    found = _checkpoints(source)
    if not found:
        raise UsageError(
            f'"{source}" is neither the home of a run nor its checkpoints',
            hint="give a folder with run.json in it, such as .headrace/runs/<flow> of the other project",
        )
    for name, folder in found.items():
        shutil.copytree(folder, home.path / "checkpoints" / name)
    home.make()
    return [f'continues from the checkpoints in "{source}": {", ".join(sorted(found))}', *_unknown(known)]


def life_of(flow: str, source: Path) -> str | None:
    """The identity of the run whose checkpoints are in a folder, by the name the folder was given.

    >>> life_of("shop", Path("/checkpoints/shop-0a1b2c3d4e5f")), life_of("shop", Path("/copies/shop"))
    ('0a1b2c3d4e5f', None)
    """
    found = re.fullmatch(re.escape(flow) + "-([0-9a-f]{12})", source.name)
    return found[1] if found else None


def _unknown(known: bool) -> list[str]:
    """What is not known without the rest of a home, in words."""
    said = ["without the rest of the home, verify and audit know only of the batches from here on"]
    if not known:
        said.append("its sinks do not know the run: a batch that was under way is written again")
    return said


def _whole(home: Home, source: Path) -> list[str]:
    copied = Home(source)
    record = copied.read()
    if record.shown_status == "running":
        raise UsageError(
            f'the run in "{source}" is running', hint="stop it first: two that go on from one place write twice"
        )
    if record.name != home.name:
        raise UsageError(f'"{source}" is of flow "{record.name}", not of "{home.name}"')
    shutil.copytree(source, home.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_LEFT_BEHIND))
    home.make()
    _bring_checkpoints(home, copied)
    home.write(_here(record))
    return [f'continues from the copy in "{source}", made when the run was {record.shown_status}']


def _bring_checkpoints(home: Home, copied: Home) -> None:
    """Where the copied run kept its checkpoints elsewhere, they come along, unless the copy has them."""
    if _checkpoints(copied.path / "checkpoints"):
        home.keep_checkpoints_here()
        return
    elsewhere = home.checkpoint("any").parent
    if isinstance(elsewhere, Path) and elsewhere != home.path / "checkpoints" and elsewhere.is_dir():
        shutil.copytree(elsewhere, home.path / "checkpoints", dirs_exist_ok=True)
        home.keep_checkpoints_here()


def _here(record: Record) -> Record:
    """The record without the processes of the machine it comes from."""
    return replace(record, supervisor=None, driver=None, status="stopped", failure=None)


def _checkpoints(source: Path) -> dict[str, Path]:
    folder = source / "checkpoints" if (source / "checkpoints").is_dir() else source
    if not folder.is_dir():
        return {}
    return {entry.name: entry for entry in folder.iterdir() if entry.is_dir() and last_planned(entry) is not None}


def files_read(checkpoint: Path) -> set[str]:
    """The folders of the files that a query's file sources have read, as their logs have them."""
    found = set()
    for log in (checkpoint / "sources").glob("*/*"):
        for line in log.read_text(encoding="utf-8", errors="replace").split("\n"):
            if line.startswith('{"path":'):
                found.add(str(json.loads(line)["path"]).rsplit("/", 1)[0])
    return found
