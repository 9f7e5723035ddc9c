"""What a user sees of several runs: a line for each on a terminal, lines with names elsewhere, or events as JSON."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping
from typing import IO

from headrace.observe.events import Event
from headrace.observe.progress import Totals, show
from headrace.run.view import EVERY, REDRAW, show_final


class Board:
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
        self._drawn: list[str] = []
        self._on_screen = 0
        self._last = time.monotonic()
        self._shown: dict[str, int] = {}

    def event(self, run: str, event: Event) -> None:
        """Something that happened in a run."""
        if self._json:
            print(json.dumps({"run": run, **event}, separators=(",", ":")), file=self._out, flush=True)
        elif event["event"] in ("started", "retrying", "restarted"):
            why = f": {event['why']}" if event.get("why") else ""
            self.note(f"{run} {event['event']}{why}")

    def output(self, run: str, line: str) -> None:
        """A line that a run printed: its sinks', or why it failed."""
        self._clear()
        print(f"{run} | {line}", file=self._err if self._json or line.startswith("error:") else self._out, flush=True)
        self._redraw()

    def note(self, text: str) -> None:
        """Something the user should know."""
        if self._quiet or self._json:
            return
        self._clear()
        print(text, file=self._err, flush=True)
        self._redraw()

    def ended(self, run: str, how: str, totals: Totals) -> None:
        """The last line of a run."""
        self.note(f"{run} {how} · {show_final(totals)}")

    def tick(self, runs: Mapping[str, tuple[str, Totals]]) -> None:
        """Shows how far all are, if it is time to."""
        now = time.monotonic()
        if self._quiet or self._json or now - self._last < (REDRAW if self._live else EVERY):
            return
        self._last = now
        wide = max(len(name) for name in runs)
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            lines = (f"{n:<{wide}}  {s:<11}  {show(t, time.time()) if t.batches else ''}" for n, (s, t) in runs.items())
            self._drawn = [line[:width].rstrip() for line in lines]
            self._clear()
            self._redraw()
            return
        for name, (_, totals) in runs.items():
            if totals.batches > self._shown.get(name, 0):
                self._shown[name] = totals.batches
                print(f"{name:<{wide}}  {show(totals, time.time())}", file=self._err, flush=True)

    def close(self) -> None:
        """Leaves the terminal as it was."""
        self._clear()
        self._drawn = []

    def _clear(self) -> None:
        if self._live and self._on_screen:
            print("\r\x1b[2K" + "\x1b[1A\x1b[2K" * (self._on_screen - 1), end="", file=self._err, flush=True)
            self._on_screen = 0

    def _redraw(self) -> None:
        if self._live and self._drawn:
            print("\n".join(self._drawn), end="", file=self._err, flush=True)
            self._on_screen = len(self._drawn)
