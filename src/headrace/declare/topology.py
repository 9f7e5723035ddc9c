"""The compositional front door: spouts and bolts, wired by name with a grouping, as in Storm and Samza.

    topology = Topology("word-count")
    topology.spout("sentences", Sentences)
    topology.bolt("split", Split, parallelism=2).shuffle("sentences")
    topology.bolt("count", Count, parallelism=2).fields("split", "word")
    topology["count"].sink("table", "sqlite", path="counts.db", table="counts", key="word")

It is a flow like any other: sources of kind `spout` and steps of kind `bolt`, checked, explained and run the same way,
and other sources, steps and sinks can be wired to it.
"""

from __future__ import annotations

from typing import Any

from headrace.author.topology import Bolt, Spout, Task
from headrace.declare.api import Flow
from headrace.declare.stream import Stream, given_only


class Topology(Flow):
    """A flow written as spouts and bolts; everything a `Flow` has is here too."""

    def spout(self, name: str, spout: type[Spout], *, per_batch: int | None = None, **arguments: Any) -> Stream:
        """A source of the author's: `topology.spout("sentences", Sentences, path="words.txt")`.

        The arguments are what the class is made with. At most `per_batch` records are in one batch.
        """
        options = given_only({"python": spout, "per_batch": per_batch, "arguments": arguments or None})
        return Stream(self, self._note("source", name, {"spout": options}))

    def bolt(
        self, name: str, bolt: type[Bolt], *, parallelism: int = 1, bound: str | None = None, **arguments: Any
    ) -> Wiring:
        """A bolt, to be wired: `topology.bolt("count", Count, parallelism=4).fields("split", "word")`.

        `parallelism` is how many tasks share its records; with states it cannot change without a fresh start. The other
        arguments are what the class is made with; `bound` says what keeps its states from growing, if anything does.
        """
        more = given_only({"bound": bound, "arguments": arguments or None})
        data: dict[str, Any] = {
            "from": [],
            "bolt": {"python": bolt, "grouping": [], "parallelism": parallelism, **more},
        }
        return Wiring(self, self._note("step", name, data), data)

    def task(self, name: str, task: type[Task], *, parallelism: int = 1, **arguments: Any) -> Wiring:
        """A stateful task in the manner of Samza: `topology.task("count", Count).fields("split", "word")`."""
        return self.bolt(name, task, parallelism=parallelism, **arguments)


class Wiring:
    """What a bolt reads, input by input; a bolt may have several, each with its own grouping."""

    def __init__(self, flow: Flow, name: str, data: dict[str, Any]) -> None:
        self._flow, self._name, self._data = flow, name, data

    def shuffle(self, *sources: str) -> Wiring:
        """Records of these parts to any task."""
        return self._wire(sources, "shuffle")

    def fields(self, source: str, *fields: str) -> Wiring:
        """Records of a part with equal values in these fields to the same task."""
        return self._wire((source,), {"fields": list(fields)})

    def all(self, *sources: str) -> Wiring:
        """Each record of these parts to every task."""
        return self._wire(sources, "all")

    def global_(self, *sources: str) -> Wiring:
        """All records of these parts to the first task."""
        return self._wire(sources, "global")

    @property
    def stream(self) -> Stream:
        """What the bolt emits, to go on with as with any stream."""
        return Stream(self._flow, self._name)

    def sink(self, name: str, connector: Any, **options: Any) -> None:
        """What the bolt emits, to the outside; see `Stream.sink`."""
        self.stream.sink(name, connector, **options)

    def _wire(self, sources: tuple[str, ...], grouping: Any) -> Wiring:
        for source in sources:
            self._data["from"].append(source)
            self._data["bolt"]["grouping"].append(grouping)
        return self

    def __repr__(self) -> str:
        return f"Wiring({self._name!r}, from {', '.join(self._data['from']) or 'nothing yet'})"
