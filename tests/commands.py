"""The `headrace` command run as anybody would, in a folder of its own, with everything it starts accounted for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from tests.waiting import eventually

HEADRACE = (sys.executable, "-m", "headrace.cli.main")


@dataclass(frozen=True)
class Said:
    """What a command that has ended had to say."""

    code: int
    out: str
    err: str


@dataclass
class Place:
    """A folder, and the commands that were run in it."""

    root: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: f"HEADRACE_TEST_{uuid4().hex}")
    """In the environment of every process that was started here, and of their children."""
    children: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *arguments: str, within: str = "") -> subprocess.Popen[str]:
        """Starts `headrace` with these arguments, in a folder below."""
        child = subprocess.Popen(
            [*HEADRACE, *arguments],
            cwd=self.root / within,
            env={**os.environ, **self.environment, self.mark: "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.children.append(child)
        return child

    def run(self, *arguments: str, within: str = "", code: int = 0) -> Said:
        """Runs `headrace` to its end, which must be the expected one."""
        return self.ended(self.start(*arguments, within=within), code)

    def ended(self, child: subprocess.Popen[str], code: int = 0, seconds: float = 540) -> Said:
        """What a started command said, once it has ended as expected."""
        out, err = child.communicate(timeout=seconds)
        assert child.returncode == code, f"{child.args} ended with {child.returncode}\n{out}\n{err}\n{self.logs()}"
        assert "Traceback" not in out + err
        return Said(child.returncode, out, err)

    def logs(self) -> str:
        """The ends of the logs of all runs here."""
        files = sorted(self.root.rglob(".headrace/runs/*/logs/driver.log"))
        return "\n".join(f"{file}:\n{file.read_text(errors='replace')[-3000:]}" for file in files)

    def processes(self) -> list[str]:
        """Whatever was started here and is still there."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                ours = self.mark.encode() in (entry / "environ").read_bytes()
                if ours and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200])
            except OSError:
                continue
        return found


@contextmanager
def place_of_work(root: Path, environment: Mapping[str, str] | None = None) -> Iterator[Place]:
    """A place whose commands are all ended afterwards; none may have left anything running."""
    root.mkdir(parents=True, exist_ok=True)
    place = Place(root, environment or {})
    try:
        yield place
    finally:
        for child in place.children:
            if child.poll() is None:
                child.kill()
            child.communicate()
        eventually(lambda: not place.processes(), 60, diagnose=lambda: "\n".join(place.processes()))
