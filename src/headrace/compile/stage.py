"""The vectorised stage of a query: which of its first steps a native engine runs in Arrow batches, and why no more.

Pure; no Spark and no engine. Three rules, in this order:

* `decode-natively`: JSON of a Kafka topic whose wanted columns all have types that are read natively.
* `drop-early`: a record that a filter right behind the source is sure to leave out does not go on to Spark.
* `derive-for-a-filter`: columns made between the source and such a filter are followed, to see what it reads.

Everything that goes on is still put through the same steps in Spark, so only what is dropped rests on the engine;
what is dropped is counted, so that the ledger and the watermark are as without the stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from headrace.catalogue import SOURCES
from headrace.compile.plan import Query
from headrace.connectors.time import EPOCH
from headrace.expressions.arrow import TYPES, Known, Program, StaysError, program
from headrace.expressions.expression import Expression
from headrace.formats.json_native import ENGINE, Columns
from headrace.formats.json_shape import VALUES, plain_name, shape
from headrace.goal import goal_of
from headrace.model import Flow, Mode, Port, Schema, Source, Step
from headrace.model.types import BOOLEAN, DataType
from headrace.operators.columns import NamedValue
from headrace.operators.drop import Drop
from headrace.operators.filter import Filter
from headrace.operators.functions import Function
from headrace.operators.rename import Rename
from headrace.operators.select import Select
from headrace.operators.with_ import With

SWITCH = "spark.headrace.vectorised"
"""The setting that turns the stage off."""
ZONE = "spark.sql.session.timeZone"
_OTHER_ANSWERS = ("spark.sql.legacy.", "spark.sql.json.", "spark.sql.ansi.", "spark.sql.caseSensitive")
EXTRA = "vectorised"
"""The extra that installs the engine."""


@dataclass(frozen=True)
class Link:
    """One step that is followed in the stage: the columns it makes, or the condition it keeps records by."""

    step: str
    made: tuple[Program, ...] = ()
    keeps: Program | None = None


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What the native engine does for one source of one query."""

    query: str
    source: str
    columns: Columns = ()
    """What it decodes; none: it is not used, and `why` says why."""
    links: tuple[Link, ...] = ()
    """The steps it follows, up to the last filter that drops records there."""
    border: str = ""
    """The first step it does not follow."""
    why: str = ""

    @property
    def drops(self) -> tuple[str, ...]:
        """The filters whose records are dropped early."""
        return tuple(link.step for link in self.links if link.keeps is not None)


def installed() -> bool:
    """Whether the engine is there."""
    return find_spec(ENGINE) is not None


def stages(
    flow: Flow,
    schemas: Mapping[Port, Schema],
    queries: Sequence[Query],
    needed: Mapping[str, frozenset[str]],
    mode: Mode,
    *,
    settings: Mapping[str, str],
    engine: bool,
) -> tuple[Stage, ...]:
    """For every source of bytes of every query, what is done natively, or why nothing is."""
    made, goal = [], goal_of(flow)
    for query in queries:
        for source in (s for s in flow.sources if s.name in query.sources):
            if SOURCES[source.connector].carries != "bytes":
                continue
            try:
                _settings_allow(settings, throughput=goal is not None and goal.best == "throughput")
                if str(mode) not in (str(Mode.MICRO_BATCH), str(Mode.BATCH)):
                    raise StaysError("rows would wait for an Arrow batch to fill")
                columns = _decoded(source, schemas[Port(source.name)], needed[source.name])
                if not engine:
                    raise StaysError(f"{ENGINE} is not installed (extra: {EXTRA})")
            except StaysError as stays:
                made.append(Stage(query=query.name, source=source.name, why=str(stays)))
                continue
            links, border, why = _followed(flow, query, source, columns)
            made.append(
                Stage(query=query.name, source=source.name, columns=columns, links=links, border=border, why=why)
            )
    return tuple(made)


def _settings_allow(settings: Mapping[str, str], *, throughput: bool) -> None:
    """Raises if nobody asks for the stage, or the author's own settings change what Spark's answers are."""
    if settings.get(SWITCH, "true").lower() == "false":
        raise StaysError("it is switched off")
    if SWITCH not in settings and not throughput:
        raise StaysError("its Python workers take time to start; `goal: throughput` asks for it")
    if settings.get(ZONE, "UTC") != "UTC":
        raise StaysError("times without a zone are not UTC here")
    for name in settings:
        if name.startswith(_OTHER_ANSWERS):
            raise StaysError(f"{name} may change what Spark answers")


def untimed(source: Source, wanted: Schema) -> Schema:
    """The columns to be decoded: the time as the author stated it, or left out where it is not in the record."""
    if source.time is None or wanted.event_time is None:
        return wanted
    if source.time.kind != "event":
        return Schema.of((f.name, f.type) for f in wanted if f.name != wanted.event_time)
    stated = source.schema.find(wanted.event_time) if source.schema is not None else None
    return wanted if stated is None else wanted.with_columns([(stated.name, stated.type)])


def _decoded(source: Source, schema: Schema, needed: frozenset[str]) -> Columns:
    """Rule decode-natively: the columns, or why not."""
    connector = SOURCES[source.connector]
    if not connector.bulk:
        raise StaysError(f"{source.connector} does not bring enough records to gain by it")
    if (source.format or connector.default_format) != "json":
        raise StaysError(f"it is for json, not {source.format or connector.default_format}")
    wanted = untimed(source, schema.keeping(needed) if needed else schema.keeping(schema.names[:1]))
    beside = connector(source.options).metadata().names
    columns = tuple((f.name, str(f.type)) for f in wanted if f.name not in beside)
    for name, kind in columns:
        if kind not in VALUES:
            raise StaysError(f'column "{name}" is {kind}, which is not read natively')
        if not plain_name(name):
            raise StaysError(f'column "{name}" has a name with escapes')
    if not columns:
        raise StaysError("nothing is read from the records")
    if shape(columns) is None:
        raise StaysError(f"{len(columns)} columns are more than one expression can look for")
    return columns


def _followed(flow: Flow, query: Query, source: Source, columns: Columns) -> tuple[tuple[Link, ...], str, str]:
    """Rules drop-early and derive-for-a-filter: the steps up to the last such filter; where it ends, and why."""
    kinds = {str(kind): kind for kind in TYPES}
    known: Known = {name.lower(): (("column", name), kinds[kind]) for name, kind in columns}
    links: list[Link] = []
    border, why = "", "the sinks follow"
    try:
        _may_drop(source)
        for step in _chain(flow, query, source):
            border = step.name
            link, known = _link(step, known)
            links.append(link)
        border = ""
    except StaysError as stays:
        why = str(stays)
    last = max((i for i, link in enumerate(links) if link.keeps is not None), default=-1)
    return tuple(links[: last + 1]), border, why


def _may_drop(source: Source) -> None:
    if source.expect is not None:
        raise StaysError("the source has rules, which Spark holds against every record")
    if source.time is not None and source.time.kind == "event" and source.time.format not in (None, *EPOCH):
        raise StaysError("the time is a text that only Spark reads")
    if source.time is not None and source.time.kind == "processing":
        raise StaysError("the time of the batch is Spark's")


def _chain(flow: Flow, query: Query, source: Source) -> Iterator[Step]:
    """The steps of a query one after another, as long as each is the only one that takes what is before it."""
    port = Port(source.name)
    while port != query.trunk:
        takers = [flow[name] for name in query.steps if port in flow[name].inputs]
        if len(takers) != 1:
            raise StaysError(f'{len(takers)} steps read "{port}"')
        step = takers[0]
        assert isinstance(step, Step)
        yield step
        port = Port(step.name)


def _link(step: Step, known: Known) -> tuple[Link, Known]:
    """A step followed, and the columns behind it."""
    operator = step.options
    if step.expect is not None and not isinstance(operator, Filter):
        raise StaysError("it has rules, which Spark holds against every record")
    match operator:
        case Filter():
            keeps, kind = _value(operator.where, known)
            if kind != BOOLEAN:
                raise StaysError("the condition is not boolean")
            link = Link(step.name, keeps=keeps)
            if step.expect is not None:
                known = {}  # what breaks a rule here is looked at by no filter behind it
            return link, known
        case Select():
            made = _made(operator.columns, known)
            return Link(step.name, tuple(p for p, _ in made.values())), made
        case With():
            made = _made(operator.columns, known)
            return Link(step.name, tuple(p for p, _ in made.values())), {**known, **made}
        case Rename():
            names = {old.lower(): new.lower() for old, new in operator.columns.items()}
            return Link(step.name), {names.get(name, name): value for name, value in known.items()}
        case Drop():
            gone = {name.lower() for name in operator.columns}
            return Link(step.name), {name: value for name, value in known.items() if name not in gone}
    if operator.state(()) is not None:
        raise StaysError("it keeps state")
    raise StaysError(f"{step.operator} is not moved")


def _made(columns: Sequence[NamedValue], known: Known) -> dict[str, tuple[Program, DataType]]:
    return {c.name.lower(): _value(c.value, known) for c in columns}


def _value(value: Expression | Function, known: Known) -> tuple[Program, DataType]:
    compiled = value.compiled() if isinstance(value, Function) else value
    if not isinstance(compiled, Expression):
        raise StaysError("it calls a Python function")
    return program(compiled.tree, known)
