"""A flow where it is written: previewed, run and watched from Python, in a notebook or at a prompt.

`Stream.preview`, `Flow.start` and `Flow.run` are declared with the Python front door and done here, where Spark and
runs are known. A run that is started here is a run like any other: the command line sees it, and it can be resumed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.declare import api
from headrace.errors import FlowError, UsageError
from headrace.model import Flow, Mode, Port, Sink, Source

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from headrace.project import Project
    from headrace.run.home import Home

SAMPLE = 1000
"""How many records of each partition of a topic, or of a generator without an end, a preview takes."""
_STYLE = "border-collapse:collapse;font:12px ui-sans-serif,Arial,sans-serif"
_CELL = "border-bottom:1px solid #dde1e8;padding:3px 10px;text-align:left"


@dataclass(frozen=True)
class Preview(Sequence[dict[str, Any]]):
    """Some records of a stream: a list of dicts that shows itself as a table."""

    columns: tuple[tuple[str, str], ...]
    """Name and type."""
    rows: tuple[dict[str, Any], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def to_pandas(self) -> pd.DataFrame:
        """The records as a frame."""
        import pandas as pd

        return pd.DataFrame(list(self.rows), columns=[name for name, _ in self.columns])

    def __repr__(self) -> str:
        cells = [[name for name, _ in self.columns], *([_shown(row[n]) for n, _ in self.columns] for row in self.rows)]
        widths = [max(len(line[i]) for line in cells) for i in range(len(self.columns))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells)

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th style="{_CELL}">{escape(name)}<br><small style="color:#6b7483">{escape(kind)}</small></th>'
            for name, kind in self.columns
        )
        cells = ([f'<td style="{_CELL}">{escape(_shown(row[n]))}</td>' for n, _ in self.columns] for row in self.rows)
        body = "".join(f"<tr>{''.join(line)}</tr>" for line in cells)
        said = "1 record" if len(self) == 1 else f"{len(self)} records"
        return f'<table style="{_STYLE}"><tr>{head}</tr>{body}</table><small>{said}</small>'


def _shown(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= 60 else text[:59] + "…"


class Run:
    """A run in the background: how far it is, and how to end it. Shown in a notebook, it is its progress."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.name = home.name

    def status(self) -> dict[str, Any]:
        """Everything worth knowing about it, as `headrace status --json` gives it."""
        from headrace.run import control

        return control.status(self._home)

    @property
    def running(self) -> bool:
        """Whether it is still at work."""
        from headrace.run.home import LIVE

        return self._home.read().shown_status in LIVE

    def stop(self) -> Run:
        """Stops it after its current batch; it can be resumed by starting the flow again."""
        from headrace.run import control

        control.stop(self._home)
        return self

    def wait(self, seconds: float | None = None) -> Run:
        """Waits until it has ended, or that long; raises what made it fail."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while self.running and (deadline is None or time.monotonic() < deadline):
            time.sleep(0.1)
        return self._checked()

    def _checked(self) -> Run:
        from headrace.run.failure import Failure

        found = self.status()
        if found["status"] in ("failed", "died"):
            failure = found["failure"] or {"kind": "internal", "message": "the supervisor ended"}
            raise Failure.from_dict(failure).error(found["log"])
        return self

    def __repr__(self) -> str:
        found = self.status()
        numbers = ", ".join(f"{k} {v}" for k, v in found["progress"].items() if v)
        return f"Run({self.name!r}, {found['status']}{': ' + numbers if numbers else ''})"

    def _repr_html_(self) -> str:
        found = self.status()
        colour = {"running": "#2e7d4f", "finished": "#3b6db3", "failed": "#b5472b", "died": "#b5472b"}
        mark = f'<b style="color:{colour.get(found["status"], "#6b7483")}">● {escape(found["status"])}</b>'
        rows = [("since", found["since"]), *((k, _number(v)) for k, v in found["progress"].items() if v)]
        if found["failure"]:
            rows.append(("failure", str(found["failure"]["message"])))
        if found["status"] != "running":
            rows += [(f"resume {name}", str(point)) for name, point in found["resume"].items() if point]
        body = "".join(
            f'<tr><td style="{_CELL};color:#6b7483">{escape(str(k))}</td><td style="{_CELL}">{escape(str(v))}</td></tr>'
            for k, v in rows
        )
        return (
            f'<div style="{_STYLE}">run <b>{escape(self.name)}</b> {mark}<table style="{_STYLE}">{body}</table></div>'
        )


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


class Interactive:
    """What the Python front door hands over to."""

    def preview(self, flow: api.Flow, port: str, rows: int, parameters: Mapping[str, Any]) -> Preview:
        """The first records that leave by a port, computed here, as a batch, over what the sources have."""
        from headrace.compile.lower import lower
        from headrace.compile.planner import plan
        from headrace.compile.where import Where
        from headrace.project import Project

        project = Project.find()
        part, stands_in = _bounded(_towards(_built(flow, project, parameters), Port.parse(port)))
        made = plan(part, mode=Mode.BATCH)
        session = _session()
        for key, value in made.spark.items():
            session.conf.set(key, value)
        with tempfile.TemporaryDirectory(prefix="headrace-preview-", ignore_cleanup_errors=True) as home:
            where = Where(
                session=session,
                streaming=False,
                home=Path(home),
                base=project.root,
                kafka=_kafka(project, part),
                sources=stands_in,
            )
            lowered = lower(made, made.queries[0], where)
            found = lowered.frame(Port.parse(port)).limit(rows).collect()
        columns = tuple((f.name, str(f.type)) for f in made.schemas[Port.parse(port)])
        return Preview(columns, tuple(row.asDict(recursive=True) for row in found))

    def start(self, flow: api.Flow, asked: Mapping[str, Any], *, fresh: bool) -> Run:
        """The flow as a run in the background."""
        from headrace.declare.load import write_down
        from headrace.project import Project
        from headrace.run.home import Asked
        from headrace.run.prepare import prepare
        from headrace.run.supervisor import detach

        project = Project.find()
        _built(flow, project, asked["parameters"])
        folder = project.make_home() / "written"
        folder.mkdir(exist_ok=True)
        file = write_down(flow.draft(), folder)
        ready = prepare(project, file, Asked(**asked), fresh=fresh)
        with ready.lock:
            detach(ready.home, ready.lock)
        return Run(ready.home)

    def run(self, flow: api.Flow, asked: Mapping[str, Any], *, fresh: bool) -> Run:
        """The flow as a run that is watched to its end; an interrupt stops it."""
        started = self.start(flow, asked, fresh=fresh)
        show = _display(started)
        try:
            while started.running:
                time.sleep(0.5)
                show()
        except KeyboardInterrupt:
            started.stop()
        show()
        return started._checked()


def _display(run: Run) -> Any:
    """Shows a run, and what it gives shows it again in the same place: in a notebook, else nothing until the end."""
    try:
        from IPython import get_ipython  # type: ignore[import-not-found,unused-ignore]
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return lambda: None
    if get_ipython() is None:
        return lambda: None
    shown = display(run, display_id=True)
    return lambda: shown.update(run) if shown is not None else None


def _built(flow: api.Flow, project: Project, parameters: Mapping[str, Any]) -> Flow:
    """The flow with its parameters' values; raises what is wrong with it, but for what a part of a flow may lack."""
    from headrace.check import check
    from headrace.run.prepare import project_given

    report = check(flow.declared(project_given(project, parameters)))
    errors = [p for p in report.errors if p.code not in ("no-sink", "unused")]
    if errors:
        raise FlowError(*errors)
    return report.flow


def _towards(flow: Flow, port: Port) -> Flow:
    """Only what leads to a port, with an end of its own there."""
    from headrace.connectors.memory import MemoryOptions

    wanted = {*flow.upstream(port.step), port.step}
    end = Sink(name="headrace_preview", inputs=(port,), connector="memory", options=MemoryOptions(key=()))
    return replace(
        flow,
        sources=tuple(s for s in flow.sources if s.name in wanted),
        steps=tuple(s for s in flow.steps if s.name in wanted),
        sinks=(end,),
    )


def _bounded(flow: Flow) -> tuple[Flow, dict[str, Any]]:
    """The flow with sources that come to an end, and what stands in for those that would be too much."""
    from headrace.connectors.kafka import KafkaSource

    sources: list[Source] = []
    stands_in: dict[str, Any] = {}
    for source in flow.sources:
        if source.connector in ("rate", "socket"):
            raise UsageError(
                f'source "{source.name}" ({source.connector}) has no records to preview yet',
                hint="preview with `values` or `generator` in its place, or run the flow",
            )
        if source.connector == "generator" and source.options.limit is None:
            source = replace(source, options=source.options.model_copy(update={"limit": SAMPLE}))
        if source.connector == "kafka" and source.table is None:
            stands_in[source.name] = _sampled(KafkaSource)(source.options)
        sources.append(source)
    return replace(flow, sources=tuple(sources)), stands_in


def _sampled(kind: type[Any]) -> type[Any]:
    """A source of topics that gives the newest records of each partition only."""
    from headrace.connectors.kafka_client import client_settings
    from headrace.log import topics

    class Sampled(kind):  # type: ignore[misc]
        def read(self, reading: Any) -> Any:
            if len(self.options.topic) == 1:
                client = client_settings(self.options.bootstrap, reading.place.kafka, reading.place.step)
                topic = topics.describe(client, self.options.topic[0])
                starts = (f"{p.id}:{max(p.begin, p.end - SAMPLE)}" for p in topic.partitions)
                reading = replace(reading, start=",".join(starts))
            return super().read(reading)

    return Sampled


def _kafka(project: Project, flow: Flow) -> Mapping[str, str]:
    from headrace.project import kafka_client

    needed = any(s.connector == "kafka" and s.options.bootstrap is None for s in flow.sources)
    return kafka_client(project) if needed else {}


@cache
def _own_session() -> SparkSession:
    from headrace.run.inline import local_session

    return local_session()


def _session() -> SparkSession:
    """The session there is, or one of our own."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or _own_session()


api.runner = Interactive()
