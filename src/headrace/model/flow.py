"""A flow as a value: sources, steps and sinks, wired by name.

Nothing here reads a clock, opens a file or knows Spark. Two flows are equal when they mean the same;
where they were written (`places`) does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
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

    @cached_property
    def _parts(self) -> dict[str, Part]:
        parts: list[Part] = list(self)
        return {part.name: part for part in reversed(parts)}

    @cached_property
    def _readers(self) -> dict[str, tuple[Part, ...]]:
        found: dict[str, dict[str, Part]] = {}
        for part in self:
            for port in part.inputs:
                found.setdefault(port.step, {})[part.name] = part
        return {name: tuple(parts.values()) for name, parts in found.items()}

    @cached_property
    def _rank(self) -> dict[str, int]:
        return {part.name: number for number, part in enumerate(self)}

    @cached_property
    def _inputs(self) -> dict[str, list[str]]:
        return {part.name: [port.step for port in part.inputs] for part in self}

    @cached_property
    def _outputs(self) -> dict[str, list[str]]:
        return {name: [part.name for part in readers] for name, readers in self._readers.items()}

    @cached_property
    def _remembered(self) -> dict[tuple[bool, str], tuple[str, ...]]:
        """What is upstream and downstream of parts, as far as it was asked: rules ask it of each of them."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # what is cached is quickly made again

    def __getitem__(self, name: str) -> Part:
        return self._parts[name]

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def readers(self, name: str) -> tuple[Part, ...]:
        """The steps and sinks that take records from a part, by any of its ports."""
        return self._readers.get(name, ())

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
        missing = {part.name: len({i.step for i in part.inputs} & self._rank.keys()) for part in self}
        ready = [part for part in self if not missing[part.name]]
        placed: list[Part] = []
        while ready:
            placed += ready
            found: list[Part] = []
            for reader in (r for part in ready for r in self.readers(part.name)):
                missing[reader.name] -= 1
                if not missing[reader.name]:
                    found.append(reader)
            ready = sorted(found, key=lambda part: self._rank[part.name])
        return tuple(placed)

    def upstream(self, name: str) -> tuple[str, ...]:
        """The names of everything a part depends on, in flow order."""
        return self._reached(True, name)

    def downstream(self, name: str) -> tuple[str, ...]:
        """The names of everything that depends on a part, in flow order."""
        return self._reached(False, name)

    def cycles(self) -> tuple[tuple[str, ...], ...]:
        """The parts that depend on themselves, those that do so by each other together, in flow order."""
        placed = {part.name for part in self.ordered()}
        found: list[tuple[str, ...]] = []
        for part in self:
            if part.name not in placed and part.name in self.upstream(part.name):
                below = set(self.downstream(part.name))
                group = tuple(name for name in self.upstream(part.name) if name in below)
                found.append(group)
                placed.update(group)
        return tuple(found)

    def _reached(self, up: bool, name: str) -> tuple[str, ...]:
        if (up, name) not in self._remembered:
            beside = self._inputs if up else self._outputs
            seen: set[str] = set()
            todo = {name}
            while todo:
                todo = set().union(*[beside.get(one, ()) for one in todo]) - seen
                seen |= todo
            self._remembered[up, name] = tuple(sorted(seen & self._rank.keys(), key=self._rank.__getitem__))
        return self._remembered[up, name]
