"""Spouts, bolts and tasks: what the parts of a topology are written as, in the manner of Storm and Samza.

    class Sentences(Spout):
        returns = "sentence STRING"

        def open(self):
            self.lines = iter(open("words.txt"))

        def next(self):
            return {"sentence": next(self.lines).strip()}      # StopIteration: there will be no more

    class Split(Bolt):
        returns = "word STRING"

        def execute(self, record, out):
            for word in record["sentence"].split(" "):
                out.emit(word)

    class Count(Bolt):
        returns = "word STRING, n BIGINT"
        counts = Store("word STRING", "n BIGINT")               # survives the process, unlike a dict in self

        def execute(self, record, out):
            word = record["word"]
            self.counts[word] = self.counts.get(word, 0) + 1
            out.emit(word, self.counts[word])

What lies in `self` is lost with the process, as it is in Storm; what must survive lies in a declared state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headrace.processor import MapState, StateDeclaration

Emitted = Mapping[str, Any]


class Spout:
    """Base of custom sources that hand over one record after another; see the module's own text for an example.

    What `next` gave is on disk in the run's home before a batch has it, so every batch can be repeated. What follows
    for the records depends on what the spout can do: with `seek` none is lost or doubled; with `ack` and records that
    have an id, what was not acknowledged comes again from outside and is recognised by its id while it is open; with
    neither, what was taken and not yet on disk when the process dies is lost.
    """

    returns: ClassVar[str] = ""
    """The columns of its records, `name TYPE, …`."""

    def open(self) -> None:
        """Called once, before anything else: connect to what the records come from."""

    def next(self) -> Emitted | tuple[Emitted, Any] | None:
        """The next record, or the record and its id; None if there is none now; StopIteration if there is no more.

        It must not wait long: a batch is made of what it gives at once. An id is anything JSON can say.
        """
        raise NotImplementedError

    def seek(self, position: int) -> None:
        """Called after `open` when a run goes on: so many records are on disk, `next` begins with the one behind."""

    def ack(self, id: Any) -> None:
        """The batch with this record is committed in every query that reads it; may be called again after a crash."""

    def fail(self, id: Any) -> None:
        """The process died before the record's batch was committed; it is read again from disk, not from here."""

    def close(self) -> None:
        """Called when the run stops."""


class Record(dict[str, Any]):
    """A record as a bolt is given it: a dict that also knows which part it came from."""

    source: str = ""


class Out:
    """Where a bolt puts its records."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self.rows: list[dict[str, Any]] = []

    def emit(self, *values: Any, **named: Any) -> None:
        """One record: its values in the order of `returns`, by name, or as a mapping."""
        if len(values) == 1 and isinstance(values[0], Mapping):
            row = {**values[0], **named}
        elif len(values) > len(self._names):
            raise TypeError(f"{len(values)} values for {len(self._names)} columns: {', '.join(self._names)}")
        else:
            row = {**dict(zip(self._names, values, strict=False)), **named}
        unknown = [name for name in row if name not in self._names]
        if unknown:
            raise KeyError(f"there is no column {unknown[0]!r}; there are {', '.join(self._names)}")
        self.rows.append({name: row.get(name) for name in self._names})

    send = emit


class Store(MapState):
    """A key-value store of a task: `counts = Store("word STRING", "n BIGINT")`; it survives the process."""

    @property
    def kind(self) -> str:
        return "map"


class KeyValue:
    """A store while a record is handled: like a dict, and with the words of Samza's."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def get(self, key: Any, default: Any = None) -> Any:
        """The value at a key, or `default`."""
        return self._held.get(key, default)

    def put(self, key: Any, value: Any) -> None:
        """A value at a key."""
        self._held[key] = value

    def delete(self, key: Any) -> None:
        """Nothing at that key any more."""
        del self._held[key]

    def all(self) -> list[tuple[Any, Any]]:
        """Every key with its value, in order of the keys; reads the whole store of the task."""
        found: list[tuple[Any, Any]] = self._held.items()
        return found

    items = all
    __setitem__ = put
    __delitem__ = delete

    def __getitem__(self, key: Any) -> Any:
        return self._held[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._held

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


class Bolt:
    """Base of processors in a topology; see the module's own text for an example.

    States (`Store`, and those of `headrace.processor`) are declared in the class and belong to a task: records that a
    grouping sends to one task share them. A bolt without any is run wherever its records are.
    """

    returns: ClassVar[str] = ""
    """The columns of the records it emits, `name TYPE, …`."""
    bound: ClassVar[str | None] = None
    """What keeps its states from growing, in words, where no time to live does."""

    def prepare(self, task: int) -> None:
        """Called whenever a task is set up, at least once a batch; states are there and may hold something."""

    def execute(self, record: Record, out: Out) -> None:
        """Called for each record; what it emits leaves the bolt when the batch is committed."""
        raise NotImplementedError

    @classmethod
    def states(cls) -> dict[str, StateDeclaration]:
        """The states it declares, by name, those of base classes first."""
        found: dict[str, StateDeclaration] = {}
        for base in reversed(cls.__mro__):
            found |= {name: value for name, value in vars(base).items() if isinstance(value, StateDeclaration)}
        return found


class Task(Bolt):
    """A stateful task in the manner of Samza: one store, `init(store)` and `process(record, store, out)`.

    class Count(Task):
        returns = "word STRING, n BIGINT"
        store = Store("word STRING", "n BIGINT")

        def process(self, record, store, out):
            n = store.get(record["word"], 0) + 1
            store.put(record["word"], n)
            out.send(record["word"], n)
    """

    store: ClassVar[Any] = Store("key STRING", "value STRING")

    def init(self, store: KeyValue) -> None:
        """Called whenever a task is set up, at least once a batch; the store may hold something already."""

    def process(self, record: Record, store: KeyValue, out: Out) -> None:
        """Called for each record."""
        raise NotImplementedError

    def prepare(self, task: int) -> None:
        self.init(self.store)

    def execute(self, record: Record, out: Out) -> None:
        self.process(record, self.store, out)
