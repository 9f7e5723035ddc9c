"""How flows that are started together hang together: by the topics that one writes and another reads. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.errors import UsageError
from headrace.model import Flow


@dataclass(frozen=True, order=True)
class Topic:
    """A topic of a cluster; the project's own has no address here."""

    name: str
    bootstrap: str = ""


@dataclass(frozen=True)
class Chain:
    """Flows in the order they are started, and for each those it reads from."""

    order: tuple[str, ...]
    after: Mapping[str, frozenset[str]]
    between: Mapping[Topic, int | None]
    """Topics with both ends among the flows, and how many partitions a sink asks for."""

    @property
    def circle(self) -> tuple[str, ...]:
        """Flows that wait for each other in a circle."""
        return tuple(name for name in self.order if name in self._above(name))

    def _above(self, name: str) -> set[str]:
        seen: set[str] = set()
        todo = [name]
        while todo:
            for other in self.after[todo.pop()] - seen:
                seen.add(other)
                todo.append(other)
        return seen


def chain(flows: Sequence[Flow]) -> Chain:
    """The chain of flows; raises UsageError if two have one name, and so one run."""
    names = [flow.name for flow in flows]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise UsageError(f'two of the flows are named "{name}", and a run is known by its flow\'s name')
    reads = {flow.name: _reads(flow) for flow in flows}
    writes = {flow.name: _writes(flow) for flow in flows}
    after = {
        name: frozenset(other for other in names if other != name and reads[name] & set(writes[other]))
        for name in names
    }
    between = {
        topic: partitions
        for name in names
        for topic, partitions in writes[name].items()
        if any(topic in reads[other] for other in names if other != name)
    }
    return Chain(_ordered(names, after), after, between)


def _ordered(names: Sequence[str], after: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Each behind those it reads from; where they go round in a circle, as they were named."""
    placed: list[str] = []
    waiting = list(names)
    while waiting:
        ready = [name for name in waiting if not after[name] & set(waiting)]
        chosen = ready[0] if ready else waiting[0]
        placed.append(chosen)
        waiting.remove(chosen)
    return tuple(placed)


def _reads(flow: Flow) -> frozenset[Topic]:
    return frozenset(
        Topic(name, s.options.bootstrap or "")
        for s in flow.sources
        if s.connector == "kafka"
        for name in s.options.topic
    )


def _writes(flow: Flow) -> dict[Topic, int | None]:
    return {
        Topic(s.options.topic, s.options.bootstrap or ""): s.options.partitions
        for s in flow.sinks
        if s.connector == "kafka"
    }
