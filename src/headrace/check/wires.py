"""What runs through every wire of a flow: its columns, and whether rows are facts or new values.

Worked out once, from the sources down; the rules, the planner and `explain` all read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.catalogue import FORMATS, OPERATORS, SOURCES
from headrace.errors import Problem
from headrace.model import OUT, Changes, Flow, Part, Port, Schema, Source, Step
from headrace.model.types import STRING, TIMESTAMP, UNKNOWN
from headrace.operators.base import Operator


@dataclass(frozen=True, kw_only=True)
class Wires:
    """Columns and meaning per port; a port is missing where they could not be worked out."""

    schemas: Mapping[Port, Schema]
    changes: Mapping[Port, Changes]
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
        self.schemas[port] = self.timed(source, schema)

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

    def timed(self, source: Source, schema: Schema) -> Schema:
        schema = schema.timed(None)
        if source.time is None:
            return schema
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
        if column.type not in (TIMESTAMP, UNKNOWN):
            detail = "a text is parsed when the schema says TIMESTAMP" if column.type == STRING else ""
            self.say(
                source,
                "type-mismatch",
                f'the time of source "{source.name}" must be TIMESTAMP, but "{column.name}" is {column.type}',
                "time",
                "column",
                hint=detail or "state the column as TIMESTAMP in the schema",
            )
            return schema
        return schema.timed(column.name)

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
                hint=hint,
                detail=detail,
                at=at,
                warning=warning,
            )

        changes = operator.changes(tuple(self.changes[port] for port in step.inputs))
        for port, schema in operator.outputs(known, say).items():
            self.schemas[Port(step.name, port)] = schema
            self.changes[Port(step.name, port)] = changes

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


def _kind(part: Part) -> str:
    return part.operator if isinstance(part, Step) else part.connector


def wires(flow: Flow) -> Wires:
    """The columns on every wire, and what is wrong with the steps between them."""
    walk = _Walk(flow)
    for part in flow.ordered():
        if isinstance(part, Source):
            walk.source(part)
        elif isinstance(part, Step):
            walk.step(part)
    return Wires(schemas=walk.schemas, changes=walk.changes, problems=tuple(walk.problems))


def ports_of(part: Part) -> tuple[str, ...]:
    """The names of a part's outputs; a sink has none."""
    if isinstance(part, Step):
        operator: Operator = part.options
        return operator.ports()
    return (OUT,) if isinstance(part, Source) else ()
