"""What is typed at `headrace sql`: definitions that are kept, queries answered on a Spark session that stays warm."""

from __future__ import annotations

import queue
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.check import Report, check
from headrace.check.wires import wires
from headrace.compile.lower import Lowered, lower
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.connectors.base import Batch, Written
from headrace.connectors.console import ConsoleOptions, ConsoleSink
from headrace.declare.resolve import Declared, resolve
from headrace.declare.sql.read import read, reader_of
from headrace.declare.sql.write import tidy
from headrace.errors import FlowError, UsageError, nearest
from headrace.model import Flow, Mode, Port, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]
_QUERY, _SCREEN = "_query", "_screen"
_FILE = "typed"
_UNFINISHED = frozenset({"unused", "no-sink", "no-source"})
"""What is wrong with every flow that is still being typed."""
_PATIENCE = 5.0
"""Seconds that a batch in which a query is stopped may take to its end."""


def statements_in(text: str) -> list[str]:
    """The whole statements of a text, without their semicolons; what stands behind the last one is one too."""
    reader, problems = reader_of(text, _FILE)
    if problems:
        raise FlowError(*problems)
    found, start = [], 0
    for token in reader.tokens:
        if token.text == ";" or token.kind == "end":
            piece = text[start : token.at].strip()
            if piece and any(start <= t.at < token.at for t in reader.tokens if t.kind != "end" and t.text != ";"):
                found.append(piece)
            start = token.end
    return found


def limited(query: str) -> tuple[str, int | None]:
    """A query without `LIMIT n` at its end, and the n; `LIMIT n BY key` is the query's own."""
    reader, _ = reader_of(query, _FILE)
    words = [t for t in reader.tokens if t.kind != "end" and t.text != ";"]
    if len(words) > 2 and words[-2].text.lower() == "limit" and words[-1].text.isdigit():
        return query[: words[-2].at].rstrip(), int(words[-1].text)
    return query, None


class _Heard(ConsoleSink):
    """Puts rows where the asking thread takes them."""

    def __init__(self, rows: queue.Queue[list[Row]], most: int | None) -> None:
        super().__init__(ConsoleOptions())
        self.rows, self.most = rows, most

    def write(self, frame: DataFrame, batch: Batch) -> Written:
        wanted = frame if self.most is None else frame.limit(self.most)
        rows = [row.asDict(recursive=True) for row in wanted.collect()]
        self.rows.put(rows)
        return Written(written=len(rows))


@dataclass
class Workbench:
    """Definitions typed so far; `session` starts Spark when it is first needed, `kafka` says how to reach the log."""

    session: Callable[[], SparkSession]
    kafka: Callable[[], Mapping[str, str]]
    base: Path = field(default_factory=Path.cwd)
    name: str = "typed"
    kept: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All that was defined, as a file of statements."""
        return tidy("".join(f"{statement};\n" for statement in self.kept)) if self.kept else ""

    def define(self, statement: str) -> None:
        """Keeps a definition; raises FlowError if it, or anything before it, does not go with it."""
        said = [*self.kept, statement]
        declared = self._declared(said)
        problems = [p for p in declared.problems if not p.warning and p.code not in _UNFINISHED]
        problems += [p for p in wires(declared.flow).problems if not p.warning and p.code not in _UNFINISHED]
        if problems:
            raise FlowError(*dict.fromkeys(problems))
        self.kept = said

    def _declared(self, statements: list[str]) -> Declared:
        return resolve(read(";\n".join(statements), _FILE, self.name))

    @property
    def flow(self) -> Flow:
        """What was defined, as far as it goes."""
        return self._declared(self.kept).flow

    def columns(self) -> dict[str, Schema]:
        """The columns of every stream and view, and of every other port."""
        return {str(port): schema for port, schema in wires(self.flow).schemas.items()}

    def describe(self, name: str) -> Schema:
        """The columns of one of them."""
        known = self.columns()
        if str(Port.parse(name)) not in known:
            hint = nearest(name, known).replace("It takes", "There are") or "define one: CREATE STREAM …"
            raise UsageError(f'there is no stream or view "{name}"', hint=hint)
        return known[str(Port.parse(name))]

    def report(self) -> Report:
        """Everything that keeps what was typed from being run as a flow."""
        return check(self._declared(self.kept))

    # -- queries

    def ask(self, query: str, *, until_done: bool = False, stop: threading.Event | None = None) -> Iterator[list[Row]]:
        """The rows of a query as they come, batch by batch, until its LIMIT is reached or `stop` is set.

        With `until_done` all there is now is read, the last windows are closed, and that is the end.
        """
        text, most = limited(query)
        made = plan(self._asked(text), mode=Mode.MICRO_BATCH)
        session = self.session()
        for key, value in made.spark.items():
            session.conf.set(key, value)
        rows: queue.Queue[list[Row]] = queue.Queue()
        with tempfile.TemporaryDirectory(prefix="headrace-sql-", ignore_cleanup_errors=True) as home:
            where = Where(
                session=session,
                streaming=True,
                home=Path(home),
                base=self.base,
                kafka=self.kafka(),
                sinks={_SCREEN: _Heard(rows, most)},
            )
            running = self._to_end if until_done else self._live
            left = most
            for batch in running(made, where, rows, stop or threading.Event()):
                if not batch:
                    continue
                yield batch[:left]
                left = None if left is None else left - len(batch)
                if left is not None and left <= 0:
                    return

    def _asked(self, query: str) -> Flow:
        """The flow of a query: what it reads, itself, and a sink that hears the rows."""
        said = [*self.kept, f"CREATE VIEW {_QUERY} AS {query}"]
        ending = [f"CREATE SINK {_SCREEN} WITH (connector = 'console')", f"INSERT INTO {_SCREEN} FROM {_QUERY}"]
        declared = self._declared([*said, *ending])
        flow = declared.flow
        wanted = {_SCREEN, *(flow.upstream(_SCREEN) if _SCREEN in flow else ())}
        asked = replace(
            flow,
            sources=tuple(s for s in flow.sources if s.name in wanted),
            steps=tuple(s for s in flow.steps if s.name in wanted),
            sinks=tuple(s for s in flow.sinks if s.name in wanted),
        )
        lines = sum(statement.count("\n") + 1 for statement in self.kept)
        head = len(f"CREATE VIEW {_QUERY} AS ")
        problems = []
        for problem in check(replace(declared, flow=asked)).errors:
            at = problem.location
            if at.file == _FILE and at.line > lines:
                column = at.column - head if at.line == lines + 1 else at.column
                problem = replace(problem, location=replace(at, line=at.line - lines, column=max(column, 1)))
            problems.append(problem)
        if problems:
            raise FlowError(*problems)
        return asked

    @staticmethod
    def _to_end(made: Any, where: Where, rows: queue.Queue[list[Row]], _stop: threading.Event) -> Iterator[list[Row]]:
        from headrace.run.inline import run_to_end

        for query in made.queries:
            run_to_end(made, query, where, where.home / "checkpoints" / query.name)
        while not rows.empty():
            yield rows.get()

    @staticmethod
    def _live(made: Any, where: Where, rows: queue.Queue[list[Row]], stop: threading.Event) -> Iterator[list[Row]]:
        started = []
        writing, ending = threading.Lock(), threading.Event()
        try:
            for query in made.queries:
                checkpoint = where.home / "checkpoints" / query.name
                lowered = lower(made, query, replace(where, checkpoint=checkpoint))

                def write(frame: DataFrame, batch: int, lowered: Lowered = lowered) -> None:
                    with writing:
                        if not ending.is_set():
                            lowered.write(frame, batch)

                started.append(
                    lowered.trunk.writeStream.foreachBatch(write)
                    .outputMode(query.changes.value)
                    .option("checkpointLocation", str(checkpoint))
                    .start()
                )
            while not stop.is_set():
                try:
                    yield rows.get(timeout=0.2)
                except queue.Empty:
                    failed = next((q.exception() for q in started if q.exception() is not None), None)
                    if failed is not None:
                        raise failed from None
        finally:
            # A query that is stopped within a batch fails in it, and Spark prints pages about that.
            ending.set()
            if writing.acquire(timeout=_PATIENCE):
                writing.release()
            for running in started:
                running.stop()
