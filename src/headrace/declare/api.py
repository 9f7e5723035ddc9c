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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from headrace.catalogue import SOURCES
from headrace.declare.draft import Draft, Entry, Kind
from headrace.declare.parameters import Param, Values, reference, type_named
from headrace.declare.resolve import Declared, resolve
from headrace.declare.stream import Keyed, Rules, Split, Stream, Value, connector_entry, given_only
from headrace.errors import FlowError, UsageError, nearest
from headrace.model import Flow as FlowValue
from headrace.model import Location, Places, Schema
from headrace.options import Options

__all__ = ["Flow", "Keyed", "Split", "Stream", "Value", "shown_as"]

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


class Runner(Protocol):
    """What can do something with a flow where it is written; see `headrace.interactive`."""

    def preview(self, flow: Flow, port: str, rows: int, parameters: Mapping[str, Any]) -> Any: ...
    def start(self, flow: Flow, asked: Mapping[str, Any], *, fresh: bool) -> Any: ...
    def run(self, flow: Flow, asked: Mapping[str, Any], *, fresh: bool) -> Any: ...


runner: Runner | None = None
"""Set by `headrace.interactive`: declaring knows neither Spark nor runs."""


class Flow:
    """A flow being written down; `build()` gives the immutable value."""

    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        goal: str | Mapping[str, Any] | None = None,
        state: str | None = None,
        dead_letters: Mapping[str, Any] | None = None,
        spark: Mapping[str, Any] | None = None,
    ) -> None:
        self._dead_letters, self._goal = dead_letters, goal
        self.name, self._description, self._state, self._spark = name, description, state, dict(spark or {})
        self._entries: list[Entry] = []
        self._parameters: dict[str, dict[str, Any]] = {}
        self._places: dict[tuple[str | int, ...], Location] = {}
        self._location = _here()
        self._prefix = ""

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
        noted = self._note("source", name, connector_entry(connector, options, SOURCES) | given_only(common))
        return Stream(self, noted)

    def step(self, name: str, operator: str, inputs: str | Sequence[str], options: Any = None) -> Stream:
        """A step by the names of its operator and of what it reads: what every step can be written as."""
        noted = self._note("step", name, {"from": inputs, operator: {} if options is None else options})
        return Stream(self, noted)

    def union(self, name: str, *streams: Stream) -> Stream:
        """Several streams with the same columns as one."""
        return Stream(self, self._note("step", name, {"from": [s._port for s in streams], "union": {}}))

    def __getitem__(self, name: str) -> Stream:
        """The stream of a source or step by its name, or by `step.port`."""
        step, _, port = name.partition(".")
        known = [entry.name for entry in self._entries if entry.kind != "sink"]
        if step not in known:
            hint = nearest(step, known).replace("It takes", "There are")
            raise UsageError(f'flow "{self.name}" has no source or step "{step}"', hint=hint)
        return Stream(self, step, port)

    @contextmanager
    def _named(self, prefix: str) -> Iterator[None]:
        """While it lasts, the names of new parts begin with a prefix."""
        before = self._prefix
        self._prefix = f"{before}{prefix}_"
        try:
            yield
        finally:
            self._prefix = before

    def draft(self) -> Draft:
        """What was written so far."""
        return Draft(
            name=self.name,
            description=self._description,
            spark=self._spark,
            goal=self._goal,
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

    def start(
        self,
        *,
        until_done: bool = False,
        fresh: bool = False,
        mode: str | None = None,
        master: str | None = None,
        bootstrap: str | None = None,
        **parameters: Any,
    ) -> Any:
        """Starts the flow as a run in the background: `.status()`, `.wait()`, `.stop()`; it shows its own progress.

        It is a run like any other: `headrace status` sees it, and starting the flow again resumes it. The other
        arguments are values for the flow's parameters.
        """
        asked = {"until_done": until_done, "mode": mode, "master": master, "bootstrap": bootstrap}
        return self._runner().start(self, {**asked, "parameters": parameters}, fresh=fresh)

    def run(
        self,
        *,
        until_done: bool = True,
        fresh: bool = False,
        mode: str | None = None,
        master: str | None = None,
        bootstrap: str | None = None,
        **parameters: Any,
    ) -> Any:
        """Runs the flow over all there is, or until it is interrupted, and shows how far it is; see `start`."""
        asked = {"until_done": until_done, "mode": mode, "master": master, "bootstrap": bootstrap}
        return self._runner().run(self, {**asked, "parameters": parameters}, fresh=fresh)

    def _runner(self) -> Runner:
        if runner is None:
            raise UsageError(
                "nothing here can run flows", hint="import headrace.interactive, or `from headrace import Flow`"
            )
        return runner

    def _repr_svg_(self) -> str:
        """The picture a notebook shows: boxes and wires."""
        from headrace.declare.picture import svg

        return svg(self.declared().flow)

    def _note(self, kind: Kind, name: str, data: Mapping[str, Any]) -> str:
        """Writes an entry down; its name, with the prefix of the sub-flow it is in."""
        full = f"{self._prefix}{name}"
        self._entries.append(Entry(kind=kind, name=full, data=data, places=Places(_here())))
        return full

    def _expect(self, name: str, rules: Mapping[str, Any]) -> None:
        """Adds rules to a part that was noted before."""
        for index, entry in enumerate(self._entries):
            if entry.name == name:
                self._entries[index] = replace(entry, data={**entry.data, "expect": rules})

    def __repr__(self) -> str:
        return f"Flow({self.name!r}, {len(self._entries)} parts)"
