"""A plan in words: what `headrace explain` prints."""

from __future__ import annotations

from typing import Any

from headrace.catalogue import SINKS, SOURCES
from headrace.check.rules import between
from headrace.check.wires import Wires, wires
from headrace.compile.plan import Plan
from headrace.compile.planner import format_of, in_record, remembers, wanted
from headrace.model import OUT, Mode, Port, Schema, Sink, Source, Step
from headrace.operators.base import Operator, State
from headrace.options import show_duration


def explain(plan: Plan) -> dict[str, Any]:
    """The plan as plain data, for `--json`; `text` makes lines of it."""
    flow = plan.flow
    found = wires(flow)
    return {
        "flow": flow.name,
        "mode": str(plan.mode),
        "steps": [_part(plan, found, part) for part in flow.ordered()],
        "queries": [
            {
                "name": q.name,
                "reads": list(q.sources),
                "steps": list(q.steps),
                "writes": list(q.sinks),
                "output": q.changes.value,
                "every": show_duration(q.every) if q.every else None,
                "trunk": str(q.trunk),
            }
            for q in plan.queries
        ],
        "ledger": [{"part": name, "counted": said} for name, said in _ledger(plan)],
        "guarantees": [{"sink": p.sink, "delivery": str(p.delivery), "because": p.because} for p in plan.promises],
        "settings": [{"name": c.what, "value": c.value, "why": c.why, "by_author": c.by_author} for c in plan.choices],
    }


def _part(plan: Plan, found: Wires, part: Source | Step | Sink) -> dict[str, Any]:
    kind = type(part).__name__.lower()
    said: dict[str, Any] = {"name": part.name, "kind": kind, "from": [str(p) for p in part.inputs]}
    if isinstance(part, Step):
        operator: Operator = part.options
        given = found.given(part) or ()
        state = operator.state(given)
        ports = {port: str(plan.schemas[Port(part.name, port)]) for port in operator.ports()}
        return said | {
            "does": part.operator,
            # What Python does along the way in a batch is done after it in real-time mode.
            "how": "native" if plan.mode is Mode.REAL_TIME else operator.how(given),
            "columns": ports.get(OUT, next(iter(ports.values()))),
            "ports": [p for p in ports if p != OUT],
            "state": _state(state),
            "rejects": _rejects(plan, part),
            "stops": _stops(plan, part),
        }
    if isinstance(part, Source):
        schema = plan.schemas[Port(part.name)]
        time = None
        if schema.event_time:
            time = f"{schema.event_time}; {part.time.show(SOURCES[part.connector].arrival is not None)}"
        return (
            said
            | {"does": part.connector, "columns": str(schema), "event_time": time, "table": _table(part)}
            | {"rejects": _rejects(plan, part), "coded": _decoded(plan, part)}
        )
    columns = plan.schemas[part.inputs[0]]
    return said | {"does": part.connector, "columns": str(columns), "coded": _encoded(plan, part, columns)}


def _decoded(plan: Plan, source: Source) -> str | None:
    """How the bytes of a source become columns, where there is something to say."""
    connector = SOURCES[source.connector]
    form = format_of(source, connector.default_format) if connector.carries == "bytes" else None
    if form is None:
        return None
    beside = connector(source.options).metadata().names
    parsed = in_record(source, wanted(plan.flow, plan.schemas, source))
    return form.decodes(parsed.keeping(name for name in parsed.names if name not in beside), _zone(plan))


def _zone(plan: Plan) -> str:
    return plan.spark["spark.sql.session.timeZone"]


def _encoded(plan: Plan, sink: Sink, schema: Schema) -> str | None:
    """How the rows of a sink become bytes, where there is something to say."""
    connector = SINKS[sink.connector]
    form = format_of(sink, connector.default_format) if connector.carries == "bytes" else None
    return None if form is None else form.encodes(schema, _zone(plan))


def _rejects(plan: Plan, part: Source | Step) -> dict[str, Any] | None:
    """What becomes of records a part cannot take; None: it takes all."""
    rules = part.expect.rules if part.expect is not None else ()
    unreadable = isinstance(part, Source) and part.table is None and SOURCES[part.connector].carries != "rows"
    causes = ["cannot be read"] if unreadable or (isinstance(part, Source) and part.time is not None) else []
    raises = isinstance(part, Step) and part.options.rejects() and not between(plan.flow, part, remembers)
    causes += ["make a Python function raise"] if raises else []
    if not (causes or rules):
        return None
    to = [s.name for s in plan.flow.sinks if part.name in plan.flow.letters_of(s.inputs[0])]
    return {
        "when": causes,
        "rules": [{"rule": str(rule), "else": part.expect.fate(rule)} for rule in rules],
        "dead_letters_to": to,
    }


def _stops(plan: Plan, part: Step) -> str | None:
    """Which of a step's functions stop the flow when they raise, and why."""
    operator: Operator = part.options
    around = between(plan.flow, part, remembers) if operator.rejects() else None
    why = f"its function: the record cannot be found again between {around[0]} and {around[1]}" if around else ""
    return "; ".join(filter(None, (why, operator.stops()))) or None


def _bad(rejects: dict[str, Any]) -> list[str]:
    """The same in words."""
    kept = f"sink {', '.join(rejects['dead_letters_to'])} and " if rejects["dead_letters_to"] else ""
    lines = [f"      rule     {one['rule']}; else {one['else']}" for one in rejects["rules"]]
    causes = [*rejects["when"], *["break a rule"] * any(one["else"] == "dead-letter" for one in rejects["rules"])]
    return lines + ([f"      bad      records that {' or '.join(causes)}: {kept}the run's home"] if causes else [])


def _ledger(plan: Plan) -> list[tuple[str, str]]:
    """What is counted of each part in each batch, and what must add up."""
    said: list[tuple[str, str]] = []
    for part in plan.flow.ordered():
        if isinstance(part, Source):
            offsets = "offsets = read + lost upstream + offsets without a record; " if part.connector == "kafka" else ""
            if part.table is None:
                said.append((part.name, f"{offsets}read = emitted + dead-lettered"))
        elif isinstance(part, Step):
            operator: Operator = part.options
            said.append((part.name, _BALANCES[operator.balance()]))
        else:
            said.append((part.name, "given = written + skipped as already written"))
    return said


_BALANCES = {
    "each": "read = emitted + dead-lettered",
    "some": "read = emitted + filtered + dead-lettered",
    "others": "read and emitted are counted; it makes other records, so neither tells the other",
    "once": "read = emitted + repeated + late + dead-lettered, unless other steps of its query remember too",
    "state": "read, late, emitted and held are counted; records become others in state, so no sum is checked",
}


def _table(source: Source) -> str | None:
    if source.table is None:
        return None
    again = source.table.refresh
    return f"read again when older than {show_duration(again)}" if again else "read when the run starts"


def _state(state: State | None) -> dict[str, Any] | None:
    return None if state is None else {"what": state.what, "bound": state.bound}


def text(plan: Plan) -> str:
    """The plan for a reader."""
    said = explain(plan)
    lines = [f"flow {said['flow']}, {said['mode']}", "", "steps"]
    for step in said["steps"]:
        source = f" <- {', '.join(step['from'])}" if step["from"] else ""
        lines.append(f"  {step['name']}: {step['does']}{source}")
        lines.append(f"      columns  {step['columns']}")
        if step.get("coded"):
            lines.append(f"      {'written ' if step['kind'] == 'sink' else 'read    '} {step['coded']}")
        if step.get("event_time"):
            lines.append(f"      time     {step['event_time']}")
        if step.get("table"):
            lines.append(f"      table    {step['table']}")
        if step.get("ports"):
            lines.append(f"      ports    {', '.join(step['ports'])}")
        if step.get("how"):
            lines.append(f"      runs as  {step['how']}")
        if step.get("rejects"):
            lines += _bad(step["rejects"])
        if step.get("stops"):
            lines.append(f"      raising  stops the flow in {step['stops']}")
        if step.get("state"):
            bound = step["state"]["bound"] or "nothing: it grows for ever"
            lines.append(f"      state    {step['state']['what']}; bounded by: {bound}")
    lines += ["", "queries"]
    for query in said["queries"]:
        every = f", every {query['every']}" if query["every"] else ""
        does = " -> ".join([", ".join(query["reads"]), *query["steps"], ", ".join(query["writes"])])
        lines.append(f"  {query['name']}: {does} ({query['output']}{every})")
    lines += ["", "guarantees"]
    lines += [f"  {g['sink']}: {g['delivery']}, because {g['because']}" for g in said["guarantees"]]
    lines += ["", "ledger"]
    lines += [f"  {one['part']}: {one['counted']}" for one in said["ledger"]]
    lines += ["", "settings"]
    for setting in said["settings"]:
        mark = " (yours)" if setting["by_author"] else ""
        lines.append(f"  {setting['name']} = {setting['value']}{mark}: {setting['why']}")
    return "\n".join(lines)
