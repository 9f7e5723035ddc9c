"""From a checked flow to a plan: which queries, which settings, and why. Pure; no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from headrace.catalogue import FORMATS, SINKS
from headrace.check.guarantees import Promise, promise
from headrace.check.real_time import aside, late_from
from headrace.check.streaming import only_in_batches
from headrace.check.wires import Wires, renewed, wires
from headrace.compile import goal as goals
from headrace.compile.plan import Choice, Plan, Query
from headrace.errors import FlowError
from headrace.formats.base import Format
from headrace.model import Changes, Delivery, Flow, Mode, Part, Port, Schema, Sink, Source, Step
from headrace.operators.base import Operator
from headrace.options import show_duration

TICK = timedelta(seconds=1)
"""How long at least from batch to batch where something may come due by the clock: Spark asks for the next at once."""


def plan(
    flow: Flow,
    *,
    mode: Mode | None = None,
    cores: int = 2,
    local: bool = True,
    until_done: bool = False,
    partitions: Mapping[str, int] | None = None,
    project: Mapping[str, str] | None = None,
) -> Plan:
    """What will run. `cores` is how many tasks can run at once; it sizes the shuffle. `local`: all in one process.

    `partitions`, of the topics of each source, are known when a run starts; `project` is what headrace.toml sets.
    Raises FlowError if the flow cannot run in the mode that is asked for, or that its goal needs.
    """
    found = wires(flow)
    errors = [p for p in found.problems if not p.warning]
    if errors:
        raise FlowError(*errors)
    way = goals.way(flow, found, mode, until_done=until_done)
    if way.mode is not Mode.BATCH and (refused := tuple(only_in_batches(flow))):
        raise FlowError(*refused)
    real_time = way.mode is Mode.REAL_TIME
    made = real_time_queries(flow, found) if real_time else queries(flow, found)
    stateful = [s.name for s in flow.steps if remembers(s)]
    spark = _chosen(goals.spark(flow, way.mode, stateful, cores, local=local), project or {}, dict(flow.spark))
    shuffled = next(int(c.value) for c in spark if c.what == _SHUFFLE)
    java = goals.java({choice.what: choice.value for choice in spark}, way.mode)
    per_batch, batches = goals.per_batch(flow, way.mode)
    reading, writing = goals.reading(flow, way.mode, made, partitions, cores), goals.writing(flow, way.mode)
    choices = (
        Choice(what="mode", value=str(way.mode), why=way.why, by_author=way.by_author),
        *goals.set_aside(flow),
        *(goals.real_time(flow, made, partitions, shuffled) if real_time else ()),
        *goals.slowest(way, made, local=local),
        *spark,
        *batches,
        *_client("read", reading, flow.sources),
        *_client("write", writing, flow.sinks),
        *java,
    )
    return Plan(
        flow=flow,
        mode=way.mode,
        queries=made,
        schemas=found.schemas,
        promises=tuple(_promise(flow, sink, way.mode) for sink in flow.sinks),
        choices=choices,
        changes=found.changes,
        spark={c.what: c.value for c in spark},
        reading={name: value for name, (value, _) in reading.items()},
        per_batch=per_batch,
        writing={name: value for name, (value, _) in writing.items()},
        java=" ".join(choice.value for choice in java),
        checkpoint=goals.checkpoint_every(flow) if real_time else None,
        slots=goals.slots(made, partitions, shuffled) if real_time and partitions is not None else None,
    )


_SHUFFLE = "spark.sql.shuffle.partitions"


def _chosen(ours: goals.Settings, project: Mapping[str, str], flow: Mapping[str, str]) -> tuple[Choice, ...]:
    """Spark settings with their reasons; the project's own go over ours, and the flow's over both."""
    by_project = {name: value for name, value in project.items() if name not in flow}
    authors = {**by_project, **flow}
    return (
        *(Choice(what=k, value=v, why=why) for k, (v, why) in ours.items() if k not in authors),
        *(Choice(what=k, value=v, why="set in headrace.toml", by_author=True) for k, v in by_project.items()),
        *(Choice(what=k, value=v, why="set in the flow", by_author=True) for k, v in flow.items()),
    )


def _client(does: str, ours: goals.Settings, parts: Iterable[Source | Sink]) -> tuple[Choice, ...]:
    """How Kafka's clients are set: by us where a part leaves it to us, and by the author of each part."""
    authors: dict[str, dict[str, str]] = {p.name: p.options.client for p in parts if p.connector == "kafka"}
    return (
        *(
            Choice(what=f"{does} {name}", value=value, why=why)
            for name, (value, why) in ours.items()
            if any(name not in set_by_it for set_by_it in authors.values())
        ),
        *(
            Choice(what=f"{does} {name} of {part}", value=value, why="set in the flow", by_author=True)
            for part, set_by_it in authors.items()
            for name, value in set_by_it.items()
        ),
    )


def _promise(flow: Flow, sink: Sink, mode: Mode) -> Promise:
    """What a sink is given; in real-time mode what came since the last checkpoint is written again after a crash."""
    made = promise(flow, sink)
    if mode is not Mode.REAL_TIME or aside(flow, sink):
        return made
    every = show_duration(goals.checkpoint_every(flow))
    because = f"in real-time mode what came since the last checkpoint, at most {every}, is written again after a crash"
    key = SINKS[sink.connector](sink.options).key()
    if key:
        because += f"; the last row of each {', '.join(key)} holds"
    return Promise(sink=sink.name, delivery=min(made.delivery, Delivery.AT_LEAST_ONCE), because=because)


def remembers(part: Part) -> bool:
    """Whether a part keeps something between batches."""
    if not isinstance(part, Step):
        return False
    operator: Operator = part.options
    return operator.state(()) is not None


def _every(part: Part) -> timedelta | None:
    return part.options.every() if isinstance(part, Step) else None


def _ticks(part: Part, found: Wires) -> bool:
    given = found.given(part)
    return isinstance(part, Step) and bool(given) and part.options.ticks(given)


def may_reject(part: Part) -> bool:
    """Whether records may become dead letters at a step."""
    return isinstance(part, Step) and (part.expect is not None or part.options.rejects())


def _sides(part: Part) -> tuple[str, ...]:
    return part.options.sides() if isinstance(part, Step) else ()


def queries(flow: Flow, found: Wires) -> tuple[Query, ...]:
    """Sinks that hang off the same stateful step or source share a query, so that it is read once."""
    groups: dict[str, list[tuple[Sink, list[Port]]]] = {}
    letters: list[tuple[Sink, tuple[str, ...]]] = []
    for sink in flow.sinks:
        if rejected := flow.letters_of(sink.inputs[0]):
            letters.append((sink, rejected))
        else:
            chain = _chain(flow, sink, found.schemas)
            groups.setdefault(chain[0].step, []).append((sink, chain))
    made: list[Query] = []
    for base, members in groups.items():
        query = _query(flow, found, base, members)
        taken = {name for other in made for name in other.owned}
        behind = {name for sink, _ in members for name in flow.upstream(sink.name)}
        owned = tuple(p.name for p in flow if p.name in behind and p.name not in taken)
        taking = tuple(sink.name for sink, parts in letters if not {*parts}.isdisjoint(owned))
        made.append(replace(query, owned=owned, letters=taking))
    return tuple(made)


def real_time_queries(flow: Flow, found: Wires) -> tuple[Query, ...]:
    """One query for each sink, from its sources down to it: nothing is done batch by batch, so nothing is shared.

    What is late or cannot be taken is the first query's that has the part; its sinks are written after each batch.
    A query is named as in micro-batches while its base has one sink, so that a run may go on in them.
    """
    answers = [sink for sink in flow.sinks if not aside(flow, sink)]
    bases = {sink.name: _chain(flow, sink, found.schemas)[0].step for sink in answers}
    made: list[Query] = []
    for sink in answers:
        base = bases[sink.name]
        name = base if list(bases.values()).count(base) == 1 else f"{base}.{sink.name}"
        query = _made(flow, found, name, [sink], sink.inputs[0])
        taken = {part for other in made for part in other.owned}
        owned = tuple(p.name for p in flow if p.name in flow.upstream(sink.name) and p.name not in taken)
        letters = tuple(s.name for s in flow.sinks if not {*flow.letters_of(s.inputs[0])}.isdisjoint(owned))
        late = tuple(s.name for s in flow.sinks if late_from(flow, s) in owned)
        made.append(replace(query, owned=owned, letters=letters, asides=late))
    return tuple(made)


def _chain(flow: Flow, sink: Sink, schemas: Mapping[Port, Schema]) -> list[Port]:
    """The ports from the last part that remembers, joins or begins down to the sink's input."""
    chain = [sink.inputs[0]]
    while True:
        part = flow[chain[0].step]
        streams = [port for port in part.inputs if port in schemas and not schemas[port].table]
        if isinstance(part, Source) or remembers(part) or len(streams) != 1:
            return chain
        chain.insert(0, streams[0])


def _query(flow: Flow, found: Wires, base: str, members: list[tuple[Sink, list[Port]]]) -> Query:
    common = members[0][1]
    for _, chain in members[1:]:
        common = [a for a, b in zip(common, chain, strict=False) if a == b]
    if common and common[0].port in _sides(flow[base]):
        common = []  # what is put aside comes with the step's own answers
    # A table that is read again must be met by each batch anew, so its join stays out of the streaming part.
    again = [i for i, port in enumerate(common) if isinstance(part := flow[port.step], Step) and renewed(flow, part)]
    common = common[: again[0]] if again else common
    if remembers(flow[base]):
        # Behind state a batch cannot be read again, so what may be rejected there stays out of the streaming part.
        first = 0 if getattr(flow[base], "expect", None) is not None else 1
        bad = [i for i, port in enumerate(common) if i >= first and may_reject(flow[port.step])]
        common = common[: max(1, bad[0])] if bad else common
    return _made(flow, found, base, [sink for sink, _ in members], common[-1] if common else Port(base))


def _made(flow: Flow, found: Wires, name: str, sinks: Sequence[Sink], trunk: Port) -> Query:
    above = (*flow.upstream(trunk.step), trunk.step)
    order = [part.name for part in flow.ordered()]
    steps = tuple(sorted((n for n in above if isinstance(flow[n], Step)), key=order.index))
    ticks = any(_ticks(flow[n], found) for n in steps)
    pause = min((p for n in steps if (p := _every(flow[n])) is not None), default=None)
    return Query(
        name=name,
        trunk=trunk,
        sources=tuple(s.name for s in flow.sources if s.name in above and s.table is None),
        steps=steps,
        sinks=tuple(sink.name for sink in sinks),
        changes=found.changes.get(trunk, Changes.APPEND),
        stateful=tuple(n for n in reversed(_met(flow, trunk.step)) if remembers(flow[n])),
        ticks=ticks,
        every=max(TICK, pause or TICK) if ticks else pause,
    )


def _met(flow: Flow, step: str) -> tuple[str, ...]:
    """A step and what is above it in the order in which Spark meets them: itself, then each input with all above."""
    return tuple(dict.fromkeys((step, *(name for port in flow[step].inputs for name in _met(flow, port.step)))))


def format_of(part: Source | Sink, default: str | None) -> Format[Any] | None:
    """The format of a part with its options: its own, or the one its connector takes by default."""
    name = part.format or default
    if name is None:
        return None
    model = FORMATS[name].options_model
    return FORMATS[name](part.format_options if part.format_options is not None else model())


def needed(flow: Flow, schemas: Mapping[Port, Schema]) -> dict[str, frozenset[str]]:
    """Rule "needed columns": what each source must read, worked out from the sinks up."""
    wanted: dict[Port, frozenset[str]] = {}
    for part in reversed(flow.ordered()):
        given = tuple(schemas[port] for port in part.inputs)
        if isinstance(part, Sink):
            takes: tuple[frozenset[str], ...] = (frozenset(given[0].names),)
        elif isinstance(part, Step):
            operator: Operator = part.options
            out = frozenset().union(*(wanted.get(Port(part.name, p), frozenset()) for p in operator.ports()))
            out |= _expected(part, schemas)
            takes = operator.needs(out, given)
        else:
            continue
        for port, names in zip(part.inputs, takes, strict=True):
            spelled = frozenset(f.name for n in names if (f := schemas[port].find(n)) is not None)
            time = schemas[port].event_time
            wanted[port] = wanted.get(port, frozenset()) | spelled | ({time} if time else frozenset())
    return {s.name: wanted.get(Port(s.name), frozenset()) | _expected(s, schemas) for s in flow.sources}


def _expected(part: Source | Step, schemas: Mapping[Port, Schema]) -> frozenset[str]:
    """The columns that a part's rules read."""
    if part.expect is None:
        return frozenset()
    names: frozenset[str] = part.expect.columns(schemas[Port(part.name)])
    return names


def wanted(flow: Flow, schemas: Mapping[Port, Schema], source: Source) -> Schema:
    """The columns that are read of a source."""
    schema = schemas[Port(source.name)]
    names = needed(flow, schemas)[source.name]
    if source.table is not None:
        names |= {*source.table.key, source.table.latest_by or ""}
    kept = schema.keeping(names)
    # A bare count needs rows, not columns; one column keeps the rows.
    return kept if kept.fields else schema.keeping(schema.names[:1])


def in_record(source: Source, columns: Schema) -> Schema:
    """The columns to be decoded: the time as the author stated it, or left out where it is not in the record."""
    if source.time is None or columns.event_time is None:
        return columns
    if source.time.kind != "event":
        return Schema.of((f.name, f.type) for f in columns if f.name != columns.event_time)
    stated = source.schema.find(columns.event_time) if source.schema is not None else None
    return columns if stated is None else columns.with_columns([(stated.name, stated.type)])
