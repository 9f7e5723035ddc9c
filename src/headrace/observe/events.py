"""A run's events: one JSON object per line, appended by the supervisor and the driver, followed by anybody.

Every event has `event` (its kind) and `at` (UTC). A reader never sees half a line; what cannot be read is
left out, because a file that a crash cut short must not hide the rest.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Event = Mapping[str, Any]

KINDS = (
    "starting",  # a driver was spawned
    "session",  # its Spark has started
    "started",  # its queries run
    "spare",  # a second driver is ready for its turn
    "progress",  # a batch was committed
    "dead-letters",  # a batch had records that could not be taken; they are kept
    "failed",  # a driver ended with an error
    "retrying",  # it will be tried again
    "restarted",  # it runs again; `seconds` since it failed
    "recovered",  # the first batch after that is committed; `seconds` since it failed
    "idle",  # a source is silent, and time was moved on without it
    "lost",  # records were deleted before they were read
    "expiring",  # records that are not read yet will be deleted soon
    "draining",  # the input has ended, the last windows are closed
    "stopped",  # ended on request; `resume` says where it goes on
    "finished",  # everything there was is done
    "gave-up",  # no further try
)

LARGEST = 64 * 2**20
"""A file beyond this is set aside as `events.1.jsonl`; a day of two batches a second is about as much."""


def now() -> str:
    """The time as events carry it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def append(path: Path, event: str, **fields: Any) -> dict[str, Any]:
    """Adds one event and returns it. A single write in append mode: lines of two processes do not mix."""
    assert event in KINDS, f"unlisted event {event!r}"
    record = {"event": event, "at": now(), **fields}
    append_line(path, json.dumps(record, separators=(",", ":"), default=str))
    return record


def append_line(path: Path, text: str, *, durable: bool = False) -> None:
    """Adds a line in a single write; what a crash or a full disk cut short is ended first, and skipped by readers."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        size = os.fstat(handle).st_size
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        line = (b"\n" if torn else b"") + text.encode() + b"\n"
        if os.write(handle, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))  # there was room for a part of it
        if durable:
            os.fsync(handle)
    finally:
        os.close(handle)


def rotate(path: Path, largest: int = LARGEST) -> bool:
    """Sets a grown file aside; the one set aside before it goes. True if it was done."""
    try:
        if path.stat().st_size <= largest:
            return False
    except FileNotFoundError:
        return False
    path.replace(path.with_name(f"{path.stem}.1{path.suffix}"))
    return True


def parse(line: bytes) -> Event | None:
    """One line as an event; None for what is not one.

    >>> parse(b'{"event": "started", "at": "2026-01-01T00:00:00.000Z"}')["event"], parse(b'{"ev')
    ('started', None)
    """
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and isinstance(value.get("event"), str) else None


def read(path: Path) -> Iterator[Event]:
    """Every event of a file, oldest first."""
    yield from Follower(path).poll()


def last(path: Path, *kinds: str, within: int = 2**18) -> Event | None:
    """The newest event of one of these kinds, looked for in the file's last bytes only."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - within))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        event = parse(line)
        if event is not None and (not kinds or event["event"] in kinds):
            return event
    return None


class Follower:
    """Reads what is added to a file of events, also after the file was set aside for a new one."""

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self._path = path
        self._inode: int | None = None
        self._position = 0
        self._rest = b""
        if from_end and path.exists():
            status = path.stat()
            self._inode, self._position = status.st_ino, status.st_size

    def poll(self) -> list[Event]:
        """The events that came since the last call; never waits."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return []
        with file:
            status = os.fstat(file.fileno())
            events: list[Event] = []
            if self._inode not in (None, status.st_ino):
                events, self._position, self._rest = self._leftover(), 0, b""
            self._inode = status.st_ino
            file.seek(self._position)
            events += self._take(file.read())
            self._position = file.tell()
        return events

    def _leftover(self) -> list[Event]:
        """What was written to the old file between our last look and its being set aside."""
        aside = self._path.with_name(f"{self._path.stem}.1{self._path.suffix}")
        try:
            with aside.open("rb") as file:
                if os.fstat(file.fileno()).st_ino != self._inode:
                    return []
                file.seek(self._position)
                return self._take(file.read())
        except FileNotFoundError:
            return []

    def _take(self, data: bytes) -> list[Event]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [event for event in map(parse, lines) if event is not None]
