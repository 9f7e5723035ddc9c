"""A live run whose sources fall silent: its windows are still given, once; straight, stopped and killed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headrace.observe import events
from headrace.run.home import home_of
from tests.commands import place_of_work
from tests.waiting import eventually, tail

FLOW = """\
flow: silent
sources:
  busy:
    files: {path: busy}
    format: json
    schema: k STRING, at TIMESTAMP
    time: {column: at, watermark: 1 second, idle: 1 second}
  quiet:
    files: {path: quiet}
    format: json
    schema: k STRING, at TIMESTAMP
    time: {column: at, watermark: 1 second, idle: 1 second}
steps:
  both:
    from: [busy, quiet]
    union: {}
  pairs:
    from: both
    aggregate: {by: k, window: {tumbling: 2 s}, compute: {n: count(*)}}
sinks:
  out:
    from: pairs
    sqlite: {path: out.db, table: pairs}
"""


def test_windows_are_given_though_one_source_never_speaks_and_the_other_falls_silent(tmp_path: Path) -> None:
    for folder in ("busy", "quiet"):
        (tmp_path / folder).mkdir()
    (tmp_path / "headrace.toml").write_text('[spark]\nmaster = "local[2]"\n')
    (tmp_path / "silent.yaml").write_text(FLOW)
    home = home_of(tmp_path / ".headrace", "silent")
    spoken: list[str] = []
    told_at, spoken_at = datetime(2026, 1, 1, tzinfo=UTC), time.monotonic()

    def speak() -> None:
        """A record of the next two seconds, behind as many as went by the clock, which goes on while all are silent."""
        nonlocal told_at, spoken_at
        told_at += timedelta(seconds=2 * (1 + (time.monotonic() - spoken_at) // 2))
        spoken_at, at = time.monotonic(), told_at.isoformat()
        draft = tmp_path / "busy" / f".{len(spoken)}"
        draft.write_text(json.dumps({"k": "a", "at": at}))
        draft.rename(tmp_path / "busy" / f"{len(spoken)}.json")
        spoken.append(at[:19])

    def told(event: str) -> list[datetime]:
        found = events.read(home.events) if home.events.exists() else ()
        return [datetime.fromisoformat(e["at"]) for e in found if e["event"] == event]

    def spoken_past(moves: int) -> bool:
        """Whether time was moved so often while one of them goes on to speak."""
        if told("started"):
            speak()
        return len(told("idle")) >= moves

    def answers() -> list[tuple[str, int]]:
        if not (tmp_path / "out.db").exists():
            return []
        with closing(sqlite3.connect(tmp_path / "out.db")) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'pairs'").fetchall():
                return []
            found = database.execute("SELECT window_start, n FROM pairs")
            return sorted((str(start)[:19].replace(" ", "T"), n) for start, n in found)

    def answered() -> None:
        eventually(lambda: answers() == [(at, 1) for at in spoken], 240, every=0.5, diagnose=lambda: tail(home.log))

    with place_of_work(tmp_path) as place:
        run = place.start("run", "silent.yaml")
        eventually(lambda: spoken_past(2), 240, every=0.1, diagnose=lambda: tail(home.log))
        moves = told("idle")
        least = sum(1.0 * 2**n for n in range(1, len(moves)))
        assert moves[-1] - told("started")[0] >= timedelta(seconds=least), "each time after twice the silence"
        answered()
        said = json.loads(place.run("status", "silent", "--json").out)
        newest = datetime.fromisoformat(spoken[-1]) - timedelta(seconds=1)
        assert said["progress"]["watermarks"] == {"busy": f"{newest.isoformat()}.000Z"}, "the newest, less its delay"

        place.run("stop", "silent")
        place.ended(run)
        speak()
        run = place.start("run", "silent.yaml")
        before = len(told("idle"))
        eventually(lambda: spoken_past(before + 1), 240, every=0.1, diagnose=lambda: tail(home.log))
        driver = home.read().driver
        assert driver is not None
        os.kill(driver.pid, signal.SIGKILL)
        speak()
        answered()
        assert [e["why"] for e in events.read(home.events) if e["event"] == "retrying"] == [
            "the driver was killed by signal 9"
        ]
        run.send_signal(signal.SIGINT)
        place.ended(run)
    assert not told("failed")
