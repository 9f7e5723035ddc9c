"""A flow moved to local parts of its own: nothing it reads or writes afterwards is the user's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headrace.connectors.files import located
from headrace.errors import FlowError, UsageError
from headrace.model import Flow, Sink, Source
from headrace.options import Secret
from headrace.project import Project
from headrace.run.home import Home, home_of

if TYPE_CHECKING:
    from headrace.compile.plan import Plan

DATABASE = "HEADRACE_CHAOS_DATABASE"
"""The variable by which the moved flow finds its database, so that no address is written down."""
_LARGEST = 10 * 2**20
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "out", "build", "dist"})


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A flow in the scratch project."""

    original: Flow
    flow: Flow
    file: Path
    project: Project

    @cached_property
    def plan(self) -> Plan:
        from headrace.compile.planner import plan

        return plan(self.flow)

    @property
    def home(self) -> Home:
        return home_of(self.project.home, self.flow.name)

    @property
    def streams(self) -> tuple[Source, ...]:
        return tuple(s for s in self.flow.sources if s.table is None)

    @property
    def ends(self) -> tuple[Source | Sink, ...]:
        return (*self.flow.sources, *self.flow.sinks)

    def inbox(self, source: Source) -> Path:
        """The folder a file source reads from."""
        return self.project.root / str(source.options.path)


def move(file: Path, root: Path, *, namespace: str) -> Moved:
    """Copies a flow's project into the scratch one and points its sources and sinks to places there."""
    from headrace.check import load
    from headrace.declare.write import write

    original, project = load(file), Project.find(file.resolve().parent)
    flow = replace(
        original,
        sources=tuple(_source(s) for s in original.sources),
        sinks=tuple(_sink(s, original.name, namespace) for s in original.sinks),
    )
    _copy(project, file.resolve().parent, root)
    beside = root / file.resolve().parent.relative_to(project.root)
    beside.mkdir(parents=True, exist_ok=True)
    moved = beside / f"chaos_{flow.name}.yaml"
    try:
        moved.write_text(write(flow), encoding="utf-8")
        load(moved)
    except FlowError as error:
        raise UsageError(f'flow "{flow.name}" cannot be moved to a scratch project', detail=str(error)) from None
    for source in flow.sources:
        if source.connector == "files" and source.table is None:
            (root / str(source.options.path)).mkdir(parents=True, exist_ok=True)
    return Moved(original=original, flow=flow, file=moved, project=Project.find(root))


def _source(source: Source) -> Source:
    if source.connector == "socket":
        raise UsageError(f'source "{source.name}" (socket) repeats nothing, so what is lost cannot be told')
    if source.connector == "kafka":
        return replace(source, options=source.options.model_copy(update={"bootstrap": None}))
    if source.connector == "files" and source.table is None:
        changes = {"path": f"chaos/in/{source.name}", "after": "keep", "archive": None}
        return replace(source, options=source.options.model_copy(update=changes))
    return source


def _sink(sink: Sink, flow: str, namespace: str) -> Sink:
    changes: dict[str, Any] = {}
    if sink.connector == "kafka":
        changes = {"bootstrap": None, "partitions": sink.options.partitions or 2}
    elif sink.connector == "files":
        changes = {"path": f"chaos/out/{flow}/{sink.name}"}
    elif sink.connector == "delta":
        changes = {"path": f"chaos/out/{flow}/{sink.name}", "storage": {}}
    elif sink.connector == "sqlite":
        changes = {"path": f"chaos/out/{flow}.db"}
    elif sink.connector == "postgresql":
        if not os.environ.get(DATABASE):
            raise UsageError(
                f'sink "{sink.name}" needs a PostgreSQL that may be written to',
                hint="--database postgresql://… names one; a namespace of its own is made there, and dropped",
            )
        changes = {"url": Secret(f"${{env:{DATABASE}}}"), "namespace": namespace}
    return replace(sink, options=sink.options.model_copy(update=changes))


def _copy(project: Project, beside: Path, root: Path) -> None:
    """The project without what is made, hidden or large; without a headrace.toml only what lies beside the flow."""
    whole = (project.root / "headrace.toml").is_file()

    def skipped(folder: str, names: list[str]) -> set[str]:
        found = {n for n in names if n.startswith(".") or n in _SKIPPED}
        return found | {n for n in names if (p := Path(folder, n)).is_file() and p.stat().st_size > _LARGEST}

    if whole:
        shutil.copytree(project.root, root, ignore=skipped, dirs_exist_ok=True)
        settings = (root / "headrace.toml").read_text(encoding="utf-8")
        # Another cluster's address or a checkpoint's place is the user's, and none of ours.
        kept = settings if "[kafka]" not in settings and "[checkpoints]" not in settings else ""
        (root / "headrace.toml").write_text(kept, encoding="utf-8")
        return
    root.mkdir(parents=True, exist_ok=True)
    for file in beside.iterdir():
        if file.is_file() and file.suffix in (".py", ".json", ".csv") and file.stat().st_size <= _LARGEST:
            shutil.copy(file, root / file.name)
    (root / "headrace.toml").write_text("", encoding="utf-8")


@contextmanager
def database_namespace(url: str | None) -> Iterator[str]:
    """A namespace of its own in a database, gone afterwards."""
    name = f"headrace_chaos_{uuid4().hex[:8]}"
    if url is None:
        yield name
        return
    import psycopg

    os.environ[DATABASE] = url
    with psycopg.connect(url, autocommit=True) as database:
        database.execute(f'CREATE SCHEMA "{name}"')
    try:
        yield name
    finally:
        with psycopg.connect(url, autocommit=True) as database:
            database.execute(f'DROP SCHEMA "{name}" CASCADE')


def files_given(moved: Moved, source: Source) -> list[Path]:
    """The user's own files of a source, to be copied in."""
    from headrace.connectors.base import Place

    original = moved.original[source.name]
    assert isinstance(original, Source)
    base = Project.find().root
    path = located(str(original.options.path), Place(step=source.name, flow="", home=base, base=base))
    if "://" in path:
        return []
    found = Path(path)
    return sorted(f for f in (found.iterdir() if found.is_dir() else [found]) if f.is_file())
