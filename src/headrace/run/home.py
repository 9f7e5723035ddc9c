"""A run's home: the folder that holds everything one flow's run needs to go on where it was.

.headrace/runs/<flow>/
  run.json         what was asked, what runs, how it ended          events.jsonl   what happened
  flow.yaml        the flow's text as it was started                 logs/          the driver's log
  checkpoints/     one folder per query; Spark's own                 places/        one folder per source and sink
  journal/         what each batch of each query read                dead-letters/  records that could not be taken
  ledger.db        what became of every record
  checkpoints.at   where they are, if not here
  lock             held as long as a supervisor or its driver lives  scratch/       may be deleted at any time
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from headrace.errors import UsageError
from headrace.observe import events
from headrace.run.process import Process
from headrace.run.remote import checkpoint_root

_ELSEWHERE = "checkpoints.at"
SPARE = "spare"
"""Behind the home on a driver's command line: it waits for its turn."""
LIVE = ("starting", "running", "retrying")
"""The statuses of a run whose supervisor should be there."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the user asked of this run, beyond the flow."""

    mode: str | None = None
    until_done: bool = False
    start: str | None = None
    stop: str | None = None
    master: str | None = None
    bootstrap: str | None = None
    restarts: int = 5
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What was given with --param; kept when the run is resumed."""
    outage: float = 600.0
    """Seconds an outside system may be away before that counts as a failure."""
    spare: bool = False
    """Whether a second driver stands by, with Spark up, for when the first dies."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """`run.json`."""

    name: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    """Identifies this life of the run; a fresh start has another."""
    file: str
    root: str
    hash: str
    mode: str
    asked: Asked = Asked()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The value of every parameter of the flow, wherever it came from."""
    status: str = "starting"
    since: str = field(default_factory=events.now)
    drained: bool = False
    restarts: int = 0
    batch_runs: int = 0
    parallelism: int | None = None
    """Into how many tasks a batch is cut that is not cut by its topic; None: no driver was there yet."""
    supervisor: Process | None = None
    driver: Process | None = None
    queries: Mapping[str, Any] = field(default_factory=dict)
    """What each query's checkpoint was made by: see `headrace.run.change`."""
    failure: Mapping[str, Any] | None = None
    restored: bool = False
    """Whether it began with checkpoints at an address: then there must be some."""
    was_real_time: bool = False
    """Whether it has ever been in real-time mode: its sinks may have rows more than once then, whatever came after."""

    @property
    def shown_status(self) -> str:
        """The status, or "died" if whoever should keep it up to date is gone."""
        gone = self.supervisor is None or not self.supervisor.alive
        return "died" if self.status in LIVE and gone else self.status

    def at(self, status: str, **changes: Any) -> Record:
        """The record with another status, from now on."""
        since = self.since if status == self.status else events.now()
        return replace(self, status=status, since=since, **changes)

    def render(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def parse(cls, text: str) -> Record:
        given = json.loads(text)
        known = {f.name for f in fields(cls)}
        values = {k: v for k, v in given.items() if k in known}
        values["asked"] = Asked(**values.get("asked", {}))
        for name in ("supervisor", "driver"):
            values[name] = Process(**values[name]) if values.get(name) else None
        return cls(**values)


@dataclass(frozen=True)
class Home:
    """The folder of one run, and the names of what is in it."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def record_file(self) -> Path:
        return self.path / "run.json"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def log(self) -> Path:
        return self.path / "logs" / "driver.log"

    @property
    def scratch(self) -> Path:
        return self.path / "scratch"

    def checkpoint(self, query: str) -> Path:
        """Of one query; here, or where `[checkpoints] path` of the project put it when the run began."""
        elsewhere = self.path / _ELSEWHERE
        root = checkpoint_root(elsewhere.read_text(encoding="utf-8").strip()) if elsewhere.exists() else None
        return (root or self.path / "checkpoints") / query

    @property
    def has_run(self) -> bool:
        """Whether a batch was ever begun here."""
        return any((self.path / "journal").glob("*"))

    def keep_checkpoints_at(self, root: str | None, life: str) -> None:
        """Puts the checkpoints of a run that begins somewhere else than here; another life finds none of them."""
        if root is not None:
            (self.path / _ELSEWHERE).write_text(f"{root.rstrip('/')}/{self.name}-{life}\n", encoding="utf-8")

    def go_on_with_checkpoints_at(self, address: str) -> None:
        """Takes over checkpoints that are somewhere else, in place."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / _ELSEWHERE).write_text(f"{address}\n", encoding="utf-8")

    def keep_checkpoints_here(self) -> None:
        (self.path / _ELSEWHERE).unlink(missing_ok=True)

    def journal(self, query: str) -> Path:
        return self.path / "journal" / f"{query}.jsonl"

    def place(self, step: str) -> Path:
        """The folder of a source or sink."""
        return self.path / "places" / step

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.db"

    def batch(self, number: int) -> Path:
        """The folder of one run in batch mode; its own, so that sinks do not take its rows for those of another."""
        return self.path / "batches" / str(number)

    def text(self, suffix: str) -> Path:
        """The copy of the flow's text."""
        return self.path / f"flow{suffix}"

    @property
    def exists(self) -> bool:
        return self.record_file.is_file()

    def make(self) -> None:
        for folder in ("checkpoints", "places", "logs", "scratch"):
            (self.path / folder).mkdir(parents=True, exist_ok=True)

    def read(self) -> Record:
        try:
            return Record.parse(self.record_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UsageError(f'there is no run "{self.name}"', hint="headrace list shows the runs there are") from None
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(
                f'the record of run "{self.name}" cannot be read: {error}',
                detail=str(self.record_file),
                hint="headrace run --fresh sets the old home aside",
            ) from None

    def write(self, record: Record) -> None:
        """Replaces the record at once: a reader sees the old one or the new one."""
        draft = self.record_file.with_name(f".run.json.{os.getpid()}")
        with draft.open("w", encoding="utf-8") as file:
            file.write(record.render())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.record_file)

    def update(self, change: Callable[[Record], Record]) -> Record:
        """Reads, changes and writes the record; the supervisor and the driver may both do so."""
        with (self.path / ".record.lock").open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            record = change(self.read())
            self.write(record)
            return record

    def lock(self) -> IO[str]:
        """Takes the run for this process and those it hands the file to; refused while another one has it."""
        self.path.mkdir(parents=True, exist_ok=True)
        handle = (self.path / "lock").open("a+")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            raise self._taken() from None
        return handle

    def _taken(self) -> UsageError:
        try:
            record = self.read()
        except UsageError:
            return UsageError(f'run "{self.name}" is being started by another process')
        who = next((p for p in (record.supervisor, record.driver) if p and p.alive), None)
        number = f" (process {who.pid})" if who else ""
        return UsageError(f'flow "{self.name}" is running already{number}', hint=f"headrace stop {self.name}")

    def set_aside(self) -> Path:
        """Moves everything into a folder of its own beside this one, named by the time; nothing is deleted."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        aside = self.path.with_name(f"{self.name}.{stamp}")
        number = 1
        while aside.exists():
            aside, number = self.path.with_name(f"{self.name}.{stamp}-{number}"), number + 1
        aside.mkdir()
        for entry in sorted(self.path.iterdir()):
            if entry.name != "lock":  # it is held, and must stay the same file
                entry.rename(aside / entry.name)
        return aside


@contextmanager
def locked(home: Home) -> Iterator[IO[str]]:
    """Holds a run while something is done with it."""
    handle = home.lock()
    try:
        yield handle
    finally:
        handle.close()


def runs_folder(project_home: Path) -> Path:
    """Where the homes of a project's runs are."""
    return project_home / "runs"


def home_of(project_home: Path, flow: str) -> Home:
    """The home of a flow's run, whether or not there is one."""
    return Home(runs_folder(project_home) / flow)
