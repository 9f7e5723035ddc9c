"""A live run whose sources fall silent: its windows are still given, once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headrace.observe import events
from headrace.run.home import home_of
from tests.waiting import eventually, tail

FLOW = """\
flow: silent
sources:
  busy:
    files: {path: busy}
    format: json
    schema: k STRING, at TIMESTAMP
    time: {column: at, watermark: 5 seconds, idle: 2 seconds}
  quiet:
    files: {path: quiet}
    format: json
    schema: k STRING, at TIMESTAMP
    time: {column: at, watermark: 5 seconds, idle: 2 seconds}
steps:
  both:
    from: [busy, quiet]
    union: {}
  tens:
    from: both
    aggregate: {by: k, window: {tumbling: 10 s}, compute: {n: count(*)}}
sinks:
  out:
    from: tens
    sqlite: {path: out.db, table: tens}
"""


def test_windows_are_given_though_one_source_never_speaks_and_the_other_falls_silent(tmp_path: Path) -> None:
    for folder in ("busy", "quiet"):
        (tmp_path / folder).mkdir()
    (tmp_path / "headrace.toml").write_text('[spark]\nmaster = "local[2]"\n')
    (tmp_path / "silent.yaml").write_text(FLOW)
    home = home_of(tmp_path / ".headrace", "silent")
    spoken: list[str] = []

    def speak() -> None:
        at = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=10 * len(spoken))).isoformat()
        draft = tmp_path / "busy" / f".{len(spoken)}"
        draft.write_text(json.dumps({"k": "a", "at": at}))
        draft.rename(tmp_path / "busy" / f"{len(spoken)}.json")
        spoken.append(at[:19])

    def told(event: str) -> list[datetime]:
        found = events.read(home.events) if home.events.exists() else ()
        return [datetime.fromisoformat(e["at"]) for e in found if e["event"] == event]

    def busy() -> bool:
        """Whether time was moved twice while one of them goes on to speak."""
        if told("started"):
            speak()
        return len(told("idle")) >= 2

    def answers() -> list[tuple[str, int]]:
        if not (tmp_path / "out.db").exists():
            return []
        with closing(sqlite3.connect(tmp_path / "out.db")) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'tens'").fetchall():
                return []
            found = database.execute("SELECT window_start, n FROM tens")
            return sorted((str(start)[:19].replace(" ", "T"), n) for start, n in found)

    run = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli.main", "run", "silent.yaml"],
        cwd=tmp_path,
        env={**os.environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        eventually(busy, 240, every=0.1, diagnose=lambda: tail(home.log))
        moves = told("idle")
        least = sum(2.0 * 2**n for n in range(1, len(moves)))
        assert moves[-1] - told("started")[0] >= timedelta(seconds=least), "each time after twice the silence"
        eventually(lambda: answers() == [(at, 1) for at in spoken], 240, every=0.5, diagnose=lambda: tail(home.log))
        assert not told("failed")
        status = [sys.executable, "-m", "headrace.cli.main", "status", "silent", "--json"]
        said = json.loads(subprocess.run(status, cwd=tmp_path, capture_output=True, check=True, text=True).stdout)
        newest = datetime.fromisoformat(spoken[-1]) - timedelta(seconds=5)
        assert said["progress"]["watermarks"] == {"busy": f"{newest.isoformat()}.000Z"}, "the newest, less its delay"
    finally:
        run.send_signal(signal.SIGINT)
        run.wait(120)
