"""The Python front door: a flow written as calls.

    >>> flow = Flow("large-orders")
    >>> orders = flow.source("orders", "generator", kind="orders", limit=100)
    >>> large = orders.filter("large", "amount > 100")
    >>> large.sink("screen", "console")
    >>> flow.build().name
    'large-orders'

Calls only take notes; nothing is opened, read or started. What is wrong is found when the flow is built or
checked, all at once, each problem at the line of its call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from headrace.catalogue import SINKS, SOURCES
from headrace.declare.draft import Draft, Entry, Kind
from headrace.declare.parameters import Param, Values, reference, type_named
from headrace.declare.resolve import Declared, resolve
from headrace.errors import FlowError, UsageError
from headrace.expressions.columns import Col
from headrace.expressions.expression import Expression
from headrace.model import Flow as FlowValue
from headrace.model import Location, Places, Schema
from headrace.operators.windows import Window
from headrace.options import Options
from headrace.processor import Processor

Value = str | int | float | bool | Expression | Col | Callable[..., Any] | Mapping[str, str]
"""What a column can be made from: SQL text, a column expression, a Python function, or `{"python": …}`."""

Rules = Value | Sequence[Value | Mapping[str, Any]] | Mapping[str, Any]
"""Rules for records: conditions, mappings with a column and its checks, or `{"rules": […], "else": "drop"}`."""

_PACKAGE = str(Path(__file__).resolve().parents[1])
shown_as: dict[str, str] = {}
"""Files by the name their author called them by, for messages; filled by the loader."""


def _here() -> Location:
    """Where the author's call stands: the nearest frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    file = frame.f_code.co_filename
    return Location(shown_as.get(file, file), frame.f_lineno)


class Flow:
    """A flow being written down; `build()` gives the immutable value."""

    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        state: str | None = None,
        dead_letters: Mapping[str, Any] | None = None,
        spark: Mapping[str, Any] | None = None,
    ) -> None:
        self._dead_letters = dead_letters
        self.name, self._description, self._state, self._spark = name, description, state, dict(spark or {})
        self._entries: list[Entry] = []
        self._parameters: dict[str, dict[str, Any]] = {}
        self._places: dict[tuple[str | int, ...], Location] = {}
        self._location = _here()

    def param(
        self,
        name: str,
        type: type | str | None = None,
        *,
        default: Any = None,
        description: str = "",
        choices: Sequence[Any] = (),
    ) -> Param:
        """A parameter: what this gives stands for its value, as an option or within a text.

        The value is given when the flow is checked or run (`--param limit=20`), or else is the default.

        >>> flow = Flow("large-orders")
        >>> limit = flow.param("limit", int, default=100)
        >>> orders = flow.source("orders", "generator", kind="orders", limit=10)
        >>> large = orders.filter("large", f"amount > {limit}")
        >>> from headrace import col
        >>> also = orders.filter("also", col("amount") > limit)
        >>> str(flow.build(limit=20)["also"].options.where)
        'amount > 20'
        """
        given = {"type": type_named(type), "default": default, "description": description, "choices": tuple(choices)}
        self._parameters[name] = {k: v for k, v in given.items() if v not in (None, "", ())}
        self._places["parameters", name] = _here()
        return reference(name)

    def settings(self, spark: Mapping[str, Any]) -> Flow:
        """More of Spark's own settings, by their full names."""
        self._spark |= spark
        return self

    def source(
        self,
        name: str,
        connector: str | Options,
        *,
        format: str | Mapping[str, Any] | None = None,
        schema: str | Mapping[str, str] | Schema | None = None,
        time: str | Mapping[str, Any] | None = None,
        table: bool | Mapping[str, Any] | None = None,
        expect: Rules | None = None,
        **options: Any,
    ) -> Stream:
        """Records from outside: a connector by name with its options, or by its options model."""
        common = {"format": format, "schema": schema, "time": time, "table": table, "expect": expect}
        self._note("source", name, _connector(connector, options, SOURCES) | _given(common))
        return Stream(self, name)

    def step(self, name: str, operator: str, inputs: str | Sequence[str], options: Any = None) -> Stream:
        """A step by the names of its operator and of what it reads: what every step can be written as."""
        self._note("step", name, {"from": inputs, operator: {} if options is None else options})
        return Stream(self, name)

    def union(self, name: str, *streams: Stream) -> Stream:
        """Several streams with the same columns as one."""
        self._note("step", name, {"from": [s._port for s in streams], "union": {}})
        return Stream(self, name)

    def draft(self) -> Draft:
        """What was written so far."""
        return Draft(
            name=self.name,
            description=self._description,
            spark=self._spark,
            state=self._state,
            dead_letters=self._dead_letters,
            entries=tuple(self._entries),
            parameters=self._parameters,
            places=Places(self._location, self._places),
        )

    def declared(self, given: Values | None = None) -> Declared:
        """The flow as far as it can be understood, with its problems."""
        return resolve(self.draft(), given)

    def build(self, **parameters: Any) -> FlowValue:
        """The immutable flow; raises FlowError with every problem of spelling. `headrace check` finds the rest."""
        declared = self.declared(Values(asked=parameters))
        errors = [problem for problem in declared.problems if not problem.warning]
        if errors:
            raise FlowError(*errors)
        return declared.flow

    def _note(self, kind: Kind, name: str, data: Mapping[str, Any]) -> None:
        self._entries.append(Entry(kind=kind, name=str(name), data=data, places=Places(_here())))

    def _expect(self, name: str, rules: Mapping[str, Any]) -> None:
        """Adds rules to a part that was noted before."""
        for index, entry in enumerate(self._entries):
            if entry.name == name:
                self._entries[index] = replace(entry, data={**entry.data, "expect": rules})

    def __repr__(self) -> str:
        return f"Flow({self.name!r}, {len(self._entries)} parts)"


class Stream:
    """Records that leave a source or step by one port. Every method adds a step and gives its stream."""

    def __init__(self, flow: Flow, step: str, port: str = "") -> None:
        self._flow = flow
        self._port = f"{step}.{port}" if port else step

    def select(self, name: str, *columns: str | Mapping[str, Value], **named: Value) -> Stream:
        """Exactly these columns: names, `"expression AS name"`, or name=expression."""
        return self._step(name, "select", {"columns": [*columns, *({k: v} for k, v in named.items())]})

    def with_(self, name: str, columns: Mapping[str, Value] | None = None, /, **named: Value) -> Stream:
        """More columns, or new values for some; all others stay."""
        return self._step(name, "with", {"columns": dict(columns or {}) | named})

    def drop(self, name: str, *columns: str) -> Stream:
        """All but these columns."""
        return self._step(name, "drop", {"columns": list(columns)})

    def rename(self, name: str, columns: Mapping[str, str] | None = None, /, **named: str) -> Stream:
        """Other names: old=new."""
        return self._step(name, "rename", {"columns": dict(columns or {}) | named})

    def filter(self, name: str, where: Value) -> Stream:
        """Only the records for which the condition is true."""
        return self._step(name, "filter", {"where": where})

    def map(
        self,
        name: str,
        function: Callable[[dict[str, Any]], Mapping[str, Any] | None] | None = None,
        *,
        returns: str | None = None,
        **columns: Value,
    ) -> Stream:
        """One new record of each: by name=expression, or by a function of the record and its `returns` columns."""
        given = {"python": function, "returns": returns} if function is not None else {"columns": columns}
        return self._step(name, "map", given)

    def flat_map(
        self,
        name: str,
        function: Callable[[dict[str, Any]], Any] | None = None,
        *,
        each: str | Expression | Col | None = None,
        as_: str | None = None,
        returns: str | None = None,
    ) -> Stream:
        """Any number of new records of each: one per element of `each`, or by a function of the record."""
        return self._step(name, "flat_map", {"python": function, "each": each, "as": as_, "returns": returns})

    def explode(
        self, name: str, each: str | Expression | Col, *, as_: str | None = None, outer: bool = False
    ) -> Stream:
        """One record per element of an array, beside the record's own columns."""
        return self._step(name, "explode", {"each": each, "as": as_, "outer": outer})

    def aggregate(
        self,
        name: str,
        *,
        by: str | Sequence[str] | Mapping[str, Value] = (),
        window: Window | Mapping[str, Any] | None = None,
        emit: str | Mapping[str, Any] | None = None,
        late: str | None = None,
        allowance: str | timedelta | None = None,
        compute: Mapping[str, Value] | None = None,
        **named: Value,
    ) -> Stream:
        """One row per key (and window): `n="count(*)"`, or `compute={"n": "count(*)"}`."""
        given = {"by": by or None, "window": window, "emit": emit, "late": late, "allowance": allowance}
        return self._step(name, "aggregate", given | {"compute": dict(compute or {}) | named})

    def port(self, name: str) -> Stream:
        """What leaves by another port of this step."""
        return Stream(self._flow, self._port.partition(".")[0], name)

    @property
    def late(self) -> Stream:
        """What leaves by the port `late` of this step, an aggregate with `late="port"`."""
        return Stream(self._flow, self._port.partition(".")[0], "late")

    @property
    def dead_letter(self) -> Stream:
        """What leaves by the port `dead_letter` of this source or step: the records it could not take."""
        return Stream(self._flow, self._port.partition(".")[0], "dead_letter")

    def expect(self, *rules: Value | Mapping[str, Any], else_: str | None = None) -> Stream:
        """Rules for the records of this stream: conditions, or `{"column": …, "min": …}`; gives the stream itself.

        What breaks one becomes a dead letter, unless `else_` says "drop" or "stop".
        """
        self._flow._expect(self._port.partition(".")[0], _given({"rules": list(rules), "else": else_}))
        return self

    def split(self, name: str, into: Mapping[str, Value] | None = None, /, **ports: Value) -> Split:
        """Each record by the first port whose condition it meets; `stream["port"]` reads from one."""
        self._step(name, "split", {"into": dict(into or {}) | ports})
        return Split(self._flow, name)

    def distinct(self, name: str, *by: str, within: str | timedelta | None = None) -> Stream:
        """The first record of each key; with `within` a key is remembered only so long, by event time."""
        return self._step(name, "distinct", {"by": list(by), "within": within})

    def limit(self, name: str, rows: int | Param, *, by: str | Sequence[str]) -> Stream:
        """The first `rows` records of each key."""
        return self._step(name, "limit", {"rows": rows, "by": by})

    def process(
        self,
        name: str,
        function: Callable[..., Any] | type[Processor],
        *,
        by: str | Sequence[str],
        state: str | None = None,
        returns: str | None = None,
        ttl: str | timedelta | None = None,
        order: str | None = None,
        bound: str | None = None,
        initial: Stream | None = None,
    ) -> Stream:
        """Each record with the state of its key: `f(record, state) -> (outputs, state)`, or a `Processor` class.

        `initial` is a table with the state to begin with.
        """
        given = {"python": function, "by": by, "state": state, "returns": returns, "ttl": ttl, "order": order}
        inputs = self._port if initial is None else [self._port, initial._port]
        self._flow._note("step", name, {"from": inputs, "process": _given({**given, "bound": bound})})
        return Stream(self._flow, str(name))

    def union(self, name: str, *others: Stream) -> Stream:
        """This stream and others with the same columns as one."""
        return self._flow.union(name, self, *others)

    def join(
        self,
        name: str,
        other: Stream,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        within: str | timedelta | Mapping[str, Any] | None = None,
        kind: str = "inner",
        prefix: str | None = None,
    ) -> Stream:
        """This stream's records beside those of another, or of a table, where the columns `on` are equal."""
        given = {"on": on, "within": within, "kind": kind, "prefix": prefix}
        self._flow._note("step", name, {"from": [self._port, other._port], "join": _given(given)})
        return Stream(self._flow, str(name))

    def as_of(
        self,
        name: str,
        other: Stream,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        tolerance: str | timedelta | None = None,
        kind: str = "left",
        prefix: str | None = None,
    ) -> Stream:
        """Beside each record the other stream's last one at or before it, where the columns `on` are equal."""
        given = {"on": on, "tolerance": tolerance, "kind": kind, "prefix": prefix}
        self._flow._note("step", name, {"from": [self._port, other._port], "as_of": _given(given)})
        return Stream(self._flow, str(name))

    def lookup(
        self,
        name: str,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        take: str,
        sqlite: Mapping[str, Any] | None = None,
        postgresql: Mapping[str, Any] | None = None,
        kind: str = "left",
        prefix: str | None = None,
        cache: Mapping[str, Any] | None = None,
    ) -> Stream:
        """More columns: those of the row of a database table whose key equals columns of the record."""
        given = {"sqlite": sqlite, "postgresql": postgresql, "on": on, "take": take, "prefix": prefix, "kind": kind}
        return self._step(name, "lookup", given | {"cache": cache})

    def sink(
        self,
        name: str,
        connector: str | Options,
        *,
        format: str | Mapping[str, Any] | None = None,
        delivery: str | None = None,
        **options: Any,
    ) -> None:
        """Records to the outside: a connector by name with its options, or by its options model."""
        given = {"from": self._port} | _connector(connector, options, SINKS)
        self._flow._note("sink", name, given | _given({"format": format, "delivery": delivery}))

    def _step(self, name: str, operator: str, options: Mapping[str, Any]) -> Stream:
        self._flow._note("step", name, {"from": self._port, operator: _given(options)})
        return Stream(self._flow, str(name))

    def __repr__(self) -> str:
        return f"Stream({self._port!r})"


class Split:
    """The ports of a split; `sizes["large"]` or `sizes.large` is the stream that leaves by one."""

    def __init__(self, flow: Flow, step: str) -> None:
        self._flow, self._name = flow, step

    def __getitem__(self, port: str) -> Stream:
        return Stream(self._flow, self._name, port)

    def __getattr__(self, port: str) -> Stream:
        if port.startswith("_"):
            raise AttributeError(port)
        return self[port]


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Only what the author said."""
    return {k: v for k, v in options.items() if v is not None}


def _connector(connector: str | Options, options: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(connector, str):
        return {connector: dict(options)}
    name = next((n for n, c in known.items() if isinstance(connector, c.options_model)), None)
    if name is None or options:
        raise UsageError(f"{type(connector).__name__} is not the options of a connector that can stand here")
    return {name: connector}
