"""Makes a flow ready to run: checked, planned, its home found or made, and what it remembers compared.

Everything a user can get wrong is said here, before Spark starts.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote

from headrace.compile.plan import Plan
from headrace.connectors.identity import name_writer
from headrace.errors import FlowError, UsageError
from headrace.goal import goal_of
from headrace.model import Delivery, Flow, Mode
from headrace.project import Project
from headrace.run import change
from headrace.run.home import Asked, Home, Record, home_of
from headrace.run.integrity import require_whole
from headrace.run.journal import Journal
from headrace.run.process import identify
from headrace.run.remote import RemotePath
from headrace.run.restore import files_read, life_of, restored

if TYPE_CHECKING:
    from headrace.declare.parameters import Values


@dataclass(frozen=True)
class Ready:
    """A run that can be supervised."""

    home: Home
    lock: IO[str]
    """Held; whoever gets the file holds the run."""
    plan: Plan
    notes: tuple[str, ...] = ()
    """What the user should know before it starts."""


def text_hash(text: bytes) -> str:
    """Identifies a flow's text."""
    return hashlib.sha256(text).hexdigest()


def _remembered(home: Home, flow: Flow) -> dict[str, Any]:
    """What a run that is resumed was given, as far as the flow still has such parameters."""
    if not flow.parameters or not home.exists:
        return {}
    known = {p.name for p in flow.parameters}
    return {name: value for name, value in home.read().asked.parameters.items() if name in known}


def project_given(project: Project, asked: Mapping[str, Any], *, strict: bool = True) -> Values:
    """The values for parameters: those asked for, over the environment's, over the project's."""
    from headrace.declare.parameters import Values

    return Values(asked=asked, environment=os.environ, project=lambda: project.settings.parameters, strict=strict)


def prepare(
    project: Project,
    file: Path,
    asked: Asked,
    *,
    fresh: bool = False,
    restore: Path | None = None,
    strict: bool = True,
) -> Ready:
    """Checks a flow and takes its run; raises FlowError with every problem, or UsageError.

    `strict`: every parameter that is asked for must be one of this flow.
    """
    from headrace.check import check
    from headrace.compile.planner import plan as make_plan
    from headrace.declare.load import declare

    given = project_given(project, asked.parameters, strict=strict)
    declared = declare(file, given=given)
    remembered = {} if fresh else _remembered(home_of(project.home, declared.flow.name), declared.flow)
    if set(remembered) - set(asked.parameters):
        declared = declare(file, given=replace(given, remembered=remembered))
        asked = replace(asked, parameters={**remembered, **asked.parameters})
    report = check(declared)
    if report.errors:
        raise FlowError(*report.errors)
    flow = report.flow
    warnings = tuple(str(p) for p in report.problems if p.warning)
    plan = make_plan(flow, mode=Mode(asked.mode) if asked.mode else None, until_done=asked.until_done)
    file = file.absolute()
    project.make_home()
    home = home_of(project.home, flow.name)
    lock = home.lock()
    try:
        notes = _take(home, project, file, plan, asked, fresh, restore)
    except BaseException:
        lock.close()
        raise
    return Ready(home, lock, plan, (*warnings, *notes, *_driven(plan, asked)))


def _driven(plan: Plan, asked: Asked) -> list[str]:
    """What the user should know of the mode that was chosen."""
    wanted = asked.mode == Mode.REAL_TIME.value or goal_of(plan.flow) is not None
    if plan.mode is Mode.MICRO_BATCH and asked.mode != Mode.MICRO_BATCH.value and asked.until_done and wanted:
        return [f"runs in micro-batches: {next(c.why for c in plan.choices if c.what == 'mode')}"]
    if plan.mode is not Mode.REAL_TIME:
        return []
    weak = [p for p in plan.promises if p.delivery is Delivery.AT_LEAST_ONCE]
    return [f'sink "{p.sink}" is written {p.delivery}: {p.because}' for p in weak]


def _take(
    home: Home, project: Project, file: Path, plan: Plan, asked: Asked, fresh: bool, restore: Path | None
) -> list[str]:
    from headrace.declare.parameters import plain

    notes: list[str] = []
    if home.exists:
        with suppress(UsageError) if fresh else nullcontext():  # a record that cannot be read is what --fresh is for
            _end_leftovers(home)
    if fresh and home.exists:
        notes.append(f'the old home is now "{home.set_aside()}"')
    if restore is not None:
        notes += restored(home, restore)
        _require_same_files(home, project, plan)
    text = file.read_bytes()
    described = change.describe(plan)
    new = Record(
        name=plan.flow.name,
        file=str(file),
        root=str(project.root),
        hash=text_hash(text),
        mode=str(plan.mode),
        asked=asked,
        parameters={name: plain(value) for name, value in plan.flow.values.items()},
        queries=described,
        restored=isinstance(restore, RemotePath),
        was_real_time=plan.mode is Mode.REAL_TIME,
    )
    if restore is not None and (life := life_of(plan.flow.name, restore)) is not None:
        new = replace(new, id=life)
    if home.exists:
        old = home.read()
        if plan.mode is not Mode.BATCH:
            notes += _compare(old, new)
            _require_whole(home, old, plan)
        new = replace(
            new,
            id=old.id,
            drained=old.drained,
            batch_runs=old.batch_runs,
            restored=old.restored or new.restored,
            was_real_time=old.was_real_time or new.was_real_time,
            parallelism=old.parallelism,
            # A batch run leaves the checkpoints alone, so what made them stays noted.
            queries=old.queries if plan.mode is Mode.BATCH else {**old.queries, **described},
        )
    if plan.mode is Mode.BATCH:
        new = replace(new, batch_runs=new.batch_runs + 1, queries={} if not home.exists else new.queries)
    if not home.exists and restore is None:
        home.keep_checkpoints_at(project.settings.checkpoints.path and _address(project), new.id)
    home.make()
    if plan.mode is not Mode.BATCH:  # each run in batch mode has names of its own
        for sink in plan.flow.sinks:
            name_writer(home.place(sink.name), new.id)
    home.text(file.suffix).write_bytes(text)
    home.write(replace(new, supervisor=identify(os.getpid())))
    return notes


def _address(project: Project) -> str:
    """Where the project wants checkpoints: relative paths are meant from its root."""
    path = project.settings.checkpoints.path or ""
    return path if "://" in path or path.startswith("file:") else str(project.root / path)


def _require_same_files(home: Home, project: Project, plan: Plan) -> None:
    """Files are known by their paths: under another one all of them would be new, and read again."""
    paths = [str(s.options.path) for s in plan.flow.sources if s.connector == "files" and s.table is None]
    bases = [p if "://" in p else f"file://{project.root / p}" for p in paths]
    bases = [re.split(r"[*?\[{]", base, maxsplit=1)[0].rstrip("/") for base in bases]
    for query in plan.queries:
        checkpoint = home.checkpoint(query.name)
        for folder in sorted(files_read(checkpoint)) if isinstance(checkpoint, Path) else ():
            if not any(unquote(folder).startswith(base) or base.startswith(unquote(folder)) for base in bases):
                raise UsageError(
                    f'query "{query.name}" has read files in "{folder}", and reads from other folders here',
                    hint="put the files under the same path: under another one all would be read again",
                )


def _require_whole(home: Home, old: Record, plan: Plan) -> None:
    """Says what is damaged before anything starts; what only Spark can reach is looked at by the driver."""
    for query in plan.queries:
        checkpoint = home.checkpoint(query.name)
        if query.name in old.queries and isinstance(checkpoint, Path):
            require_whole(query.name, checkpoint, Journal(home.journal(query.name)).entries())


def _end_leftovers(home: Home) -> None:
    """Ends what a killed driver left behind: its Java may still be closing, and must not write beside the new one."""
    driver = home.read().driver
    if driver is not None:
        driver.end_group()


def _compare(old: Record, new: Record) -> list[str]:
    if not old.queries:
        return []
    if old.drained:
        raise UsageError(
            f'run "{old.name}" was ended with --until-done: its windows are closed, and all that comes now is late',
            hint="--fresh begins anew and keeps the old home aside",
        )
    told = _parameters_changed(old.parameters, new.parameters)
    if old.hash == new.hash and old.queries == new.queries and not told:
        return []
    verdict = change.compare(old.queries, new.queries)
    if verdict.in_the_way:
        raise UsageError(
            f'flow "{old.name}" has changed, and its run cannot go on from its checkpoint',
            detail="\n          ".join([*told, *verdict.in_the_way]),
            hint="--fresh begins anew and keeps the old home aside; or undo the change",
        )
    same = old.hash == new.hash and bool(told)
    return [*([] if same else [f'flow "{old.name}" has changed']), *told, *verdict.kept]


def _parameters_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Which parameters have another value than when the run was last started, in words."""
    both = [name for name in after if name in before and before[name] != after[name]]
    return [f'parameter "{name}" was {before[name]} and is now {after[name]}' for name in both]
