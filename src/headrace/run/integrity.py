"""Whether a checkpoint is whole: every file there that the query needs to go on, and readable.

Spark would fail on some damage with a trace, and on other damage begin again at the beginning without a word. So it
is looked for before Spark starts, and said with the file and the way out.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from headrace.errors import DataError
from headrace.run.journal import Entry

_RESTORE = "restore a copy of the run's home with --restore PATH, or begin anew with --fresh"
_STATE = re.compile(r"(\d+)(?:_[\w-]+)?\.(changelog|zip|delta|snapshot)$")


class Damaged(Exception):  # noqa: N818 - a finding, turned into an error by `require_whole`
    """What is wrong with which file."""

    def __init__(self, path: Any, what: str, hint: str = _RESTORE) -> None:
        super().__init__(what)
        self.path, self.what, self.hint = path, what, hint


def require_whole(query: str, checkpoint: Path, noted: Mapping[int, Entry]) -> None:
    """Raises DataError if a checkpoint is damaged; `noted` is what the run's journal says."""
    try:
        _check(checkpoint, noted)
    except Damaged as found:
        raise DataError(
            f'query "{query}" cannot go on: checkpoint file "{found.path}" {found.what}', hint=found.hint
        ) from None


def _check(checkpoint: Path, noted: Mapping[int, Entry]) -> None:
    offsets, commits = (_numbers(checkpoint / name) for name in ("offsets", "commits"))
    if not offsets and not commits:
        if noted:
            raise Damaged(checkpoint / "offsets", "is missing, though batches were done: all would be read again")
        return
    _metadata(checkpoint / "metadata")
    _without_gaps(checkpoint / "offsets", offsets)
    _without_gaps(checkpoint / "commits", commits)
    done = commits[-1] if commits else -1
    last = offsets[-1] if offsets else -1
    for number in offsets:
        _offset(checkpoint / "offsets" / str(number), number, done, noted)
    for number in commits:
        _versioned(checkpoint / "commits" / str(number))
    if last < done:
        raise Damaged(checkpoint / "offsets" / str(done), "is missing, though its batch is done")
    if (given := max(noted, default=-1)) > last:
        raise Damaged(checkpoint / "offsets" / str(given), "is missing, though sinks were given its batch")
    if last > done + 1:
        raise Damaged(checkpoint / "commits" / str(done + 1), "is missing, though a later batch was begun")
    _sources(checkpoint, checkpoint / "offsets" / str(last), noted.get(last))
    for folder, files in _stores(checkpoint / "state", depth=3):
        _store(folder, files, done + 1)


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdigit())


def _without_gaps(folder: Path, numbers: list[int]) -> None:
    for before, number in pairwise(numbers):
        if number != before + 1:
            raise Damaged(folder / str(before + 1), "is missing, though the one before and the one behind are there")


def _metadata(path: Path) -> None:
    if not path.is_file():
        raise Damaged(path, "is missing")
    try:
        assert json.loads(path.read_bytes())["id"]
    except (ValueError, KeyError, TypeError, AssertionError):
        raise Damaged(path, _how(path)) from None


def _versioned(path: Path) -> list[str]:
    """The lines behind the version, the first of which is JSON."""
    try:
        version, *lines = path.read_bytes().decode().split("\n")
        if not re.fullmatch(r"v\d+", version):
            raise ValueError
        if lines and lines[0]:
            json.loads(lines[0])
    except ValueError:
        raise Damaged(path, _how(path)) from None
    return lines


def _offset(path: Path, number: int, done: int, noted: Mapping[int, Entry]) -> None:
    try:
        lines = _versioned(path)
        if len(lines) < 2 or not all(line.strip() for line in lines):
            raise Damaged(path, _how(path))
        if number in noted and len(lines) - 1 != len(noted[number].sources):
            raise Damaged(path, f"names {len(lines) - 1} sources, and the query reads {len(noted[number].sources)}")
    except Damaged as found:
        if number > done and number not in noted:
            hint = f"no sink was given this batch yet: delete that file and .{number}.crc beside it; it is planned anew"
            raise Damaged(found.path, found.what, hint) from None
        raise


def _how(path: Path) -> str:
    """What is to be seen of the damage."""
    content = path.read_bytes()
    if not content:
        return "is empty"
    return "holds only zeros" if not content.strip(b"\0") else "is cut short or not what Spark writes"


def _sources(checkpoint: Path, path: Path, entry: Entry | None) -> None:
    """What sources keep besides: without it, files that were read would be read again."""
    lines = _versioned(path)[1:]
    folders = [folder for _, folder, _ in entry.sources] if entry else list(range(len(lines)))
    for folder, line in zip(folders, lines, strict=False):
        kept = checkpoint / "sources" / str(folder)
        found = re.fullmatch(r'\{"logOffset":(-?\d+)\}', line)
        if found is None or int(found[1]) < 0:
            first = kept / "0"
            if first.is_file() and (not first.read_bytes().strip(b"\0")):
                raise Damaged(first, _how(first))
            continue
        last = int(found[1])
        names = {e.name for e in kept.iterdir()} if kept.is_dir() else set()
        batch = last
        while f"{batch}.compact" not in names and batch >= 0:
            if str(batch) not in names:
                raise Damaged(kept / str(batch), "is missing: the files it lists would be read again")
            _versioned(kept / str(batch))
            batch -= 1
        if batch >= 0:
            _versioned(kept / f"{batch}.compact")


def _stores(folder: Path, depth: int) -> Iterator[tuple[Path, list[Path]]]:
    if not folder.is_dir() or depth < 0:
        return
    entries = [e for e in folder.iterdir() if not e.name.startswith((".", "_"))]
    files = [e for e in entries if _STATE.match(e.name)]
    if files:
        yield folder, files
        return
    for entry in sorted(entries, key=lambda e: e.name):
        yield from _stores(entry, depth - 1)


def _store(folder: Path, files: list[Path], version: int) -> None:
    """The state after the last batch that is done: its newest whole copy, and every change since."""
    by_version: dict[int, dict[str, Path]] = {}
    for file in files:
        found = _STATE.match(file.name)
        assert found is not None
        by_version.setdefault(int(found[1]), {})[found[2]] = file
    wanted = version
    while wanted > 0:
        there = by_version.get(wanted, {})
        whole = there.get("zip") or there.get("snapshot")
        change = there.get("changelog") or there.get("delta")
        if whole is not None:
            _whole(whole)
            return
        if change is None:
            raise Damaged(folder / f"{wanted}.changelog", "is missing: without it the state cannot be put together")
        _change(change)
        wanted -= 1


def _change(path: Path) -> None:
    head = _head(path)
    if not head.strip(b"\0"):
        raise Damaged(path, "is empty" if not head else "holds only zeros")


def _whole(path: Path) -> None:
    _change(path)
    if path.name.endswith(".zip") and isinstance(path, Path) and not zipfile.is_zipfile(path):
        raise Damaged(path, "is cut short")


def _head(path: Path) -> bytes:
    if not isinstance(path, Path):  # not here: what it holds would have to be fetched
        return b"?" if path.size() else b""  # type: ignore[unreachable]
    with path.open("rb") as file:
        return file.read(4096)
