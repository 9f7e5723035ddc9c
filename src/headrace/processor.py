"""Keyed processors: what an author writes a step with state and timers with.

    class Idle(Processor):
        '''Says when a user has done nothing for ten minutes.'''

        returns = "user STRING, clicks BIGINT, since TIMESTAMP"
        clicks = ValueState("n BIGINT")
        pages = MapState("page STRING", "n BIGINT", ttl="1 day")
        bound = "cleared ten minutes after the last click"

        def on_record(self, record, state, timers):
            state.clicks.set(state.clicks.get(0) + 1)
            for old in timers.all():
                timers.delete(old)
            timers.at(record["at"] + timedelta(minutes=10))

        def on_timer(self, when, key, state, timers):
            yield {"user": key["user"], "clicks": state.clicks.get(), "since": when}
            state.clicks.clear()

A state of one column holds that column's value itself, one of several columns holds dicts. `on_record` and
`on_timer` give nothing, one dict, or several. An instance serves many keys: keep nothing in `self`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal, Protocol

from headrace.model import Schema
from headrace.options import parse_duration

__all__ = ["ListState", "MapState", "Processor", "Timers", "ValueState", "numbered"]

Outputs = Any
"""None, one mapping, or an iterable of mappings."""


@dataclass(frozen=True)
class StateDeclaration:
    """What every kind of state has: columns, and how long an entry lives after it was written."""

    columns: str
    ttl: str | timedelta | None = None

    @property
    def life(self) -> timedelta | None:
        """The time to live; raises what `parse_duration` raises."""
        return None if self.ttl is None else parse_duration(self.ttl)

    def schemas(self) -> tuple[Schema, ...]:
        """Of the key, for a map, and of the value; raises TypeSyntaxError."""
        return (Schema.parse(self.columns),)

    @property
    def kind(self) -> str:
        return type(self).__name__.removesuffix("State").lower()

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(str(s) for s in self.schemas())}, {self.life})"


@dataclass(frozen=True)
class ValueState(StateDeclaration):
    """One value per key: `ValueState("n BIGINT")`."""


@dataclass(frozen=True)
class ListState(StateDeclaration):
    """A list per key: `ListState("id BIGINT")`; each element has a life of its own."""


@dataclass(frozen=True, init=False)
class MapState(StateDeclaration):
    """A map per key: `MapState("day DATE", "n BIGINT")`; each entry has a life of its own."""

    keys: str = ""

    def __init__(self, keys: str, columns: str, ttl: str | timedelta | None = None) -> None:
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "ttl", ttl)

    def schemas(self) -> tuple[Schema, ...]:
        return Schema.parse(self.keys), Schema.parse(self.columns)


class Processor:
    """Base of keyed processors; see the module's own text for an example."""

    returns: ClassVar[str] = ""
    """The columns it gives, `name TYPE, …`; the step's `returns` goes over it."""
    clock: ClassVar[Literal["event", "processing"]] = "event"
    """What timers and lifetimes run on: the records' own time, or when a batch was planned."""
    bound: ClassVar[str | None] = None
    """What keeps the state from growing, in words, where no time to live does: "cleared by a timer after an hour"."""

    def on_record(self, record: dict[str, Any], state: Any, timers: Timers) -> Outputs:
        """Called for each record."""
        raise NotImplementedError

    def on_timer(self, when: datetime, key: dict[str, Any], state: Any, timers: Timers) -> Outputs:
        """Called when a timer is due."""

    def on_initial(self, row: dict[str, Any], state: Any, timers: Timers) -> None:
        """Called for each row of the step's `initial` table, before any record."""
        raise NotImplementedError

    @classmethod
    def states(cls) -> dict[str, StateDeclaration]:
        """The states it declares, by name, those of base classes first."""
        found: dict[str, StateDeclaration] = {}
        for base in reversed(cls.__mro__):
            found |= {name: value for name, value in vars(base).items() if isinstance(value, StateDeclaration)}
        return found

    @classmethod
    def uses_timers(cls) -> bool:
        return cls.on_timer is not Processor.on_timer


def numbered(record: dict[str, Any], state: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """A function for `process`, as an example: each record with its number among those of its key.

    >>> numbered({"user": "ann"}, {"n": 2})
    ({'user': 'ann', 'number': 3}, {'n': 3})
    """
    n = (state["n"] if state else 0) + 1
    return {**record, "number": n}, {"n": n}


class Kept(Protocol):
    """Where the state of the key at hand is kept, as tuples: in Spark's state store, or in memory."""

    def value(self, name: str) -> tuple[Any, ...] | None: ...
    def put_value(self, name: str, row: tuple[Any, ...] | None) -> None: ...
    def rows(self, name: str) -> list[tuple[Any, ...]]: ...
    def put_rows(self, name: str, rows: list[tuple[Any, ...]]) -> None: ...
    def add_rows(self, name: str, rows: list[tuple[Any, ...]]) -> None: ...
    def entry(self, name: str, key: tuple[Any, ...]) -> tuple[Any, ...] | None: ...
    def entries(self, name: str) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]: ...
    def put_entry(self, name: str, key: tuple[Any, ...], row: tuple[Any, ...] | None) -> None: ...
    def timers(self) -> list[int]: ...
    def add_timer(self, milliseconds: int) -> None: ...
    def delete_timer(self, milliseconds: int) -> None: ...


def milliseconds(when: datetime) -> int:
    """A time as Spark counts it; rounded up, so that nothing is due before its time. Without a zone it is UTC."""
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return -((datetime(1970, 1, 1, tzinfo=UTC) - when) // timedelta(milliseconds=1))


def moment(milliseconds_: int) -> datetime:
    """The time that many milliseconds after 1970."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds_)


class Timers:
    """The timers of one key, on the processor's clock. A timer is a time; setting it twice sets it once."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self.watermark: datetime | None = None
        """Up to where the input is complete, as of this batch; None before it is known."""
        self.batch_time: datetime | None = None
        """When this batch was planned; the same if it is repeated after a crash."""

    def at(self, when: datetime) -> None:
        """`on_timer` is called once the clock has reached this time."""
        self._kept.add_timer(milliseconds(when))

    def delete(self, when: datetime) -> None:
        """Forget a timer; nothing happens if there is none."""
        self._kept.delete_timer(milliseconds(when))

    def all(self) -> list[datetime]:
        """The times that are set, the earliest first."""
        return [moment(ms) for ms in sorted(self._kept.timers())]


@dataclass(frozen=True)
class Shape:
    """How an author's values lie in tuples: the value itself for one column, a dict for several."""

    names: tuple[str, ...]
    zoned: bool
    """Whether it may hold timestamps, which come back from the store without their zone."""
    always_dict: bool = False

    @classmethod
    def of(cls, schema: Schema, *, always_dict: bool = False) -> Shape:
        text = str(schema)
        return cls(schema.names, "timestamp" in text.replace("timestamp_ntz", ""), always_dict)

    @property
    def width(self) -> int:
        return len(self.names)

    def load(self, row: tuple[Any, ...]) -> Any:
        values = [_whole(v) for v in row[: self.width]] if self.zoned else list(row[: self.width])
        if self.width == 1 and not self.always_dict:
            return values[0]
        return dict(zip(self.names, values, strict=True))

    def store(self, value: Any) -> tuple[Any, ...]:
        if self.width == 1 and not self.always_dict:
            return (value,)
        if not isinstance(value, Mapping):
            raise TypeError(f"this state has the columns {', '.join(self.names)} and holds dicts, not {value!r}")
        unknown = [name for name in value if name not in self.names]
        if unknown:
            raise KeyError(f"this state has no column {unknown[0]!r}; it has {', '.join(self.names)}")
        return tuple(value.get(name) for name in self.names)


def _whole(value: Any) -> Any:
    """A value from the state store with its timestamps in UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if hasattr(value, "asDict"):
        return {name: _whole(v) for name, v in value.asDict().items()}
    if isinstance(value, dict):
        return {_whole(k): _whole(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_whole(v) for v in value]
    return value


@dataclass
class Life:
    """How long what is written now lives. Entries carry the time they end at as a last column."""

    kept: Kept
    ttl: int | None
    """In milliseconds; None: for ever, and no column is added."""
    now: int = 0

    def mark(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return row if self.ttl is None else (*row, self.now + self.ttl)

    def over(self, row: tuple[Any, ...]) -> bool:
        return self.ttl is not None and row[-1] <= self.now

    def watch(self, rows: list[tuple[Any, ...]]) -> None:
        """Sees to it that somebody looks when the first of these is over."""
        if self.ttl is not None and rows:
            self.kept.add_timer(min(row[-1] for row in rows))


class Value:
    """One value of the key at hand; read once, written once per batch."""

    def __init__(self, name: str, shapes: tuple[Shape, ...], life: Life) -> None:
        self._name, self._shape, self._life = name, shapes[-1], life
        self.forget()

    def forget(self) -> None:
        self._row: tuple[Any, ...] | None = None
        self._before: tuple[Any, ...] | None = None
        self._read = self._dirty = False

    def _current(self) -> tuple[Any, ...] | None:
        if not self._read:
            self._row = self._before = self._life.kept.value(self._name)
            self._read = True
        return None if self._row is None or self._life.over(self._row) else self._row

    def get(self, default: Any = None) -> Any:
        """The value, or `default` if there is none."""
        row = self._current()
        return default if row is None else self._shape.load(row)

    def set(self, value: Any) -> None:
        """Remember a value instead of the one before."""
        row = self._life.mark(self._shape.store(value))
        if self._life.ttl is not None:
            self._current()
        self._row, self._read, self._dirty = row, True, True

    def clear(self) -> None:
        """Forget the value."""
        self._row, self._read, self._dirty = None, True, True

    def save(self) -> None:
        if self._dirty:
            self._life.kept.put_value(self._name, self._row)
            if self._row is not None and self._before is None:
                self._life.watch([self._row])
            self._before, self._dirty = self._row, False

    def sweep(self) -> None:
        """Drop what is over."""
        if self._current() is None and self._row is not None:
            self.clear()
        elif self._row is not None:
            self._life.watch([self._row])


class List:
    """The list of the key at hand."""

    def __init__(self, name: str, shapes: tuple[Shape, ...], life: Life) -> None:
        self._name, self._shape, self._life = name, shapes[-1], life
        self.forget()

    def forget(self) -> None:
        self._rows: list[tuple[Any, ...]] | None = None
        self._added: list[tuple[Any, ...]] = []
        self._replaced = self._was_empty = False

    def _all(self) -> list[tuple[Any, ...]]:
        if self._rows is None:
            self._rows = self._life.kept.rows(self._name)
            self._was_empty = not self._rows
        return [row for row in (*self._rows, *self._added) if not self._life.over(row)]

    def __iter__(self) -> Iterator[Any]:
        return iter([self._shape.load(row) for row in self._all()])

    def __len__(self) -> int:
        return len(self._all())

    def append(self, value: Any) -> None:
        """One more element at the end."""
        if self._life.ttl is not None:
            self._all()
        self._added.append(self._life.mark(self._shape.store(value)))

    def replace(self, values: Any) -> None:
        """These elements instead of those before."""
        new = [self._life.mark(self._shape.store(value)) for value in values]
        self._rows, self._added, self._replaced, self._was_empty = new, [], True, True

    def clear(self) -> None:
        """No elements."""
        self.replace(())

    def save(self) -> None:
        if self._replaced:
            rows = [*(self._rows or ()), *self._added]
            self._life.kept.put_rows(self._name, rows)
            self._life.watch(rows)
        elif self._added:
            self._life.kept.add_rows(self._name, self._added)
            if self._was_empty:
                self._life.watch(self._added)
        if self._rows is not None:
            self._rows, self._was_empty = [*self._rows, *self._added], False
        self._added, self._replaced = [], False

    def sweep(self) -> None:
        left = self._all()
        if len(left) < len(self._rows or ()) + len(self._added):
            self._rows, self._added, self._replaced = left, [], True
        self._life.watch(left)


class Map:
    """The map of the key at hand."""

    def __init__(self, name: str, shapes: tuple[Shape, ...], life: Life) -> None:
        self._name, (self._key, self._shape), self._life = name, shapes, life
        self.forget()

    def forget(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[Any, ...] | None] = {}
        self._dirty: dict[tuple[Any, ...], None] = {}
        self._complete = False

    def _find(self, key: Any) -> tuple[Any, ...] | None:
        at = self._key.store(key)
        if at not in self._known:
            self._known[at] = None if self._complete else self._life.kept.entry(self._name, at)
        row = self._known[at]
        return None if row is None or self._life.over(row) else row

    def _load(self) -> None:
        if not self._complete:
            for at, row in self._life.kept.entries(self._name):
                self._known.setdefault(self._key.store(self._key.load(at)), row)
            self._complete = True

    def _items(self) -> list[tuple[Any, Any]]:
        self._load()
        live = [(at, row) for at, row in self._known.items() if row is not None and not self._life.over(row)]
        # In the order of the keys' text: neither the store's order nor that of writing is the same everywhere.
        return [(self._key.load(at), self._shape.load(row)) for at, row in sorted(live, key=lambda i: _sortable(i[0]))]

    def get(self, key: Any, default: Any = None) -> Any:
        """The value at a key, or `default` if there is none."""
        row = self._find(key)
        return default if row is None else self._shape.load(row)

    def __getitem__(self, key: Any) -> Any:
        row = self._find(key)
        if row is None:
            raise KeyError(key)
        return self._shape.load(row)

    def __setitem__(self, key: Any, value: Any) -> None:
        at = self._key.store(key)
        self._known[at] = self._life.mark(self._shape.store(value))
        self._dirty[at] = None

    def __delitem__(self, key: Any) -> None:
        at = self._key.store(key)
        self._known[at] = None
        self._dirty[at] = None

    def __contains__(self, key: Any) -> bool:
        return self._find(key) is not None

    def __len__(self) -> int:
        return len(self._items())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def keys(self) -> list[Any]:
        """The keys, in order."""
        return [key for key, _ in self._items()]

    def values(self) -> list[Any]:
        """The values, in the order of their keys."""
        return [value for _, value in self._items()]

    def items(self) -> list[tuple[Any, Any]]:
        """Keys and values, in the order of the keys."""
        return self._items()

    def clear(self) -> None:
        """No entries."""
        self._load()
        for at in self._known:
            self._known[at] = None
            self._dirty[at] = None

    def save(self) -> None:
        for at in self._dirty:
            self._life.kept.put_entry(self._name, at, self._known[at])
        self._life.watch([row for at in self._dirty if (row := self._known[at]) is not None])
        self._dirty = {}

    def sweep(self) -> None:
        self._load()
        for at, row in self._known.items():
            if row is not None and self._life.over(row):
                self._known[at] = None
                self._dirty[at] = None
        self._life.watch([row for row in self._known.values() if row is not None])


def _sortable(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((value is not None, type(value).__name__, value) for value in key)


HANDLES: dict[str, type[Value] | type[List] | type[Map]] = {"value": Value, "list": List, "map": Map}
"""What stands for a declared state while a record is handled."""
