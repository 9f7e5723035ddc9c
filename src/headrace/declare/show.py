"""A flow as plain values in the shape of a flow file: what `convert`, `diff` and the flow-file writer start from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.declare.parameters import in_sql, plain
from headrace.expressions.columns import Col
from headrace.expressions.expression import Expression
from headrace.model import Flow, Parameter, Port, Schema, Sink, Source, Step
from headrace.operators.functions import Function
from headrace.options import Options


def show(flow: Flow) -> dict[str, Any]:
    """The flow as the shortest flow file would say it; reading it again gives an equal flow."""
    said: dict[str, Any] = {"flow": flow.name}
    if flow.description:
        said["description"] = flow.description
    if "goal" in flow.written:
        said["goal"] = flow.written["goal"]
    elif flow.goal is not None:
        said["goal"] = show_options(flow.goal)
    if flow.state:
        said["state"] = flow.state
    if flow.parameters:
        said["parameters"] = {p.name: _parameter(p) for p in flow.parameters}
    if "dead_letters" in flow.written:
        said["dead_letters"] = flow.written["dead_letters"]
    elif flow.dead_letters is not None:
        said["dead_letters"] = show_options(flow.dead_letters)
    if flow.spark:
        said["spark"] = flow.written.get("spark") or dict(flow.spark)
    for section, parts in (("sources", flow.sources), ("steps", flow.steps), ("sinks", flow.sinks)):
        if parts:
            said[section] = {part.name: show_entry(part) for part in parts}
    return said


def _parameter(parameter: Parameter) -> dict[str, Any]:
    said: dict[str, Any] = {"type": parameter.type}
    if parameter.default is not None:
        said["default"] = plain(parameter.default)
    if parameter.description:
        said["description"] = parameter.description
    if parameter.choices:
        said["choices"] = [plain(choice) for choice in parameter.choices]
    return said


def as_written(data: Any, declared: tuple[Parameter, ...], option: str = "") -> Any:
    """What an author gave an entry, as plain values with the references to parameters kept."""
    if isinstance(data, Mapping):
        return {str(name): as_written(value, declared, str(name)) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [as_written(value, declared) for value in data]
    if isinstance(data, Col):
        data = data.expression
    if isinstance(data, Expression):
        return in_sql(data, declared)
    if isinstance(data, Schema):
        return show_schema(data)
    if isinstance(data, Options):
        return show_options(data)
    if callable(data):
        named = Function.parse(data).plain()
        return named["python"] if option == "python" else named
    return str(data) if isinstance(data, str) else plain(data)


def show_entry(part: Source | Step | Sink) -> dict[str, Any]:
    """One source, step or sink as its entry in a flow file."""
    if part.written is not None:
        return dict(part.written)
    said: dict[str, Any] = {}
    if part.inputs:
        said["from"] = _inputs(part.inputs)
    if isinstance(part, Step):
        said[part.operator] = show_options(part.options)
        return said | ({"expect": show_options(part.expect)} if part.expect is not None else {})
    said[part.connector] = show_options(part.options)
    if part.format is not None:
        options = show_options(part.format_options) if part.format_options else {}
        said["format"] = {part.format: options} if options else part.format
    if isinstance(part, Source):
        if part.schema is not None:
            said["schema"] = show_schema(part.schema)
        if part.time is not None:
            said["time"] = show_options(part.time)
        if part.table is not None:
            said["table"] = show_options(part.table) or True
        if part.expect is not None:
            said["expect"] = show_options(part.expect)
    else:
        if part.delivery is not None:
            said["delivery"] = part.delivery
        if part.goal is not None:
            said["goal"] = show_options(part.goal)
    return said


def _inputs(ports: tuple[Port, ...]) -> str | list[str]:
    names = [str(port) for port in ports]
    return names[0] if len(names) == 1 else names


def show_schema(schema: Schema) -> str:
    """DDL in the spelling the guide uses: types in capitals.

    >>> show_schema(Schema.parse("id long, tags array<string>"))
    'id BIGINT, tags ARRAY<STRING>'
    """
    from headrace.model.types import quote

    return ", ".join(f"{quote(f.name)} {_capitals(str(f.type))}" for f in schema.fields)


def _capitals(kind: str) -> str:
    return kind if "struct<" in kind else kind.upper()


def full_options(options: Options) -> dict[str, Any]:
    """Options by name, without their defaults."""
    return options.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def show_options(options: Options) -> Any:
    """Options without their defaults; a single one that has a short form is written in it."""
    said = full_options(options)
    short = options.shorthand
    if (
        short is not None
        and list(said) == [short]
        and (not isinstance(said[short], dict) or _unambiguous(said[short], options))
    ):
        return said[short]
    return said


def _unambiguous(names: dict[str, Any], options: Options) -> bool:
    """Whether a mapping of the author's names cannot be taken for the options themselves."""
    fields = set(type(options).model_fields) | {f.alias for f in type(options).model_fields.values() if f.alias}
    return not set(names) <= fields
