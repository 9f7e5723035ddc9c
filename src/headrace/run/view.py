"""What a user sees of a run: one live line on a terminal, plain lines elsewhere, or events as JSON."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from typing import IO, Any

from headrace.errors import HeadraceError
from headrace.observe.events import Event
from headrace.observe.progress import Totals, show
from headrace.run.room import no_room

EVERY = 10.0
"""Seconds between two lines of progress where there is no terminal."""
REDRAW = 0.2
_REAL_TIME = "running in real time, numbers come with the first checkpoint"
_STAGES = {"starting": "starting Spark", "started": "running, the first batch is under way"}


class View:
    """Writes to the two standard streams; answers to one, everything else to the other."""

    def __init__(
        self,
        *,
        as_json: bool = False,
        quiet: bool = False,
        out: IO[str] | None = None,
        err: IO[str] | None = None,
        live: bool | None = None,
    ) -> None:
        self._out, self._err = out or sys.stdout, err or sys.stderr
        self._json, self._quiet = as_json, quiet
        self._live = (self._err.isatty() if live is None else live) and not quiet and not as_json
        self._drawn = ""
        self._last = time.monotonic()
        self._shown_batches = 0
        self._stage, self._since = "starting", self._last
        self._lock = threading.RLock()

    def output(self, line: str) -> None:
        """A line a sink prints."""
        with self._lock:
            self._clear()
            print(line, file=self._err if self._json else self._out, flush=True)
            self._redraw()

    def event(self, event: Event) -> None:
        """Something that happened."""
        if event["event"] in _STAGES:
            real_time = event["event"] == "started" and event.get("mode") == "real-time"
            self._stage, self._since = _REAL_TIME if real_time else _STAGES[event["event"]], time.monotonic()
        if self._json:
            with self._lock:
                print(json.dumps(event, separators=(",", ":")), file=self._out, flush=True)

    def note(self, text: str) -> None:
        """Something the user should know."""
        if self._quiet or self._json:
            return
        with self._lock:
            self._clear()
            self._print(text)
            self._redraw()

    def warn(self, text: str) -> None:
        """What somebody must do something about; said even to those who want quiet."""
        with self._lock:
            self._clear()
            self._print(text)
            self._redraw()

    def fail(self, error: HeadraceError) -> None:
        """Why the run ended; said even to those who want quiet."""
        if not self._json:
            with self._lock:
                self._clear()
                self._print(f"error: {error}")

    def tick(self, totals: Totals) -> None:
        """Shows how far the run is, if it is time to."""
        now = time.monotonic()
        if self._quiet or self._json:
            return
        with self._lock:
            if self._live and now - self._last >= REDRAW:
                self._last = now
                width = shutil.get_terminal_size().columns - 1
                self._drawn = show(totals, time.time(), width) if totals.batches else self._waiting(now)[:width]
                self._clear()
                self._redraw()
            elif not self._live and now - self._last >= EVERY and totals.batches > self._shown_batches:
                self._last, self._shown_batches = now, totals.batches
                self._print(show(totals, time.time()))

    def _waiting(self, now: float) -> str:
        """What there is to wait for while there are no numbers yet, and for how long it has been so."""
        return f"{self._stage} … {now - self._since:.0f} s"

    def ended(self, how: str, totals: Totals, stopped: Mapping[str, Any] | None) -> None:
        """The last line of a run."""
        self._drawn = self._drawn and ""
        self.note(f"{how} · {show_final(totals)}")
        for query, point in ((stopped or {}).get("resume") or {}).items():
            self.note(f"  {query} will resume {show_resume(point)}")

    def close(self) -> None:
        """Leaves the terminal as it was."""
        with self._lock:
            self._clear()
            self._drawn = ""

    def _clear(self) -> None:
        if self._live:
            self._print("\r\x1b[2K", end="")

    def _redraw(self) -> None:
        if self._live and self._drawn:
            self._print(self._drawn, end="")

    def _print(self, text: str, end: str = "\n") -> None:
        try:
            print(text, end=end, file=self._err, flush=True)
        except OSError as error:
            if not no_room(error):  # a run does not end because it cannot say how far it is
                raise


def show_final(totals: Totals) -> str:
    """The numbers of a run that has ended.

    >>> show_final(Totals(rows_in=10, rows_out=2, batches=1))
    'in 10 · out 2 · 1 batch'
    """
    return " · ".join(part for part in show(totals, 0.0).split(" · ") if not part.endswith("/s"))


def show_resume(point: Mapping[str, Any] | None) -> str:
    """Where a query goes on, in words.

    >>> show_resume({"batch": 4, "offsets": [{"tweets": {"0": 12}}]})
    'after batch 4, at {"tweets":{"0":12}}'
    """
    if point is None:
        return "at the beginning"
    at = ", ".join(json.dumps(offset, separators=(",", ":")) for offset in point["offsets"])
    return f"after batch {point['batch']}, at {at}"
