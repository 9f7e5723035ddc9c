"""A flow as a value: sources, steps and sinks, wired by name.

Nothing here reads a clock, opens a file or knows Spark. Two flows are equal when they mean the same;
where they were written (`places`) does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.model.location import Location
from headrace.model.schema import Schema

OUT = "out"
"""The port everything leaves by unless it says otherwise."""

DEAD_LETTER = "dead_letter"
"""The port of every source and step by which records leave that it could not take."""

STORES = ("rocksdb", "memory")
"""What may hold a flow's state while it runs; the first is the default. Either way it is durable in the checkpoint."""

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Places:
    """Where a part and each of its options were written."""

    location: Location = Location()
    options: Mapping[Path, Location] = field(default_factory=dict)

    def at(self, *path: str | int, short: str | None = None) -> Location:
        """The place of an option, or of the nearest thing around it that has one.

        `short` is the option that a short form leaves out: `with: {total: …}` for `with: {columns: {total: …}}`.
        """
        if short is not None and path[1:2] == (short,) and path[:2] not in self.options:
            path = (path[0], *path[2:])
        for end in range(len(path), 0, -1):
            if path[:end] in self.options:
                return self.options[path[:end]]
        return self.location


@dataclass(frozen=True, order=True)
class Port:
    """A place records leave from: a source or step, and which of its outputs.

    >>> Port.parse("sizes.large"), str(Port("orders"))
    (Port(step='sizes', port='large'), 'orders')
    """

    step: str
    port: str = OUT

    @classmethod
    def parse(cls, text: str) -> Port:
        step, _, port = text.partition(".")
        return cls(step, port or OUT)

    def __str__(self) -> str:
        return self.step if self.port == OUT else f"{self.step}.{self.port}"


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """What a flow leaves open: `${param:NAME}` stands for its value. `type` is one of `headrace.declare.parameters`."""

    name: str
    type: str
    default: Any = None
    """None: a value must be given."""
    description: str = ""
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where records come from. `options` and `format_options` are values of the catalogue's option models."""

    name: str
    connector: str
    options: Any
    format: str | None = None
    format_options: Any = None
    schema: Schema | None = None
    time: Any = None
    table: Any = None
    """Set: it is read as a table."""
    uses: tuple[str, ...] = ()
    """The parameters it refers to."""
    written: Any = field(default=None, compare=False, repr=False)
    """Its entry as plain values with the references in it, if there are any; its options hold the values."""
    expect: Any = None
    """Rules its records must keep."""
    places: Places = field(default=Places(), compare=False, repr=False)

    @property
    def inputs(self) -> tuple[Port, ...]:
        return ()


@dataclass(frozen=True, kw_only=True)
class Step:
    """One operator applied to what leaves its inputs."""

    name: str
    inputs: tuple[Port, ...]
    operator: str
    options: Any
    uses: tuple[str, ...] = ()
    """The parameters it refers to."""
    written: Any = field(default=None, compare=False, repr=False)
    """Its entry as plain values with the references in it, if there are any; its options hold the values."""
    expect: Any = None
    """Rules the records that leave it must keep."""
    places: Places = field(default=Places(), compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Sink:
    """Where records go."""

    name: str
    inputs: tuple[Port, ...]
    connector: str
    options: Any
    format: str | None = None
    format_options: Any = None
    delivery: str | None = None
    goal: Any = None
    """What is asked for its records; the strictest of a flow's goals holds for the whole run."""
    uses: tuple[str, ...] = ()
    """The parameters it refers to."""
    written: Any = field(default=None, compare=False, repr=False)
    """Its entry as plain values with the references in it, if there are any; its options hold the values."""
    places: Places = field(default=Places(), compare=False, repr=False)


Part = Source | Step | Sink


@dataclass(frozen=True, kw_only=True)
class Flow:
    """The whole of a pipeline; see `docs/guide.md` for how to write one."""

    name: str
    description: str = ""
    sources: tuple[Source, ...] = ()
    steps: tuple[Step, ...] = ()
    sinks: tuple[Sink, ...] = ()
    spark: tuple[tuple[str, str], ...] = ()
    state: str | None = None
    """Where state is held while the flow runs, one of STORES; None: the default."""
    parameters: tuple[Parameter, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What its parameters were given, by name: the options of its parts hold these values."""
    written: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Its settings as they were written, by name, where they refer to parameters."""
    goal: Any = None
    """What it is to be good at; None: nothing in particular."""
    dead_letters: Any = None
    """What is done about dead letters; None: the defaults."""
    places: Places = field(default=Places(), compare=False, repr=False)

    def __iter__(self) -> Iterator[Part]:
        yield from self.sources
        yield from self.steps
        yield from self.sinks

    def __getitem__(self, name: str) -> Part:
        for part in self:
            if part.name == name:
                return part
        raise KeyError(name)

    def __contains__(self, name: str) -> bool:
        return any(part.name == name for part in self)

    def readers(self, name: str) -> tuple[Part, ...]:
        """The steps and sinks that take records from a part, by any of its ports."""
        return tuple(part for part in self if any(port.step == name for port in part.inputs))

    def letters_of(self, port: Port) -> tuple[str, ...]:
        """The parts whose dead letters leave by a port; none if other records do."""
        found: dict[str, None] = {}
        seen = {port}
        todo = [port]
        while todo:
            port = todo.pop(0)
            if port.port == DEAD_LETTER:
                found[port.step] = None
            elif port.step in self and self[port.step].inputs:
                more = [p for p in self[port.step].inputs if p not in seen]
                seen.update(more)
                todo += more
            else:
                return ()
        return tuple(found)

    def ordered(self) -> tuple[Part, ...]:
        """Every part after the parts it reads from; parts on a cycle, or behind one, are left out."""
        placed: dict[str, Part] = {}
        waiting = list(self)
        while True:
            ready = [p for p in waiting if all(i.step in placed or i.step not in self for i in p.inputs)]
            if not ready:
                return tuple(placed.values())
            placed.update((p.name, p) for p in ready)
            waiting = [p for p in waiting if p.name not in placed]

    def upstream(self, name: str) -> tuple[str, ...]:
        """The names of everything a part depends on, in flow order."""
        seen: set[str] = set()
        todo = [name]
        while todo:
            current = todo.pop()
            if current in self:
                for port in self[current].inputs:
                    if port.step not in seen:
                        seen.add(port.step)
                        todo.append(port.step)
        return tuple(part.name for part in self if part.name in seen)
