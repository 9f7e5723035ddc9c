"""The rules a flow must keep: small, pure, in one ordered tuple. Each looks at everything and says all it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from headrace.catalogue import FORMATS, OPERATORS, SINKS
from headrace.check.changing import keys_tell_rows_apart, what_changes_stays
from headrace.check.checked import Checked, Rule
from headrace.check.checked import problem as _problem
from headrace.check.guarantees import strongest
from headrace.check.real_time import SHORTEST, in_the_way
from headrace.check.streaming import only_in_batches
from headrace.check.wires import ports_of, renewed
from headrace.errors import Problem, nearest
from headrace.goal import goal_of
from headrace.model import DEAD_LETTER, OUT, Changes, Delivery, Flow, Part, Port, Sink, Source, Step
from headrace.operators.base import Operator
from headrace.options import refused_setting, show_duration


def inputs_exist(checked: Checked) -> Iterator[Problem]:
    """Everything reads from something that is there, by a port it has."""
    flow = checked.flow
    readable = {p.name: p for p in flow if not isinstance(p, Sink)}
    for part in flow:
        for port in part.inputs:
            if port.step in checked.broken:
                continue
            if port.step not in readable:
                what = "reads from a sink," if port.step in flow else "reads from"
                hint = nearest(port.step, readable).replace("It takes", "There are")
                yield _problem(
                    part,
                    "unknown-input",
                    f'{what} "{port.step}", which {"gives nothing" if port.step in flow else "does not exist"}',
                    "from",
                    hint=hint,
                )
            elif port.port not in ports_of(flow[port.step]):
                ports = ports_of(flow[port.step])
                if port.port == OUT:
                    ports = tuple(p for p in ports if p != DEAD_LETTER)
                    hint = f"read from one of {', '.join(f'{port.step}.{p}' for p in ports)}"
                    yield _problem(
                        part, "unknown-input", f'reads from "{port}", which has several ports', "from", hint=hint
                    )
                else:
                    yield _problem(
                        part,
                        "unknown-input",
                        f'reads from "{port}", which is not a port of "{port.step}"',
                        "from",
                        hint=nearest(port.port, ports),
                    )


def input_counts(checked: Checked) -> Iterator[Problem]:
    """Every operator has as many inputs as it takes."""
    for part in checked.flow:
        wanted = OPERATORS[part.operator].inputs if isinstance(part, Step) else 1
        if isinstance(part, Source) or wanted is None or len(part.inputs) == wanted:
            continue
        word = part.operator if isinstance(part, Step) else part.connector
        yield _problem(
            part,
            "bad-option",
            f"reads from {len(part.inputs)} streams, but {word} takes {wanted}",
            "from",
            hint="put streams together with a union first" if wanted == 1 else "",
        )


def no_cycles(checked: Checked) -> Iterator[Problem]:
    """Records cannot run in a circle."""
    for group in checked.flow.cycles():
        part = checked.flow[group[0]]
        if isinstance(part, Sink):
            continue  # nothing can be read from it, which is said already
        yield _problem(
            part,
            "cycle",
            "reads from itself",
            "from",
            detail=f"by way of {', '.join(group)}",
            hint="break the circle at a topic",
        )


def leads_somewhere(checked: Checked) -> Iterator[Problem]:
    """A flow has a source and a sink, and everything in between is used."""
    flow = checked.flow
    kinds_lost = bool(checked.broken)  # a part that could not be understood may be the source or sink that is missed
    read_by_broken = {port.step for ports in checked.broken.values() for port in ports}
    for word, sql, parts in (("source", "STREAM", flow.sources), ("sink", "SINK", flow.sinks)):
        if not parts and not kinds_lost:
            code = "no-sink" if word == "sink" else "no-source"
            yield Problem(
                code=code,
                message=f'flow "{flow.name}" has no {word}',
                location=flow.places.location,
                hint=f"`{word}s:` in a flow file, `.{word}(…)` in Python, CREATE {sql} in SQL",
            )
    readable: tuple[Part, ...] = (*flow.sources, *flow.steps)
    used = {i.step for part in flow for i in part.inputs if i.port != DEAD_LETTER} | read_by_broken
    for part in readable:
        if part.name not in used:
            yield _problem(
                part,
                "unused",
                "is not read by anything",
                hint="let a step or a sink read from it, or remove it",
            )


def columns_fit(checked: Checked) -> Iterator[Problem]:
    """Every step has the columns and types it asks for."""
    yield from checked.wires.problems


def sinks_fit(checked: Checked) -> Iterator[Problem]:
    """Every sink can take what reaches it: columns, format, and whether rows may change."""
    for sink in checked.flow.sinks:
        given = checked.wires.given(sink)
        if given is None or len(given) != 1:
            continue
        connector = SINKS[sink.connector](sink.options)
        columns = given[0]
        for name in (*connector.key(), *connector.requires(columns)):
            if name not in columns:
                hint = nearest(name, columns.names).replace("It takes", "The input has")
                yield _problem(
                    sink,
                    "unknown-column",
                    f'({sink.connector}) uses column "{name}", which its input does not have',
                    sink.connector,
                    hint=hint,
                )
        form = sink.format or connector.default_format
        if connector.carries == "rows":
            if sink.format is not None:
                yield _problem(
                    sink,
                    "format-unused",
                    f"({sink.connector}) writes columns, not bytes",
                    "format",
                    hint="remove format",
                )
        elif form is None:
            yield _problem(
                sink,
                "format-required",
                f"({sink.connector}) is not told the format to write",
                hint="add `format: json`",
            )
        elif not (FORMATS[form].in_files if connector.carries == "files" else FORMATS[form].in_messages):
            yield _problem(
                sink, "unsupported", f"({sink.connector}) cannot write format {form}", "format", hint="use json"
            )
        if checked.wires.changes[sink.inputs[0]] is Changes.UPDATE and not connector.takes_updates():
            yield _problem(
                sink,
                "sink-needs-final",
                f"({sink.connector}) cannot change what it wrote, but its input gives new values for keys",
                "from",
                hint="use a sink with a key (sqlite, postgresql, kafka with a key), or a window with `emit: final`",
            )


def guarantees_hold(checked: Checked) -> Iterator[Problem]:
    """No sink asks for more than its path can give."""
    for sink in checked.flow.sinks:
        if sink.delivery is None or checked.wires.given(sink) is None:
            continue
        can = strongest(checked.flow, sink)
        if Delivery.parse(sink.delivery) > can.delivery:
            yield _problem(
                sink,
                "guarantee-too-strong",
                f"asks for {sink.delivery}, but its path can give {can.delivery}",
                "delivery",
                detail=can.because,
                hint=f"ask for {can.delivery}, or use another connector",
            )


def state_is_bounded(checked: Checked) -> Iterator[Problem]:
    """What grows for ever is named."""
    for step in checked.flow.steps:
        given = checked.wires.given(step)
        operator: Operator = step.options
        state = operator.state(given) if given else None
        if state is not None and state.bound is None:
            yield _problem(
                step,
                "state-unbounded",
                f"keeps {state.what} for ever",
                hint=state.hint or "that is fine for a bounded set of keys; else use a window",
                warning=True,
            )


def windows_can_follow(checked: Checked) -> Iterator[Problem]:
    """What remembers takes facts, not values that are replaced; Spark cannot take back what was counted."""
    for step in checked.flow.steps:
        changing = [port for port in step.inputs if checked.wires.changes.get(port) is Changes.UPDATE]
        if step.name not in checked.remembering:
            yield from _mixed(checked, step, changing)
            continue
        above = [name for name in checked.flow.upstream(step.name) if name in checked.closing]
        if changing:
            yield _problem(
                step,
                "unsupported",
                f'would count values that are replaced later: "{changing[0]}" gives new values for keys',
                "from",
                hint="let what it reads from give each window once (`emit: final`)",
            )
        elif above and checked.wires.changes.get(Port(step.name)) is Changes.UPDATE:
            yield _problem(
                step,
                "unsupported",
                f'cannot give changing answers behind "{above[-1]}", which gives each window once',
                step.operator,
                "emit",
                detail="Spark gives either final or changing answers in all of a query",
                hint="give it a window and `emit: final`, or write the windows to a topic and read them from there",
            )


def _mixed(checked: Checked, step: Step, changing: list[Port]) -> Iterator[Problem]:
    """Final and changing answers put together: in one query Spark would give the windows before they are complete."""
    flow = checked.flow
    once = [port.step for port in step.inputs if port not in changing]
    final = [n for name in once for n in (name, *flow.upstream(name)) if n in checked.closing]
    if changing and final:
        yield _problem(
            step,
            "unsupported",
            f'puts changing answers of "{changing[0]}" together with those of "{final[0]}", which are given once',
            "from",
            detail="Spark gives either final or changing answers in all of a query",
            hint="give each a sink of its own, or write one of them to a topic and read it from there",
        )


def sides_are_not_remembered(checked: Checked) -> Iterator[Problem]:
    """What is put aside reaches sinks batch by batch, outside the stream, so nothing behind it can remember."""
    for step in checked.flow.steps:
        given = checked.wires.given(step)
        operator: Operator = step.options
        if not given or (operator.state(given) is None and len(step.inputs) == 1):
            continue
        port = next((p for i in step.inputs for p in _path(checked.flow, i) if p.port in _sides(checked.flow, p)), None)
        together = step.operator == "union" and all(checked.flow.letters_of(i) for i in step.inputs)
        if port is not None and not together:
            yield _problem(
                step,
                "unsupported",
                f'cannot follow "{port}": what is put aside can be changed and written, not remembered or joined',
                "from",
                hint="write it to a topic, and read it from there in another source",
            )


def late_records_can_be_told(checked: Checked) -> Iterator[Problem]:
    """What is late is told by the watermark; behind a join of streams Spark has another one, and does not say which."""
    flow = checked.flow
    for step in flow.steps:
        if not step.options.sides():
            continue
        above = (flow[name] for name in flow.upstream(step.name))
        back = [part.name for part in above if isinstance(part, Step) and part.options.holds_time_back()]
        if back:
            yield _problem(
                step,
                "unsupported",
                f'cannot tell which records are late behind "{back[-1]}", which joins streams by their times',
                step.operator,
                "late",
                detail="Spark holds the watermark back there, by how much it does not say",
                hint="drop them, or write what is joined to a topic and read it from there in another source",
            )


def letters_can_be_found(checked: Checked) -> Iterator[Problem]:
    """A record that breaks a rule between two steps that remember cannot be found again."""
    flow = checked.flow
    for step in flow.steps:
        raising = between(flow, step, lambda p: p.name in checked.remembering) if step.options.rejects() else None
        if raising:
            yield _problem(
                step,
                "unsupported",
                f'stops the flow if its function raises, between "{raising[0]}" and "{raising[1]}", which remember',
                step.operator,
                detail="what state gave is not given again, so the record could not be found to be put aside",
                hint="let the function catch what it may meet, or put it before or behind those steps",
                warning=True,
            )
        if step.expect is None or not any(step.expect.fate(r) == "dead-letter" for r in step.expect.rules):
            continue
        above = [n for n in (step.name, *flow.upstream(step.name)) if n in checked.remembering]
        below = [name for name in flow.downstream(step.name) if name in checked.remembering]
        if above and below:
            yield _problem(
                step,
                "unsupported",
                f'cannot keep dead letters between "{above[0]}" and "{below[0]}", which remember',
                "expect",
                detail="what state gave is not given again, so a record that is left out there cannot be found",
                hint="write `else: drop` or `else: stop`, or put the rules before or behind those steps",
            )


def between(flow: Flow, step: Step, remembers: Callable[[Part], bool]) -> tuple[str, str] | None:
    """The steps that remember and that records of a function lie between, where none can be found again.

    A step that calls its function with its state, such as `process`, tells of each record itself.
    """
    operator: Operator = step.options
    if remembers(step) and not operator.rejects_entering():
        return None
    above = [name for name in flow.upstream(step.name) if remembers(flow[name])]
    below = [name for name in flow.downstream(step.name) if remembers(flow[name])]
    below = [step.name, *below] if remembers(step) else below
    return (above[-1], below[0]) if above and below else None


def _sides(flow: Flow, port: Port) -> tuple[str, ...]:
    part = flow[port.step]
    return (*(part.options.sides() if isinstance(part, Step) else ()), DEAD_LETTER)


def _path(flow: Flow, port: Port) -> Iterator[Port]:
    """The ports from one up to where records come from, as long as there is one way."""
    while port.step in flow:
        yield port
        inputs = flow[port.step].inputs
        if len(inputs) != 1 or port.port in _sides(flow, port):
            return
        port = inputs[0]


def tables_are_joined(checked: Checked) -> Iterator[Problem]:
    """A table brings no records: it leads, by steps that remember nothing, to a join as the second input."""
    flow, schemas = checked.flow, checked.wires.schemas
    for part in flow:
        tables = [i for i, port in enumerate(part.inputs) if port in schemas and schemas[port].table]
        if not tables or (isinstance(part, Step) and (part.operator in ("join", "process") or _plain(part))):
            continue
        yield _problem(
            part,
            "unsupported",
            f'reads from "{part.inputs[tables[0]]}", which is a table and brings no records',
            "from",
            hint="join a stream with it: `from: [stream, table]`, `join: {on: …}`",
        )
    for step in flow.steps:
        tables_again = renewed(flow, step)
        below = flow.downstream(step.name) if tables_again else ()
        behind = [name for name in below if name in checked.remembering]
        if behind:
            yield _problem(
                step,
                "unsupported",
                f'joins table "{tables_again[0]}", which is read again, before "{behind[0]}", which remembers',
                step.operator,
                detail="the part of a flow up to its last step that remembers is planned once, with its tables",
                hint="join behind that step, read the table only once, or use `lookup`, which may stand anywhere",
            )


def _plain(step: Step) -> bool:
    return len(step.inputs) == 1 and step.options.state(()) is None


def streams_can_do_it(checked: Checked) -> Iterator[Problem]:
    """What runs in batches only is named; it is refused when a stream of it is started."""
    yield from (replace(found, warning=True) for found in only_in_batches(checked.flow))


def settings_are_allowed(checked: Checked) -> Iterator[Problem]:
    """No setting of Spark's makes answers wrong."""
    flow = checked.flow
    for name, value in flow.spark:
        if wrong := refused_setting(name, value):
            message, hint = wrong
            location = flow.places.at("spark", name)
            yield Problem(code="bad-option", message=message, location=location, hint=hint)


def store_fits(checked: Checked) -> Iterator[Problem]:
    """State that Spark does not handle itself is held in RocksDB."""
    flow = checked.flow
    if flow.state != "memory":
        return
    for step in flow.steps:
        if step.options.in_rocksdb_only():
            why = "handles its state in Python" if step.options.python_state else "keeps records in their order"
            yield _problem(
                step,
                "unsupported",
                f"({step.operator}) {why}, which cannot be done in memory",
                step.operator,
                detail="Spark offers this kind of state on RocksDB only",
                hint="write `state: rocksdb`, or leave it out",
            )


def times_are_those(checked: Checked) -> Iterator[Problem]:
    """A column that is called the time of an input, as in `tumble(at, …)`, is its event time."""
    for claim in checked.claims:
        if claim.step not in checked.flow or len(checked.flow[claim.step].inputs) <= claim.input:
            continue
        schema = checked.wires.schemas.get(checked.flow[claim.step].inputs[claim.input])
        time = schema.event_time if schema else None
        if schema is not None and time is not None and time.lower() != claim.column.lower():
            yield Problem(
                code="unknown-column" if claim.column not in schema else "unsupported",
                message=f'step "{claim.step}" takes "{claim.column}" for the time, but the event time is "{time}"',
                location=claim.location,
                step=claim.step,
                hint=f"write {time}, or give the stream another EVENT TIME",
            )


def goal_can_be_met(checked: Checked) -> Iterator[Problem]:
    """A latency that no micro-batch keeps is kept in real-time mode, if the whole flow runs there."""
    goal = goal_of(checked.flow)
    if goal is None or goal.latency is None or goal.latency >= SHORTEST:
        return
    if checked.broken or checked.flow.cycles() or any(not p.warning for p in checked.wires.problems):
        return  # what could not be understood is not to be blamed for more
    asked = show_duration(goal.latency)
    for problem in in_the_way(checked.flow, checked.wires):
        detail = f"a latency of {asked} is asked for; micro-batches keep {show_duration(SHORTEST)}"
        yield replace(problem, detail=detail)


RULES: tuple[Rule, ...] = (
    inputs_exist,
    input_counts,
    no_cycles,
    leads_somewhere,
    columns_fit,
    sinks_fit,
    keys_tell_rows_apart,
    what_changes_stays,
    tables_are_joined,
    windows_can_follow,
    sides_are_not_remembered,
    late_records_can_be_told,
    letters_can_be_found,
    guarantees_hold,
    streams_can_do_it,
    settings_are_allowed,
    store_fits,
    state_is_bounded,
    times_are_those,
    goal_can_be_met,
)
