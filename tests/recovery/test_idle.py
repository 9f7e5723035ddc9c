"""A live run whose sources fall silent: its windows are still given, once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
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
    rows = [{"k": "a", "at": f"2026-01-01T00:00:{s:02d}Z"} for s in (1, 2, 11, 19)]
    (tmp_path / "busy" / "0.json").write_text("\n".join(map(json.dumps, rows)))
    home = home_of(tmp_path / ".headrace", "silent")

    def answers() -> list[tuple[str, int]]:
        if not (tmp_path / "out.db").exists():
            return []
        with closing(sqlite3.connect(tmp_path / "out.db")) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'tens'").fetchall():
                return []
            return sorted((str(start)[17:19], n) for start, n in database.execute("SELECT window_start, n FROM tens"))

    run = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli.main", "run", "silent.yaml"],
        cwd=tmp_path,
        env={**os.environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        eventually(lambda: answers() == [("00", 2), ("10", 2)], 240, every=0.5, diagnose=lambda: tail(home.log))
        assert [e for e in events.read(home.events) if e["event"] == "idle"], "time was moved on by us"
        assert not [e for e in events.read(home.events) if e["event"] == "failed"]
        status = [sys.executable, "-m", "headrace.cli.main", "status", "silent", "--json"]
        said = json.loads(subprocess.run(status, cwd=tmp_path, capture_output=True, check=True, text=True).stdout)
        assert said["progress"]["watermarks"] == {"busy": "2026-01-01T00:00:14.000Z"}, "the newest, less its delay"
    finally:
        run.send_signal(signal.SIGINT)
        run.wait(120)
