"""Parameters: what a flow leaves open, each with a type, given when the flow is checked, tested or run.

In a flow file, `parameters: {limit: {type: int, default: 10, description: …}}`.
`${param:limit}` stands for the value wherever an option is written. As the whole of an option it is a value of the
parameter's type; within a text it is put in as text, so a string in an expression stands in quotes:
`user = '${param:user}'`. A value comes from `--param`, else the run that is resumed, else the environment
(`HEADRACE_PARAM_LIMIT`), else `[parameters]` of headrace.toml, else the default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_core import PydanticCustomError

from headrace.errors import Problem, nearest
from headrace.expressions.columns import Col
from headrace.expressions.expression import Expression
from headrace.expressions.literals import type_of_value
from headrace.expressions.tree import Literal as Written
from headrace.expressions.tree import Node
from headrace.model import Location, Parameter, Places
from headrace.options import Options, parse_duration, show_duration

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
REFERENCE = re.compile(r"\$\{param:([^}]*)\}")
TYPES = ("string", "int", "float", "bool", "duration", "date", "timestamp")
_PYTHON: dict[object, str] = {
    str: "string",
    int: "int",
    float: "float",
    bool: "bool",
    timedelta: "duration",
    datetime: "timestamp",
    date: "date",
}


class ParameterOptions(Options):
    """What a flow says about one of its parameters."""

    shorthand = "default"

    type: Literal["string", "int", "float", "bool", "duration", "date", "timestamp"] | None = Field(
        None, description="What values it takes; unset: what its default is."
    )
    default: Any = Field(None, description="Its value if none is given; unset: one must be given.")
    description: str = Field("", description="What it is for.")
    choices: tuple[Any, ...] = Field((), description="The only values it takes.")


class Param(str):
    """A reference to a parameter, for the Python API: it can stand for a value, and within a text."""


def reference(name: str) -> Param:
    """What stands for a parameter's value."""
    return Param(f"${{param:{name}}}")


def type_named(given: object) -> object:
    """A type as a flow file spells it: Python's own types stand for theirs."""
    return _PYTHON.get(given, given) if isinstance(given, type) else given


@dataclass(frozen=True, kw_only=True)
class Values:
    """Where values come from, the strongest first; what is asked for must be a parameter, the rest only may be."""

    asked: Mapping[str, Any] = field(default_factory=dict)
    remembered: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    project: Callable[[], Mapping[str, Any]] = dict
    """Asked only for a parameter that nobody else gives a value: most flows have none, and a check must be quick."""
    strict: bool = True
    """Whether everything that is asked for must be a parameter of this very flow."""

    def find(self, flow: str, name: str) -> tuple[Any, str] | None:
        """The value given for a parameter of a flow, and where; None if there is none."""
        if name in self.asked:
            return self.asked[name], f"--param {name}"
        if name in self.remembered:
            return self.remembered[name], "the run"
        variable = f"HEADRACE_PARAM_{name.upper().replace('-', '_')}"
        if variable in self.environment:
            return self.environment[variable], f"environment {variable}"
        given = self.project()
        own = given.get(flow)
        for table in (own if isinstance(own, Mapping) else {}, given):
            if name in table and not isinstance(table[name], Mapping):
                return table[name], "headrace.toml"
        return None


def fit(value: Any, kind: str) -> Any:
    """A value as a parameter's type has it; raises ValueError with what is expected.

    >>> fit("20", "int"), fit("1h", "duration"), fit(True, "bool")
    (20, datetime.timedelta(seconds=3600), True)
    """
    text = str(value).strip()
    try:
        match kind:
            case "int" if not isinstance(value, bool | float):
                return int(text)
            case "float" if not isinstance(value, bool):
                return float(text)
            case "bool" if text.lower() in ("true", "false"):
                return text.lower() == "true"
            case "duration":
                return parse_duration(value)
            case "date":
                return value if type(value) is date else date.fromisoformat(text)
            case "timestamp":
                when = value if isinstance(value, datetime) else datetime.fromisoformat(text)
                return when if when.tzinfo else when.replace(tzinfo=UTC)
            case "string" if isinstance(value, str | int | float):
                return str(value).lower() if isinstance(value, bool) else str(value)
    except (ValueError, PydanticCustomError):
        pass
    raise ValueError(_EXPECTED[kind])


_EXPECTED = {
    "string": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "duration": 'a length of time, such as "10 seconds"',
    "date": "a date, such as 2026-01-31",
    "timestamp": "a time, such as 2026-01-31T12:00:00Z",
}


def plain(value: Any) -> Any:
    """A parameter's value as an option takes it, and as it is kept with a run."""
    if isinstance(value, timedelta):
        return show_duration(value)
    return value.isoformat() if isinstance(value, date) else value


def as_text(value: Any) -> str:
    """A parameter's value within a text."""
    return str(value).lower() if isinstance(value, bool) else str(plain(value))


@dataclass
class Parameters:
    """The parameters of a flow being resolved: what they are, their values, and what is wrong with them."""

    declared: tuple[Parameter, ...] = ()
    names: tuple[str, ...] = ()
    """Of all that were written, also of those that could not be understood: what uses them is not blamed."""
    values: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    places: Places = field(default=Places())

    @classmethod
    def of(cls, flow: str, declared: Mapping[str, Any], places: Places, given: Values) -> Parameters:
        """Declarations read, and the value of each found."""
        found = cls(places=places, names=tuple(str(name) for name in declared))
        for name, said in declared.items():
            parameter = found._declare(str(name), said)
            if parameter is not None:
                found.declared = (*found.declared, parameter)
                found._value(flow, parameter, given)
        for name in given.asked if given.strict else ():
            if name not in found.names:
                hint = (
                    nearest(name, found.names) or "it has none; declare it: `parameters: {NAME: {type: …, default: …}}`"
                )
                found._say("unknown-parameter", f'flow "{flow}" has no parameter "{name}"', Location("--param"), hint)
        return found

    def _say(self, code: str, message: str, at: Location, hint: str = "") -> None:
        self.problems.append(Problem(code=code, message=message, location=at, hint=hint))

    def _declare(self, name: str, said: Any) -> Parameter | None:
        at = self.places.at("parameters", name)
        if not NAME.fullmatch(name):
            self._say("bad-parameter", f"a parameter cannot be named {name!r}", at, "letters, digits, - and _")
            return None
        try:
            options = ParameterOptions.model_validate(said if isinstance(said, Mapping) else {"default": said})
        except ValidationError as error:
            for wrong in error.errors(include_url=False, include_input=False):
                where = self.places.at("parameters", name, *wrong["loc"])
                unknown = wrong["type"] == "extra_forbidden"
                hint = nearest(str(wrong["loc"][-1]), ParameterOptions.model_fields if unknown else TYPES)
                about = f'option "{wrong["loc"][-1]}"'
                message = f"has no {about}" if unknown else f"{about}: {wrong['msg'].lower()}"
                self._say("bad-parameter", f'parameter "{name}" {message}', where, hint)
            return None
        kind = options.type or _PYTHON.get(type(options.default))
        if kind is None:
            self._say("bad-parameter", f'parameter "{name}" has no type', at, f"add `type:` one of {', '.join(TYPES)}")
            return None
        try:
            default = None if options.default is None else fit(options.default, kind)
            choices = tuple(fit(choice, kind) for choice in options.choices)
        except ValueError as error:
            self._say("bad-parameter", f'parameter "{name}" is {kind}, and its default must be {error}', at)
            return None
        return Parameter(name=name, type=kind, default=default, description=options.description, choices=choices)

    def _value(self, flow: str, parameter: Parameter, given: Values) -> None:
        name, at = parameter.name, self.places.at("parameters", parameter.name)
        found = given.find(flow, name)
        if found is None:
            if parameter.default is None:
                hint = f"--param {name}=…, or give it a default"
                self._say("missing-parameter", f'parameter "{name}" of flow "{flow}" is not given', at, hint)
            else:
                self.values[name] = parameter.default
            return
        value, where = found
        try:
            fitted = fit(value, parameter.type)
        except ValueError as error:
            message = f'parameter "{name}" is {parameter.type}, not {value!r}'
            self._say("bad-parameter", message, Location(where), f"it takes {error}")
            return
        if parameter.choices and fitted not in parameter.choices:
            known = ", ".join(as_text(choice) for choice in parameter.choices)
            message = f'parameter "{name}" cannot be {as_text(fitted)!r}'
            self._say("bad-parameter", message, Location(where), f"it takes {known}")
            return
        self.values[name] = fitted

    def fill(self, data: Any, places: Places, *path: str | int) -> tuple[Any, tuple[str, ...], bool]:
        """Data with its references replaced, the parameters it uses, and whether all of them have a value."""
        filling = _Filling(self, places)
        filled = filling.of(data, path)
        self.used |= set(filling.uses)
        return filled if filling.uses else data, tuple(sorted(set(filling.uses))), filling.complete

    def unused(self) -> list[Problem]:
        """What was declared and is used nowhere."""
        return [
            Problem(
                code="unused",
                message=f'parameter "{p.name}" is not used',
                location=self.places.at("parameters", p.name),
                hint=f"write ${{param:{p.name}}} where it is to stand, or remove it",
                warning=True,
            )
            for p in self.declared
            if p.name not in self.used
        ]


@dataclass
class _Filling:
    """One walk through the data of a part."""

    parameters: Parameters
    places: Places
    uses: list[str] = field(default_factory=list)
    complete: bool = True

    def of(self, value: Any, path: tuple[str | int, ...]) -> Any:
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, Mapping):
            return {name: self.of(inner, (*path, name)) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(inner, (*path, index)) for index, inner in enumerate(value)]
        if isinstance(value, Col):
            value = value.expression
        if isinstance(value, Expression) and any(_refers(node) for node in value.tree.walk()):
            made = Expression(self._tree(value.tree, path))
            return Expression(made.tree, made.sql)
        return value

    def _text(self, text: str, path: tuple[str | int, ...]) -> Any:
        whole = REFERENCE.fullmatch(text)
        if whole:
            value = self._find(whole[1], path, 0)
            return text if value is None else plain(value)

        def put(found: re.Match[str]) -> str:
            value = self._find(found[1], path, found.start())
            if value is None:
                return found[0]
            # Between quotes it is a text of SQL: a quote in the value must not end it.
            quoted = text[: found.start()].endswith("'") and text[found.end() :].startswith("'")
            said = as_text(value)
            return said.replace("\\", "\\\\").replace("'", "\\'") if quoted else said

        return REFERENCE.sub(put, text) if "${param:" in text else text

    def _find(self, name: str, path: tuple[str | int, ...], at: int) -> Any:
        name = name.strip()
        self.uses.append(name)
        known = self.parameters.names
        if name not in known:
            hint = nearest(name, known) or "declare it: `parameters: {NAME: {type: …, default: …}}`"
            where = self.places.at(*path).right(at)
            self.parameters._say("unknown-parameter", f'the flow has no parameter "{name}"', where, hint)
        value = self.parameters.values.get(name)
        self.complete = self.complete and value is not None
        return value

    def _tree(self, node: Node, path: tuple[str | int, ...]) -> Node:
        if isinstance(node, Written) and _refers(node):
            whole = REFERENCE.fullmatch(node.value)
            value = self._find(whole[1], path, 0) if whole else self._text(node.value, path)
            kind = type_of_value(value) if value is not None else None
            return node if kind is None else replace(node, value=value, type=kind)
        return replace(node, **{f.name: self._inside(getattr(node, f.name), path) for f in fields(node) if f.init})

    def _inside(self, value: Any, path: tuple[str | int, ...]) -> Any:
        if isinstance(value, Node):
            return self._tree(value, path)
        return tuple(self._inside(v, path) for v in value) if isinstance(value, tuple) else value


def _refers(node: Node) -> bool:
    return isinstance(node, Written) and isinstance(node.value, str) and "${param:" in node.value


def in_sql(expression: Expression, declared: tuple[Parameter, ...]) -> str:
    """A column expression that refers to parameters as the SQL text that means the same."""
    kinds = {p.name: p.type for p in declared}

    def unquoted(found: re.Match[str]) -> str:
        kind = kinds.get(found[1], "string")
        if kind in ("date", "timestamp"):
            return f"{kind.upper()} {found[0]}"
        if kind == "duration":
            return f"INTERVAL {found[0]}"
        return found[0] if kind == "string" else found[0][1:-1]

    return re.sub(r"'\$\{param:([^}]*)\}'", unquoted, expression.sql)
