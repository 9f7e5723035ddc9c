"""What runs through every wire of a flow: its columns, and whether rows are facts or new values.

Worked out once, from the sources down; the rules, the planner and `explain` all read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.catalogue import FORMATS, OPERATORS, SOURCES
from headrace.connectors.time import PROCESSING
from headrace.errors import Problem, nearest
from headrace.model import DEAD_LETTER, OUT, Changes, Delivery, Flow, Part, Port, Schema, Source, Step
from headrace.model.types import BIGINT, INT, STRING, TIMESTAMP, UNKNOWN
from headrace.operators.base import WITHOUT_TIME, Operator
from headrace.operators.letters import LETTERS
from headrace.operators.windows import END, NUMBER, START

ANSWER = ""
"""Stands for what changes of a row, beside the names of what identifies it."""


@dataclass(frozen=True)
class Rows:
    """What tells the rows of a changing result apart, and what each column, by its name in lower case, has of it."""

    parts: tuple[str, ...] = ()
    columns: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def of(self, column: str) -> frozenset[str]:
        return self.columns.get(column.lower(), frozenset())


@dataclass(frozen=True, kw_only=True)
class Wires:
    """Columns and meaning per port; a port is missing where they could not be worked out."""

    schemas: Mapping[Port, Schema]
    changes: Mapping[Port, Changes]
    rows: Mapping[Port, Rows] = field(default_factory=dict)
    """Of ports with new values for keys: what each column tells of a row."""
    problems: tuple[Problem, ...] = ()

    def given(self, part: Part) -> tuple[Schema, ...] | None:
        """The columns of each input, or None if one is not known."""
        found = [self.schemas.get(port) for port in part.inputs]
        return tuple(s for s in found if s is not None) if None not in found else None


@dataclass
class _Walk:
    flow: Flow
    schemas: dict[Port, Schema] = field(default_factory=dict)
    changes: dict[Port, Changes] = field(default_factory=dict)
    rows: dict[Port, Rows] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def source(self, source: Source) -> None:
        schema = self.source_schema(source)
        if schema is None:
            return
        port = Port(source.name)
        self.changes[port] = Changes.APPEND
        for fault in SOURCES[source.connector](source.options).faults(schema):
            message = f'source "{source.name}" ({source.connector}): {fault.message}'
            self.say(source, fault.code, message, source.connector, *fault.option, hint=fault.hint)
        self.schemas[port] = self.as_table(source, schema) if source.table else self.timed(source, schema)
        self.expected(source, self.schemas[port])
        if source.table is None and SOURCES[source.connector].only_table:
            message = (
                f'source "{source.name}" ({source.connector}) is read as a table only: it does not tell what is new'
            )
            hint = "add `table: true` or `table: {refresh: 1 minute}`, and join a stream with it"
            self.say(source, "unsupported", message, source.connector, hint=hint)
        if source.table is None:
            self.letters(source)

    def letters(self, part: Part) -> None:
        self.schemas[Port(part.name, DEAD_LETTER)] = LETTERS
        self.changes[Port(part.name, DEAD_LETTER)] = Changes.APPEND

    def expected(self, part: Source | Step, *given: Schema) -> None:
        """Says what is wrong with the rules of a part."""
        if part.expect is None:
            return
        title = f'{type(part).__name__.lower()} "{part.name}"'

        def say(
            code: str,
            message: str,
            *option: str | int,
            hint: str = "",
            detail: str = "",
            at: int = 0,
            warning: bool = False,
        ) -> None:
            path = (
                tuple(o for o in option if o != "rules") if ("expect", "rules") not in part.places.options else option
            )
            self.say(part, code, f"{title} expects: {message}", "expect", *path, hint=hint, detail=detail, at=at)

        if len(given) != 1:
            say("unsupported", "a step with several ports has no rules of its own", hint="put them on a step behind it")
        else:
            part.expect.check(given[0], say)

    def source_schema(self, source: Source) -> Schema | None:
        connector = SOURCES[source.connector](source.options)
        name = f'source "{source.name}" ({source.connector})'
        own = connector.columns()
        if own is not None:
            for word, given in (("format", source.format), ("schema", source.schema)):
                if given is not None:
                    self.say(source, "format-unused", f"{name} has columns of its own", word, hint=f"remove {word}")
            return own
        format_name = source.format or connector.default_format
        stated = source.schema
        if connector.carries != "rows":
            if format_name is None:
                self.say(
                    source,
                    "format-required",
                    f"{name} carries bytes and is not told their format",
                    hint="add `format: json`",
                )
                return None
            form = FORMATS[format_name]
            if not (form.in_files if connector.carries == "files" else form.in_messages):
                what = "files" if connector.carries == "files" else "single messages"
                self.say(source, "unsupported", f"format {format_name} cannot be read from {what}", "format")
                return None
            stated = stated or form.own_schema
        if stated is None:
            self.say(
                source,
                "schema-required",
                f"the columns of {name} are not known",
                hint="add `schema: name TYPE, name TYPE`",
            )
            return None
        return Schema((*stated.fields, *connector.metadata().fields))

    def as_table(self, source: Source, schema: Schema) -> Schema:
        title = f'source "{source.name}" ({source.connector})'
        if SOURCES[source.connector].strongest is not Delivery.EXACTLY_ONCE:
            self.say(source, "unsupported", f"{title} cannot be read as a table: it cannot be read twice", "table")
        if source.time is not None:
            self.say(
                source, "bad-option", f"{title} is a table, and a table has no watermark", "time", hint="remove time"
            )
        for name in (*source.table.key, *((source.table.latest_by,) if source.table.latest_by else ())):
            if name not in schema:
                hint = nearest(name, schema.names).replace("It takes", "It has")
                self.say(source, "unknown-column", f'{title} has no column "{name}"', "table", hint=hint)
        return replace(schema.timed(None), table=True)

    def timed(self, source: Source, schema: Schema) -> Schema:
        schema = schema.timed(None)
        if source.time is None:
            return schema
        if source.time.kind != "event":
            return self.clocked(source, schema)
        if source.time.ahead is not None and SOURCES[source.connector].arrival is None:
            self.say(
                source,
                "unsupported",
                f'source "{source.name}" ({source.connector}) does not know when a record arrived',
                "time",
                "ahead",
                detail='"ahead" is counted from there, so that a replay believes the same records',
                hint='give a fixed bound: `before: "2100-01-01T00:00:00Z"`',
            )
        column = schema.find(source.time.column)
        if column is None:
            self.say(
                source,
                "unknown-column",
                f'the time of source "{source.name}" is column "{source.time.column}", which it does not have',
                "time",
                "column",
                hint=f"it has {schema}",
            )
            return schema
        if column.type != UNKNOWN and column.type not in source.time.reads():
            detail = ""
            if source.time.format is not None:
                detail = f"this time format reads {' or '.join(sorted(str(t).upper() for t in source.time.reads()))}"
            elif column.type == STRING:
                detail = "a text is parsed when the schema says TIMESTAMP; write `format` if it is not ISO 8601"
            elif column.type in (BIGINT, INT):
                detail = "say what the number counts: `format: epoch-milliseconds`"
            self.say(
                source,
                "type-mismatch",
                f'the time of source "{source.name}" must be TIMESTAMP, but "{column.name}" is {column.type}',
                "time",
                "column",
                hint=detail or "state the column as TIMESTAMP in the schema",
            )
            return schema.with_columns([(column.name, TIMESTAMP)]).timed(column.name)  # said once is enough
        return schema.with_columns([(column.name, TIMESTAMP)]).timed(column.name)

    def clocked(self, source: Source, schema: Schema) -> Schema:
        """The columns with the one that tells ingestion or processing time."""
        name = PROCESSING if source.time.kind == "processing" else SOURCES[source.connector].arrival
        if name is None:
            self.say(
                source,
                "unsupported",
                f'source "{source.name}" ({source.connector}) does not know when a record arrived',
                "time",
                hint="use a column (`time: {column: …}`) or `time: processing`",
            )
            return schema
        return schema.with_columns([(name, TIMESTAMP)]).timed(name)

    def step(self, step: Step) -> None:
        given = [self.schemas.get(port) for port in step.inputs]
        if not given or None in given or not self._right_count(step):
            return
        known = tuple(s for s in given if s is not None)
        operator: Operator = step.options

        def say(
            code: str,
            message: str,
            *option: str | int,
            hint: str = "",
            detail: str = "",
            at: int = 0,
            warning: bool = False,
        ) -> None:
            self.say(
                step,
                code,
                f'step "{step.name}": {message}',
                step.operator,
                *option,
                hint=hint.replace(WITHOUT_TIME, self.with_time(step)) if WITHOUT_TIME in hint else hint,
                detail=detail,
                at=at,
                warning=warning,
            )

        changes = operator.changes(tuple(self.changes[port] for port in step.inputs))
        for port, schema in operator.outputs(known, say).items():
            is_table = all(s.table for s in known) and operator.state(known) is None
            self.schemas[Port(step.name, port)] = replace(schema, table=is_table)
            self.changes[Port(step.name, port)] = Changes.APPEND if port in operator.sides() else changes
            if changes is Changes.UPDATE and port not in operator.sides():
                self.rows[Port(step.name, port)] = self.told(step, known, schema)
        main = [p for p in operator.ports() if p not in operator.sides()]
        self.expected(step, *(self.schemas[Port(step.name, p)] for p in main))
        if not self.schemas[Port(step.name, main[0])].table:
            self.letters(step)

    def with_time(self, step: Step) -> str:
        """What to do about records without an event time: at the step that lost it, else at the source."""
        for name in reversed(self.flow.upstream(step.name)):
            part = self.flow[name]
            given = [self.schemas[port] for port in part.inputs if port in self.schemas]
            times = [schema.event_time for schema in given if schema.event_time]
            if isinstance(part, Step) and times and (made := self.schemas.get(Port(name))) and not made.event_time:
                instead = part.options.time_instead() or f'keep its column "{times[0]}"'
                return f'step "{name}" gives records without their event time: {instead}'
        return WITHOUT_TIME

    def told(self, step: Step, given: tuple[Schema, ...], made: Schema) -> Rows:
        """What each column of a changing result tells of its row."""
        operator: Operator = step.options
        above = [self.rows.get(port, Rows()) for port in step.inputs]
        parts = dict.fromkeys(part for rows in above for part in rows.parts)
        if operator.identifies():
            names = {name.lower(): _part(name) for name in operator.identifies()}
            parts = dict.fromkeys(names.values())
            columns = {name: frozenset({names.get(name, ANSWER)}) for name in map(str.lower, made.names)}
            return Rows(tuple(parts), columns)

        def told(name: str) -> frozenset[str]:
            read = zip(operator.needs(frozenset({name}), given), above, strict=True)
            return frozenset(part for names, rows in read for n in names for part in rows.of(n))

        return Rows(tuple(parts), {name.lower(): told(name) for name in made.names})

    def _right_count(self, step: Step) -> bool:
        wanted = OPERATORS[step.operator].inputs
        return wanted is None or len(step.inputs) == wanted

    def say(
        self,
        part: Part,
        code: str,
        message: str,
        *option: str | int,
        hint: str = "",
        detail: str = "",
        at: int = 0,
        warning: bool = False,
    ) -> None:
        short = part.options.shorthand if option[:1] == (_kind(part),) else None
        location = part.places.at(*option, short=short).right(at)
        self.problems.append(
            Problem(
                code=code, message=message, location=location, step=part.name, hint=hint, detail=detail, warning=warning
            )
        )


def _part(name: str) -> str:
    """What a column tells of a row: both ends of a window and its number tell the window."""
    return START if name in (END, NUMBER) else name


def _kind(part: Part) -> str:
    return part.operator if isinstance(part, Step) else part.connector


def wires(flow: Flow) -> Wires:
    """The columns on every wire, and what is wrong with the steps between them."""
    walk = _Walk(flow)
    for part in _opened(flow).ordered():
        if isinstance(part, Source):
            walk.source(part)
        elif isinstance(part, Step):
            walk.step(part)
    return Wires(schemas=walk.schemas, changes=walk.changes, rows=walk.rows, problems=tuple(walk.problems))


def _opened(flow: Flow) -> Flow:
    """The flow without what comes back to a union by a circle, so that the columns behind it are known all the same."""
    around = {name: set(group) for group in flow.cycles() for name in group}
    if not around:
        return flow
    steps = []
    for step in flow.steps:
        outside = tuple(port for port in step.inputs if port.step not in around.get(step.name, ()))
        steps.append(replace(step, inputs=outside) if step.operator == "union" and outside else step)
    return replace(flow, steps=tuple(steps))


def renewed(flow: Flow, step: Step) -> tuple[str, ...]:
    """The tables that are read again while the flow runs and that a step joins its stream with."""
    if step.operator != "join" or len(step.inputs) < 2 or step.options.within is not None:
        return ()
    above = {step.inputs[1].step, *flow.upstream(step.inputs[1].step)}
    return tuple(s.name for s in flow.sources if s.name in above and s.table is not None and s.table.refresh)


def ports_of(part: Part) -> tuple[str, ...]:
    """The names of a part's outputs; a sink has none."""
    if isinstance(part, Step):
        operator: Operator = part.options
        return (*operator.ports(), DEAD_LETTER)
    if isinstance(part, Source):
        return (OUT,) if part.table is not None else (OUT, DEAD_LETTER)
    return ()
