"""Dead letters put through a flow again: each from where it failed, to the sinks it has not reached.

What failed in a step goes on from that step: its siblings, which did not fail, are not made a second time, and other
sinks are not written again. What a source refused is decoded anew, or read anew where it is a file.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.catalogue import SOURCES
from headrace.compile import letters as dead
from headrace.compile.counting import Once
from headrace.compile.frames import Branch
from headrace.compile.lower import Lowered
from headrace.compile.plan import Plan, Query
from headrace.compile.planner import in_record, wanted
from headrace.compile.where import Where
from headrace.connectors.base import ORIGIN, Reading, ReplayableSource
from headrace.connectors.time import ARRIVAL
from headrace.connectors.unreadable import REASONS, Noted, decoded
from headrace.model import Flow, Port, Schema, Sink, Source, Step
from headrace.operators.base import Operator
from headrace.operators.calls import Note, Notes, once_more

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Letter = Mapping[str, Any]
"""A dead letter as it is kept, but for `value` and `key`, which are bytes."""
_MULTIPLY = ("flat_map", "explode")


@dataclass(frozen=True)
class Way:
    """How a letter can be put through again."""

    kind: str
    """step: from where it failed. topic: sent once more to the topic it came from. none: not at all."""
    sinks: tuple[str, ...] = ()
    why: str = ""


def way(plan: Plan, step: str, *, function: bool, topic: bool, value: bool) -> Way:
    """How letters of a step can be put through again; `function`: one raised, so it is what went in that is known."""
    flow = plan.flow
    if step not in flow:
        return Way("none", why=f'the flow has no "{step}" any more')
    part = flow[step]
    apart = {name for query in plan.queries for name in query.letters}
    sinks = [s for s in flow.sinks if s.name not in apart and step in flow.upstream(s.name)]
    between = {n for s in sinks for n in flow.upstream(s.name) if step in flow.upstream(n)}
    remembering = [n for n in (step, *between) if _remembers(flow[n]) and not (n == step and not function)]
    if not remembering and (value or isinstance(part, Step)):
        return Way("step", tuple(s.name for s in sinks))
    if topic and value and _alone(flow, step, sinks, apart):
        return Way("topic")
    if not remembering:
        return Way("none", why="its bytes are not known")
    why = f'it would have to pass "{remembering[0]}", which remembers'
    return Way(
        "none", why=why + ("" if topic and value else ", and did not come from a topic it could be sent to again")
    )


def _alone(flow: Flow, step: str, sinks: Sequence[Sink], apart: set[str]) -> bool:
    """Whether a record that failed at a step has had no effect: everything behind its source is behind the step."""
    above = [n for n in flow.upstream(step) if isinstance(flow[n], Source)] or [step]
    reached = {s.name for s in flow.sinks if s.name not in apart and set(above) & set(flow.upstream(s.name))}
    before = [flow[n] for n in (step, *flow.upstream(step))]
    many = any(isinstance(p, Step) and p.operator in _MULTIPLY for p in before)
    return reached <= {s.name for s in sinks} and not many and not any(_remembers(p) for p in before[1:])


def _remembers(part: Any) -> bool:
    if not isinstance(part, Step):
        return False
    operator: Operator = part.options
    return operator.state(()) is not None


class _Letters(ReplayableSource[Any]):
    """Stands in for a source: the bytes of its letters, with what was known of them."""

    carries = "bytes"

    def __init__(self, real: Any, letters: Sequence[Letter], default_format: str | None) -> None:
        super().__init__(real.options)
        self._real, self._letters, self.arrival = real, letters, real.arrival  # type: ignore[misc]
        self.default_format = default_format  # type: ignore[misc]

    def columns(self) -> Schema | None:
        found: Schema | None = self._real.columns()
        return found

    def metadata(self) -> Schema:
        found: Schema = self._real.metadata()
        return found

    def read(self, reading: Reading) -> DataFrame:
        from pyspark.sql import functions as F

        columns = "value BINARY, key BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
        names = Schema.parse(columns).names
        frame = reading.session.createDataFrame(
            [tuple(letter.get(name) for name in names) for letter in self._letters], columns
        )
        told = {"kafka_key": F.col("key").cast("string")} | {f"kafka_{n}": F.col(n) for n in names[2:]}
        known = [told.get(f.name, F.lit(None)).cast(str(f.type)).alias(f.name) for f in self.metadata()]
        arrived = [F.col("timestamp").alias(ARRIVAL)] if reading.arrival else []
        origin = [F.struct(*names).alias(ORIGIN)] if reading.origin else []
        return frame.select("value", *known, *arrived, *origin)


class _Files(ReplayableSource[Any]):
    """Stands in for a source: the files of its letters, read anew; those that still fail are letters again."""

    carries = "files"

    def __init__(self, real: Any, letters: Sequence[Letter], batch: int, columns: Sequence[str]) -> None:
        super().__init__(real.options)
        self._real, self._batch, self._columns = real, batch, columns
        self._letters = [(decoded(letter["file"]), json.loads(letter.get("record") or "{}")) for letter in letters]

    def metadata(self) -> Schema:
        found: Schema = self._real.metadata()
        return found

    def read(self, reading: Reading) -> DataFrame:
        files = self._real.where_now(reading, [(path, told.get("copy")) for path, told in self._letters])
        reading = replace(reading, files=files)
        noted = Noted(reading.place, reading.reads_for)
        if not noted.known(self._batch):
            self._real.set_aside(reading, self._batch, self._columns)
            noted.add(self._batch, ())  # a replay that is repeated is to find the same
        frame: DataFrame = self._real.read(reading)
        return frame


def _stand_in(plan: Plan, part: Source, letters: Sequence[Letter], batch: int) -> ReplayableSource[Any]:
    """What gives the records of a source's letters."""
    real = SOURCES[part.connector](part.options)
    if of_file(letters[0]):
        return _Files(real, letters, batch, in_record(part, wanted(plan.flow, plan.schemas, part)).names)
    return _Letters(real, letters, "json" if real.carries == "rows" else real.default_format)


def of_file(letter: Letter) -> bool:
    """Whether it is a file as a whole that is the dead letter."""
    return letter.get("reason") in REASONS and letter.get("file") is not None


def put_through(plan: Plan, where: Where, step: str, letters: Sequence[Letter], batch: int) -> dict[str, int]:
    """Puts letters of one step through again as a batch of its own; how many failed once more, by step.

    What goes to the sinks, and what fails again, is on disk before the first of them is written. A batch that is
    repeated, because the one before was cut short, is that again, and recognised by the sinks.
    """
    flow, session = plan.flow, where.session
    part = flow[step]
    function = bool(letters[0].get("function"))
    names = way(plan, step, function=function, topic=False, value=True).sinks
    given = {
        Port(s.name): _empty(where, plan.schemas[Port(s.name)])
        for s in flow.sources
        if s.table is None and s.name != step
    }
    query = next(q for q in plan.queries if step in q.owned)
    if isinstance(part, Source):
        where = replace(where, query=query.name, sources={step: _stand_in(plan, part, letters, batch)})
    else:
        port = part.inputs[0] if function else Port(step)
        given[port] = _rows(where, plan.schemas[port], letters)
    rate = dead.Rate(len(letters) * 1000)
    notes = Notes(session, rate.most + 1)

    def frames(rejects: dead.Rejects) -> dict[str, DataFrame]:
        branch = Branch(plan, where, given, rejects=rejects)
        if isinstance(part, Step) and not function and part.expect is not None:
            held = dead.expected(part, given[Port(step)], plan.schemas[Port(step)], rejects)
            branch.frames[Port(step)] = held
        return {name: branch.frame(flow[name].inputs[0]) for name in names}

    nothing = session.range(0)
    lowered = Lowered(plan=plan, query=query, trunk=nothing, where=where, counter=Once(session), rate=rate, notes=notes)
    kept = rows_of(where.home, batch)
    ready = kept / "failed.json"
    if not ready.exists():
        shutil.rmtree(kept, ignore_errors=True)
        for name in names:
            made = frames(dead.Counting(Once(session), notes.calls(name)))[name]
            made.write.parquet((kept / name).as_uri())
        raised = notes.take()
        looking = dead.Looking(frozenset(p.name for p in flow), once_more(raised))
        frames(looking)
        written_whole(ready, _keep(lowered, query, looking.found, raised, batch))
    for name in names:
        frame = session.read.parquet((kept / name).as_uri())
        lowered.write_sink(flow[name], frame, batch)  # type: ignore[arg-type]
    failed: dict[str, int] = json.loads(ready.read_text(encoding="utf-8"))
    return failed


def rows_of(home: Path, batch: int) -> Path:
    """Where a batch of a replay lies as it goes to the sinks, a folder for each."""
    return (home / "rows" / str(batch)).resolve()


def written_whole(file: Path, told: Mapping[str, Any]) -> None:
    """Writes a file that appears whole."""
    draft = file.with_suffix(".new")
    with draft.open("w", encoding="utf-8") as out:
        json.dump(told, out, indent=1)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(file)


def _keep(
    lowered: Lowered, query: Query, looked: list[DataFrame], notes: Mapping[str, Note], batch: int
) -> dict[str, int]:
    import time

    if not looked:
        return {}
    found = dead.raised_on(reduce(lambda a, b: a.unionByName(b), looked), notes)
    letters = dead.at_time(found, round(time.time() * 1000))
    file = dead.file_of(lowered.where.home, query.name, batch)
    return dead.keep(letters, file, query.name, batch, lowered.rate, lowered.plan.flow.name)


def _empty(where: Where, schema: Schema) -> DataFrame:
    from headrace.expressions.spark import spark_schema

    return where.session.createDataFrame([], spark_schema(schema))


def _rows(where: Where, schema: Schema, letters: Sequence[Letter]) -> DataFrame:
    """The records of letters as rows again."""
    from pyspark.sql import functions as F

    from headrace.expressions.spark import spark_schema

    texts = where.session.createDataFrame([(letter["record"],) for letter in letters], "record STRING")
    return texts.select(F.from_json("record", spark_schema(schema)).alias("row")).select("row.*")
