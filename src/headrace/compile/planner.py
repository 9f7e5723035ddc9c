"""From a checked flow to a plan: which queries, which settings, and why. Pure; no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from headrace.check.guarantees import promise
from headrace.check.wires import Wires, renewed, wires
from headrace.compile.plan import Choice, Plan, Query
from headrace.errors import FlowError
from headrace.model import Changes, Flow, Mode, Part, Port, Schema, Sink, Source, Step
from headrace.operators.base import Operator


def plan(flow: Flow, *, mode: Mode | None = None, cores: int = 2) -> Plan:
    """What will run. `cores` is how many tasks can run at once; it sizes the shuffle."""
    found = wires(flow)
    errors = [p for p in found.problems if not p.warning]
    if errors:
        raise FlowError(*errors)
    chosen = mode or Mode.MICRO_BATCH
    choices = (
        Choice(
            what="mode",
            value=str(chosen),
            why="asked for" if mode else "the default: every operator and sink runs in it",
            by_author=mode is not None,
        ),
        *_settings(flow, cores),
    )
    return Plan(
        flow=flow,
        mode=chosen,
        queries=queries(flow, found),
        schemas=found.schemas,
        promises=tuple(promise(flow, sink) for sink in flow.sinks),
        choices=choices,
        changes=found.changes,
        spark={c.what: c.value for c in choices if c.what.startswith("spark.")},
    )


def _settings(flow: Flow, cores: int) -> tuple[Choice, ...]:
    """Spark settings with their reasons; the author's own come last and win."""
    stateful = [s.name for s in flow.steps if remembers(s)]
    ours = {
        "spark.sql.shuffle.partitions": (
            str(cores),
            f"one per core ({cores}); 200, Spark's default, costs 4 times the throughput",
        ),
        "spark.sql.adaptive.enabled": ("false", "a streaming plan is the same each batch; re-planning it costs time"),
        "spark.sql.session.timeZone": ("UTC", "the same answer on every machine"),
    }
    timed = [s.name for s in flow.sources if s.time is not None]
    if len(timed) > 1:
        ours["spark.sql.streaming.multipleWatermarkPolicy"] = (
            "min",
            f"the slowest of {', '.join(timed)} leads, so that nothing of it is late; with max the fastest does, "
            "and a source that pauses holds nothing back",
        )
    if stateful:
        ours |= _in_memory() if flow.state == "memory" else _in_rocksdb(stateful, asked=flow.state is not None)
    authors = dict(flow.spark)
    return (
        *(Choice(what=k, value=v, why=why) for k, (v, why) in ours.items() if k not in authors),
        *(Choice(what=k, value=v, why="set in the flow", by_author=True) for k, v in authors.items()),
    )


_STORE = "spark.sql.streaming.stateStore"
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state"


def _in_memory() -> dict[str, tuple[str, str]]:
    why = "state: memory, asked for: all state is held on the heap"
    return {f"{_STORE}.providerClass": (f"{_PROVIDERS}.HDFSBackedStateStoreProvider", why)}


def _in_rocksdb(stateful: list[str], *, asked: bool) -> dict[str, tuple[str, str]]:
    why = "state: rocksdb, asked for" if asked else f"state of {', '.join(stateful)} may outgrow memory"
    return {
        f"{_STORE}.providerClass": (f"{_PROVIDERS}.RocksDBStateStoreProvider", why),
        f"{_STORE}.rocksdb.changelogCheckpointing.enabled": ("true", "a batch writes what changed, not all of it"),
        f"{_STORE}.rocksdb.boundedMemoryUsage": ("true", "all state of a process shares one cache, not one per part"),
        f"{_STORE}.rocksdb.maxMemoryUsageMB": ("512", "that cache, beside Java's heap; what is more lies on disk"),
    }


def remembers(part: Part) -> bool:
    """Whether a part keeps something between batches."""
    if not isinstance(part, Step):
        return False
    operator: Operator = part.options
    return operator.state(()) is not None


def _every(part: Part) -> timedelta | None:
    return part.options.every() if isinstance(part, Step) else None


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
    trunk = common[-1] if common else Port(base)
    above = (*flow.upstream(trunk.step), trunk.step)
    order = [part.name for part in flow.ordered()]
    steps = tuple(sorted((n for n in above if isinstance(flow[n], Step)), key=order.index))
    return Query(
        name=base,
        trunk=trunk,
        sources=tuple(s.name for s in flow.sources if s.name in above and s.table is None),
        steps=steps,
        sinks=tuple(sink.name for sink, _ in members),
        changes=found.changes.get(trunk, Changes.APPEND),
        stateful=tuple(n for n in steps if remembers(flow[n])),
        every=min((p for n in steps if (p := _every(flow[n])) is not None), default=None),
    )


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
