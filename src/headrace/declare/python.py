"""A flow as Python: calls that read well, each tried before it is written, and one spelling that fits every step."""

from __future__ import annotations

import inspect
import json
import keyword
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from headrace.declare.api import Flow as Builder
from headrace.declare.api import Split, Stream
from headrace.declare.draft import Draft
from headrace.declare.flowfile import SECTIONS
from headrace.declare.resolve import resolve
from headrace.declare.show import full_options, show, show_entry
from headrace.errors import HeadraceError
from headrace.model import OUT, Flow, Port, Sink, Source, Step
from headrace.operators import windows

WIDTH = 120
_WINDOWS = ("tumbling", "hopping", "session", "sliding", "count")
_SPREAD = {"select": "columns", "drop": "columns", "distinct": "by"}
"""Operators whose method takes the items of an option one by one."""
_NAMED = {"with": "columns", "rename": "columns", "map": "columns", "aggregate": "compute", "split": "into"}
"""Operators whose method takes the names of an option as its own keywords."""
_FIRST = {"filter": ("where",), "explode": ("each",), "limit": ("rows",), "process": ("python",)}
"""Options that go without their name."""


class Code(str):
    """Python that stands for itself."""


def write(flow: Flow) -> str:
    """The flow as a Python file; running it gives an equal flow."""
    return _Writer(flow).text()


def part(flow: Flow, name: str) -> str:
    """The call that makes one part of a flow; what it reads from are variables."""
    writer = _Writer(flow)
    writer.written |= {p.name for p in flow if p.name != name}
    found = flow[name]
    if isinstance(found, Source):
        return f"{writer.variables[name]} = {writer.source(found)}"
    return writer.sink(found) if isinstance(found, Sink) else f"{writer.variables[name]} = {writer.step(found)}"


def literal(value: Any) -> str:
    """A value as Python, texts in double quotes.

    >>> literal({"a": [1, "it's", None]})
    '{"a": [1, "it\\'s", None]}'
    """
    if isinstance(value, Code):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(literal(v) for v in value) + "]"
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return f'float("{value}")'
    return repr(value)


def _call(target: str, positional: list[Any], named: Mapping[str, Any], lead: int = 0) -> str:
    """A call on one line, or on several if it is long."""
    given = [literal(value) for value in positional] + [f"{key}={literal(value)}" for key, value in named.items()]
    flat = f"{target}({', '.join(given)})"
    if lead + len(flat) <= WIDTH:
        return flat
    inner = "".join(f"    {one},\n" for one in given)
    return f"{target}(\n{inner})"


class _Writer:
    """Writes one flow: a variable for each part that others read from."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.variables: dict[str, str] = {}
        self.written: set[str] = set()
        self.imports: set[str] = {"Flow"}
        taken = {"flow", "Flow", *_WINDOWS}
        for own in [*(s.name for s in flow.sources), *(s.name for s in flow.steps)]:
            base = name = _identifier(own)
            number = 2
            while name in taken:
                name, number = f"{base}_{number}", number + 1
            taken.add(name)
            self.variables[own] = name

    def text(self) -> str:
        flow = self.flow
        shown = show(flow)
        settings = {k: v for k, v in shown.items() if k not in (*SECTIONS, "flow", "parameters")}
        lines = [_call("flow = Flow", [flow.name], settings)]
        lines += [_call("flow.param", [n, said.pop("type")], said) for n, said in shown.get("parameters", {}).items()]
        lines.append("")
        lines += [self.assigned(source.name, self.source(source)) for source in flow.sources]
        for step in flow.steps:
            lines.append(self.assigned(step.name, self.step(step)))
        lines += [self.sink(sink) for sink in flow.sinks]
        head = [
            f'"""{_sentence(flow)}"""',
            "",
            f"from headrace import {', '.join(sorted(self.imports, key=_order))}",
            "",
        ]
        return "\n".join([*head, *lines]) + "\n"

    def assigned(self, name: str, call: str) -> str:
        self.written.add(name)
        return f"{self.variables[name]} = {call}" if self.flow.readers(name) else call

    def source(self, source: Source) -> str:
        entry = show_entry(source)
        options = _by_name(entry.pop(source.connector), source.options)
        given = {**_keywords(options), **_keywords(entry)}
        return _call("flow.source", [source.name, source.connector], given, len(self.variables[source.name]) + 3)

    def sink(self, sink: Sink) -> str:
        entry = show_entry(sink)
        entry.pop("from", None)
        options = _by_name(entry.pop(sink.connector), sink.options)
        given = {**_keywords(options), **_keywords(entry)}
        return _call(f"{self.port(sink.inputs[0])}.sink", [sink.name, sink.connector], given)

    def port(self, port: Port) -> str:
        """The stream that leaves by a port."""
        variable = self.variables.get(port.step, "")
        if port.port == OUT:
            return variable
        step = self.flow[port.step]
        if isinstance(step, Step) and step.operator == "split":
            return f"{variable}[{literal(port.port)}]"
        own = isinstance(getattr(Stream, port.port, None), property)
        return f"{variable}.{port.port}" if own else f"{variable}.port({literal(port.port)})"

    def step(self, step: Step) -> str:
        """The call that reads best among those that make exactly this step."""
        if step.expect is not None:
            return self.expecting(step)
        imports = set(self.imports)
        if all(port.step in self.written for port in step.inputs):
            for spelled in (self.natural, self.keywords):
                made = spelled(step)
                if made is not None and self.makes(made, step):
                    return made
                self.imports = set(imports)
        return self.general(step)

    def expecting(self, step: Step) -> str:
        """The call that makes the step, and its rules behind it."""
        rules = show_entry(step)["expect"]
        bare = None if step.written is None else {k: v for k, v in step.written.items() if k != "expect"}
        made = self.step(replace(step, expect=None, written=bare))
        if not isinstance(rules, Mapping) or "rules" not in rules:
            rules = {"rules": rules}
        listed = rules["rules"] if isinstance(rules["rules"], list) else [rules["rules"]]
        return _call(f"{made}.expect", list(listed), _keywords({k: v for k, v in rules.items() if k != "rules"}))

    def lead(self, step: Step) -> int:
        return len(self.variables[step.name]) + 3

    def natural(self, step: Step) -> str | None:
        """The operator's own method, in the spelling people use."""
        options = _options(step)
        if options is None:
            return None
        positional: list[Any] = [step.name, *self.others(step)]
        positional += [options.pop(option) for option in _FIRST.get(step.operator, ()) if option in options]
        named = options.pop(_NAMED.get(step.operator, ""), None)
        items = options.pop(_SPREAD.get(step.operator, ""), None)
        if items is not None:
            positional += (
                [items]
                if isinstance(items, str)
                else [{k: v} for k, v in items.items()]
                if isinstance(items, dict)
                else items
            )
        given = _keywords({k: self.window(v) if k == "window" else v for k, v in options.items()})
        given |= self.second(step)
        if named is not None:
            columns = _as_mapping(named)
            plain = all(_is_keyword(name) and name not in given and name not in _parameters(step) for name in columns)
            if plain:
                given |= columns
            elif step.operator == "aggregate":
                given["compute"] = columns
            else:
                positional.append(columns)
        return _call(f"{self.port(step.inputs[0])}.{_method(step)}", positional, given, self.lead(step))

    def keywords(self, step: Step) -> str | None:
        """The operator's own method with all options by name."""
        options = _options(step)
        if options is None or not hasattr(Stream, _method(step)):
            return None
        given = {**_keywords(options), **self.second(step)}
        target = f"{self.port(step.inputs[0])}.{_method(step)}"
        return _call(target, [step.name, *self.others(step)], given, self.lead(step))

    def general(self, step: Step) -> str:
        entry = show_entry(step)
        inputs = entry.pop("from")
        return _call("flow.step", [step.name, step.operator, inputs, entry.pop(step.operator)], {}, self.lead(step))

    def others(self, step: Step) -> list[Code]:
        """The other streams that a step reads, where its method takes them in order."""
        if step.operator == "process":
            return []
        return [Code(self.port(port)) for port in step.inputs[1:]]

    def second(self, step: Step) -> dict[str, Any]:
        if step.operator == "process" and len(step.inputs) == 2:
            return {"initial": Code(self.port(step.inputs[1]))}
        return {}

    def window(self, said: Any) -> Any:
        """A window by the function that makes it."""
        kind = next((k for k in _WINDOWS if k in said), "") if isinstance(said, Mapping) else ""
        if not kind:
            return said
        rest = {k: v for k, v in said.items() if k != kind}
        if not set(rest) <= set(inspect.signature(getattr(windows, kind)).parameters):
            return said
        self.imports.add(kind)
        return Code(_call(kind, [said[kind]], rest))

    def makes(self, call: str, step: Step) -> bool:
        """Whether a call makes just this step."""
        builder = Builder("x")
        known: dict[str, Any] = {name: getattr(windows, name) for name in _WINDOWS}
        known["flow"] = builder
        for name, variable in self.variables.items():
            part = self.flow[name]
            splits = isinstance(part, Step) and part.operator == "split"
            known[variable] = Split(builder, name) if splits else Stream(builder, name)
        try:
            eval(call, known)
        except (TypeError, AttributeError, SyntaxError, HeadraceError, ValueError):
            return False
        declared = resolve(Draft(name="x", entries=builder.draft().entries))
        return not declared.problems and declared.flow.steps == (step,)


def _method(step: Step) -> str:
    return f"{step.operator}_" if keyword.iskeyword(step.operator) else step.operator


def _parameters(step: Step) -> tuple[str, ...]:
    method: Callable[..., Any] | None = getattr(Stream, _method(step), None)
    return tuple(inspect.signature(method).parameters) if method is not None else ()


def _options(step: Step) -> dict[str, Any] | None:
    """A step's options by name; None if it says more than that."""
    entry = show_entry(step)
    entry.pop("from", None)
    said = entry.pop(step.operator)
    if entry:
        return None
    full = full_options(step.options)
    written = getattr(step, "written", None)
    return full if written is None else _by_name(said, step.options)


def _by_name(said: Any, options: Any) -> dict[str, Any]:
    return dict(said) if isinstance(said, Mapping) else {type(options).shorthand or "": said}


def _as_mapping(columns: Any) -> dict[str, Any]:
    """`{name: value}` of columns in any of their spellings."""
    if isinstance(columns, Mapping):
        return dict(columns)
    items = [columns] if isinstance(columns, str) else columns
    return {k: v for item in items for k, v in (item.items() if isinstance(item, Mapping) else [(item, item)])}


def _keywords(options: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{key}_" if keyword.iskeyword(key) else key: value for key, value in options.items()}


def _is_keyword(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name)


def _identifier(name: str) -> str:
    made = re.sub(r"\W", "_", name)
    return (
        f"{made}_" if keyword.iskeyword(made) or made in ("print", "list", "type", "all", "max", "min", "sum") else made
    )


def _sentence(flow: Flow) -> str:
    text = flow.description or f"The flow {flow.name}."
    return text.replace("\\", "\\\\").replace('"""', "'''").replace("\n", " ").rstrip('"')


def _order(name: str) -> tuple[bool, str]:
    return name[0].islower(), name
