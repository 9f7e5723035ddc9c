"""A flow as SQL: one statement for each part, in the spelling people use where reading it gives back just that part."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.declare.flowfile import SECTIONS
from headrace.declare.resolve import COMMON, resolve
from headrace.declare.show import full_options, show, show_entry
from headrace.declare.sql.groups import WINDOWS
from headrace.declare.sql.layout import layout
from headrace.declare.sql.read import read, reader_of
from headrace.expressions.expression import Expression
from headrace.expressions.functions import functions as known_functions
from headrace.expressions.literals import show_string
from headrace.expressions.show import name as quoted
from headrace.model import Flow, Port, Sink, Source, Step
from headrace.operators.columns import NamedValue
from headrace.operators.functions import Function
from headrace.options import Options

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WINDOW = {"tumbling": "tumble", "hopping": "hop", "session": "session", "sliding": "slide", "count": "count_window"}


@dataclass(frozen=True)
class Statements:
    """The statements of a flow: its settings, the functions it calls, and those about each part."""

    settings: list[str]
    functions: list[str]
    parts: dict[str, list[str]]


def write(flow: Flow) -> str:
    """The flow as a file of statements; reading it gives an equal flow."""
    made = statements(flow)
    parts = [text for part in flow for text in made.parts[part.name]]
    return tidy("\n".join([*made.settings, *made.functions, *parts]))


def statements(flow: Flow) -> Statements:
    """The statements that say a flow."""
    return _Writer(flow).statements()


def tidy(text: str) -> str:
    """SQL in the one layout; the text must be readable."""
    reader, _ = reader_of(text, "")
    reader.statements()
    return layout(reader)


def value(given: Any) -> str:
    """A value of an option.

    >>> value({"rows": [1, "it's"], "a b": None})
    "{rows: [1, 'it\\\\'s'], 'a b': null}"
    """
    if given is None or isinstance(given, bool):
        return {None: "null", True: "true", False: "false"}[given]
    if isinstance(given, int | float):
        return repr(given) if given == given and abs(given) != float("inf") else show_string(str(given))
    if isinstance(given, Mapping):
        return "{" + ", ".join(f"{_key(str(k))}: {value(v)}" for k, v in given.items()) + "}"
    if isinstance(given, list | tuple):
        return "[" + ", ".join(value(v) for v in given) + "]"
    return show_string(str(given))


def _key(name: str) -> str:
    return name if _WORD.fullmatch(name) else show_string(name)


def _options(given: Mapping[str, Any]) -> str:
    said = []
    for key, one in given.items():
        plain = _WORD.fullmatch(key)
        said.append(f"{key if plain else quoted(key)} = {value(one)}")
    return "(" + ", ".join(said) + ")"


class _Writer:
    """Writes one flow; Python functions are named as they are met."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.functions: dict[str, Function] = {}

    def statements(self) -> Statements:
        flow = self.flow
        shown = show(flow)
        apart = (*SECTIONS, "parameters", "spark")
        said = [f"SET {key} = {value(v)};" for key, v in shown.items() if key not in apart]
        said += [f"SET {_path(f'parameters.{key}')} = {value(v)};" for key, v in shown.get("parameters", {}).items()]
        said += [f"SET {_path(key)} = {value(v)};" for key, v in shown.get("spark", {}).items()]
        parts = {source.name: [self.source(source)] for source in flow.sources}
        parts |= {step.name: [self.step(step)] for step in flow.steps}
        parts |= {sink.name: self.sink(sink) for sink in flow.sinks}
        return Statements(said, [self.function(name, f) for name, f in self.functions.items()], parts)

    @staticmethod
    def function(name: str, function: Function) -> str:
        returns = f" RETURNS {show_string(function.returns)}" if function.returns else ""
        return f"CREATE FUNCTION {quoted(name)} AS PYTHON {show_string(function.reference)}{returns};"

    def source(self, source: Source) -> str:
        entry = show_entry(source)
        options = _by_name(entry.pop(source.connector), source.options)
        columns = [_ddl(entry.pop("schema"))] if "schema" in entry else []
        if "time" in entry:
            columns.append(_time(_by_name(entry.pop("time"), source.time)))
        kind, said = ("TABLE", entry.pop("table")) if entry.get("table") else ("STREAM", {})
        table = {} if said is True else dict(said)
        if "key" in table and "latest_by" in table:
            keys = [table["key"]] if isinstance(table["key"], str) else table["key"]
            columns.append(f"PRIMARY KEY ({', '.join(map(quoted, keys))}) LATEST BY {quoted(table['latest_by'])}")
            del table["key"], table["latest_by"]
        refresh = f" REFRESH EVERY {show_string(table.pop('refresh'))}" if "refresh" in table else ""
        listed = f" ({', '.join(columns)})" if columns else ""
        common = entry | ({"table": table} if table else {})
        given = {"connector": source.connector} | options | common
        return f"CREATE {kind} {quoted(source.name)}{listed}{refresh} WITH {_options(given)};"

    def sink(self, sink: Sink) -> list[str]:
        entry = show_entry(sink)
        entry.pop("from", None)
        given = {"connector": sink.connector} | _by_name(entry.pop(sink.connector), sink.options) | entry
        made = f"CREATE SINK {quoted(sink.name)} WITH {_options(given)};"
        return [made, f"INSERT INTO {quoted(sink.name)} FROM {', '.join(map(_port, sink.inputs))};"]

    def step(self, step: Step) -> str:
        """The natural spelling if it says exactly this step, else the one that fits every operator."""
        natural = _NATURAL.get(step.operator)
        before = dict(self.functions)
        query = natural(self, step) if natural is not None else None
        more = {k: v for k, v in show_entry(step).items() if k not in ("from", step.operator)}
        if query is not None and more:
            query += f" WITH {_options(more)}"
        if query is not None and self.says(query, step):
            return f"CREATE VIEW {quoted(step.name)} AS {query};"
        self.functions = before
        return f"CREATE VIEW {quoted(step.name)} AS {self.general(step)};"

    def says(self, query: str, step: Step) -> bool:
        made = "".join(self.function(name, f) for name, f in self.functions.items())
        declared = resolve(read(f"{made}CREATE VIEW {quoted(step.name)} AS {query};"))
        return not declared.problems and declared.flow.steps == (step,)

    def general(self, step: Step) -> str:
        entry = show_entry(step)
        entry.pop("from", None)
        options = _by_name(entry.pop(step.operator), step.options)
        inputs = ", ".join(map(_port, step.inputs))
        short = type(step.options).shorthand
        if short and short not in options and not set(options).isdisjoint(COMMON["step"]):
            options = {short: options}  # the author's names must not be taken for what every step has
        given = {**options, **entry}
        behind = f" WITH {_options(given)}" if given else ""
        return f"TRANSFORM {inputs} USING {quoted(step.operator)}{behind}"

    # -- the natural spellings

    def column(self, made: NamedValue) -> str:
        """`expression AS name`, or the name alone where that is the column."""
        if isinstance(made.value, Expression) and made.value.column_name == made.name:
            return quoted(made.name)
        return f"{self.value(made.value)} AS {quoted(made.name)}"

    def value(self, made: Expression | Function) -> str:
        if isinstance(made, Expression):
            return made.text or made.sql
        import inspect

        name = next((n for n, f in self.functions.items() if f == made), None)
        if name is None:
            base = name = made.name or "function"
            number = 2
            while name.lower() in (n.lower() for n in self.functions) or name.lower() in known_functions():
                name, number = f"{base}_{number}", number + 1
            self.functions[name] = made
        return f"{quoted(name)}({', '.join(map(quoted, inspect.signature(made.callable).parameters))})"

    def select(self, step: Step) -> str:
        return f"SELECT {', '.join(map(self.column, step.options.columns))} FROM {_port(step.inputs[0])}"

    def with_(self, step: Step) -> str:
        made = [f"{self.value(c.value)} AS {quoted(c.name)}" for c in step.options.columns]
        return f"SELECT *, {', '.join(made)} FROM {_port(step.inputs[0])}"

    def drop(self, step: Step) -> str:
        return f"SELECT * EXCEPT ({', '.join(map(quoted, step.options.columns))}) FROM {_port(step.inputs[0])}"

    def rename(self, step: Step) -> str:
        pairs = ", ".join(f"{quoted(a)} AS {quoted(b)}" for a, b in step.options.columns.items())
        return f"SELECT * RENAME ({pairs}) FROM {_port(step.inputs[0])}"

    def filter(self, step: Step) -> str:
        return f"SELECT * FROM {_port(step.inputs[0])} WHERE {self.value(step.options.where)}"

    def explode(self, step: Step) -> str:
        function = "explode_outer" if step.options.outer else "explode"
        made = f"{function}({self.value(step.options.each)}) AS {quoted(step.options.as_)}"
        return f"SELECT *, {made} FROM {_port(step.inputs[0])}"

    def flat_map(self, step: Step) -> str | None:
        if step.options.each is None or step.options.as_ is None:
            return None
        made = f"explode({self.value(step.options.each)}) AS {quoted(step.options.as_)}"
        return f"SELECT {made} FROM {_port(step.inputs[0])}"

    def distinct(self, step: Step) -> str:
        on = f" ON ({', '.join(map(quoted, step.options.by))})" if step.options.by else ""
        within = full_options(step.options).get("within")
        behind = f" WITHIN {show_string(within)}" if within else ""
        return f"SELECT DISTINCT{on} * FROM {_port(step.inputs[0])}{behind}"

    def limit(self, step: Step) -> str:
        keys = ", ".join(map(quoted, step.options.by))
        return f"SELECT * FROM {_port(step.inputs[0])} LIMIT {step.options.rows} BY {keys}"

    def union(self, step: Step) -> str:
        return " UNION ALL ".join(f"SELECT * FROM {_port(port)}" for port in step.inputs)

    def aggregate(self, step: Step) -> str:
        said = full_options(step.options)
        keys = list(step.options.by)
        window = dict(said.get("window") or {})
        shown = [*step.options.times(), *map(self.column, (*keys, *step.options.compute))]
        groups = [self.value(key.value) for key in keys]
        if window:
            groups.append(self.window(window, _event_time(self.flow, step.inputs[0])))
        query = f"SELECT {', '.join(shown)} FROM {_port(step.inputs[0])}"
        query += f" GROUP BY {', '.join(groups)}" if groups else ""
        emit, late = said.get("emit"), said.get("late")
        if emit is not None:
            early = emit.get("early") if isinstance(emit, Mapping) else None
            query += f" EMIT EVERY {show_string(early)}" if early else f" EMIT {str(emit).upper()}"
        if late is not None:
            query += " LATE TO PORT" if late == "port" else f" LATE {str(late).upper()}"
        if late == "correct" and "allowance" in said:
            query += f" FOR {show_string(said['allowance'])}"
        return query

    @staticmethod
    def window(window: dict[str, Any], time: str | None) -> str:
        kind = next(k for k in _WINDOW if k in window)
        function = _WINDOW[kind]
        given = [quoted(time)] if time and kind != "count" else []
        for option in WINDOWS[function]:
            if option in window:
                given.append(value(window.pop(option)))
            else:
                break
        given += [f"{option} => {value(said)}" for option, said in window.items()]
        return f"{function}({', '.join(given)})"

    def join(self, step: Step) -> str:
        said = full_options(step.options)
        kinds = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}
        word = kinds[step.options.kind]
        tables, first, second = _two(step.inputs)
        query = f"SELECT * FROM {tables[0]} {'ASOF ' if step.operator == 'as_of' else ''}{word} {tables[1]}"
        query += _on(step.options.on, first, second)
        within = said.get("within")
        if isinstance(within, Mapping):
            bounds = [f"{show_string(v)} {k.upper()}" for k, v in within.items()]
            query += f" WITHIN {' AND '.join(bounds)}" if bounds else ""
        elif within:
            query += f" WITHIN {show_string(within)}"
        query += f" TOLERANCE {show_string(said['tolerance'])}" if "tolerance" in said else ""
        return query + (f" PREFIX {show_string(said['prefix'])}" if "prefix" in said else "")

    def lookup(self, step: Step) -> str:
        said = full_options(step.options)
        database = next(k for k in ("sqlite", "postgresql") if k in said)
        word = "LEFT LOOKUP JOIN" if step.options.kind == "left" else "LOOKUP JOIN"
        query = f"SELECT * FROM {_port(step.inputs[0])} {word} {database} {_options(said[database])}"
        pairs = " AND ".join(f"{quoted(a)} = {quoted(b)}" for a, b in step.options.on)
        query += f" ON {pairs} TAKE ({said['take']})"
        query += f" PREFIX {show_string(said['prefix'])}" if "prefix" in said else ""
        return query + (f" WITH (cache = {value(said['cache'])})" if "cache" in said else "")


_NATURAL: dict[str, Callable[[_Writer, Step], str | None]] = {
    "select": _Writer.select,
    "with": _Writer.with_,
    "drop": _Writer.drop,
    "rename": _Writer.rename,
    "filter": _Writer.filter,
    "explode": _Writer.explode,
    "flat_map": _Writer.flat_map,
    "distinct": _Writer.distinct,
    "limit": _Writer.limit,
    "union": _Writer.union,
    "aggregate": _Writer.aggregate,
    "join": _Writer.join,
    "as_of": _Writer.join,
    "lookup": _Writer.lookup,
}
_KEEPS_TIME = ("filter", "distinct", "limit", "split", "with", "union")


def _event_time(flow: Flow, port: Port) -> str | None:
    """The column with the time of what leaves by a port, where that is plain to see."""
    for _ in range(len(flow.steps) + 1):
        if port.step not in flow:
            return None
        part = flow[port.step]
        if isinstance(part, Source):
            return part.time.column if part.time is not None else None
        if not isinstance(part, Step) or part.operator not in _KEEPS_TIME or port.port == "late":
            return None
        port = part.inputs[0]
    return None


def _port(port: Port) -> str:
    return ".".join(quoted(word) for word in str(port).split(".", 1))


def _two(inputs: tuple[Port, ...]) -> tuple[list[str], str, str]:
    """The two sides of a join as they stand in FROM, and what they are called in ON."""
    first, second = (quoted(port.step) for port in inputs)
    if first.lower() == second.lower():
        return [f"{_port(inputs[0])} AS first", f"{_port(inputs[1])} AS second"], "first", "second"
    return [_port(inputs[0]), _port(inputs[1])], first, second


def _on(pairs: tuple[tuple[str, str], ...], first: str, second: str) -> str:
    if all(a == b for a, b in pairs):
        return f" USING ({', '.join(quoted(a) for a, _ in pairs)})"
    return " ON " + " AND ".join(f"{first}.{quoted(a)} = {second}.{quoted(b)}" for a, b in pairs)


def _by_name(said: Any, options: Options) -> dict[str, Any]:
    """Options by name, also where the short form was written."""
    return dict(said) if isinstance(said, Mapping) else {type(options).shorthand or "": said}


def _ddl(schema: Any) -> str:
    return ", ".join(f"{quoted(str(k))} {v}" for k, v in schema.items()) if isinstance(schema, Mapping) else str(schema)


def _path(key: str) -> str:
    words = key.split(".")
    return key if all(_WORD.fullmatch(word) for word in words) else show_string(key)


def _time(given: dict[str, Any]) -> str:
    kind = str(given.pop("kind", "event"))
    said = f"EVENT TIME {quoted(str(given.pop('column')))}" if kind == "event" else f"{kind.upper()} TIME"
    if "watermark" in given:
        said += f" WATERMARK {show_string(given.pop('watermark'))}"
    return said + (f" WITH {_options(given)}" if given else "")
