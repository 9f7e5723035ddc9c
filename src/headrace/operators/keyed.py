"""The engine of `process`: one key at a time, its records and timers in a defined order. No Spark here.

On the event clock an entry with a time to live ends that long after the time of the record that wrote it, and a
record of that time or later does not see it: which entries a record sees does not depend on how the input was cut
into batches. Timers that only look for what is over share the store with the author's, which are noted apart.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, Literal

from headrace.model import Schema
from headrace.operators.functions import UserFunctionError, as_json, failed, failure_of
from headrace.processor import (
    HANDLES,
    Kept,
    Life,
    Processor,
    Shape,
    StateDeclaration,
    Timers,
    ValueState,
    milliseconds,
    moment,
)

SHORT = "state"
"""The name of the one state of the short form."""
WAITING = "_waiting"
"""Records that wait for their turn, with `order: time`."""
OWN_TIMERS = "_timers"
"""The author's timers; the store's also serve other ends, and one that was deleted may still come."""
EXPIRES = "_expires"
"""The last column of what has a time to live: milliseconds since 1970."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a step does, as a value that travels to the workers."""

    step: str
    make: Callable[[], Processor]
    states: Mapping[str, StateDeclaration]
    by: tuple[str, ...]
    time: str | None
    """The event-time column."""
    given: Schema
    clock: Literal["event", "processing", "none"]
    ordered: bool = False
    short: bool = False
    timers: bool = False
    failures: str | None = None
    """The folder for records its function raised on, one below it for each batch; None: such a record is an error."""

    @property
    def own_life(self) -> bool:
        """Whether lifetimes are ours to keep; on the processing clock they are the store's."""
        return self.clock == "event" and any(s.life is not None for s in self.states.values())

    def layout(self) -> dict[str, tuple[str, tuple[str, ...], timedelta | None]]:
        """Every state as the store keeps it: its kind, its columns, and the life that the store sees to."""
        found: dict[str, tuple[str, tuple[str, ...], timedelta | None]] = {}
        for name, state in self.states.items():
            columns = [schema.ddl() for schema in state.schemas()]
            if self.own_life and state.life is not None:
                columns[-1] += f", {EXPIRES} BIGINT"
            found[name] = (state.kind, tuple(columns), None if self.clock == "event" else state.life)
        if self.ordered:
            found[WAITING] = ("list", (self.given.ddl(),), None)
        if self.timers:
            found[OWN_TIMERS] = ("value", ("at ARRAY<BIGINT>",), None)
        return found


@dataclass
class Memory:
    """State of one key in memory: for batch mode, and for authors' own tests."""

    values: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    lists: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    maps: dict[str, dict[tuple[Any, ...], tuple[Any, ...]]] = field(default_factory=dict)
    set_timers: set[int] = field(default_factory=set)

    def value(self, name: str) -> tuple[Any, ...] | None:
        return self.values.get(name)

    def put_value(self, name: str, row: tuple[Any, ...] | None) -> None:
        if row is None:
            self.values.pop(name, None)
        else:
            self.values[name] = row

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        return list(self.lists.get(name, ()))

    def put_rows(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        self.lists[name] = list(rows)

    def add_rows(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        self.lists.setdefault(name, []).extend(rows)

    def entry(self, name: str, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return self.maps.get(name, {}).get(key)

    def entries(self, name: str) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        return list(self.maps.get(name, {}).items())

    def put_entry(self, name: str, key: tuple[Any, ...], row: tuple[Any, ...] | None) -> None:
        entries = self.maps.setdefault(name, {})
        if row is None:
            entries.pop(key, None)
        else:
            entries[key] = row

    def timers(self) -> list[int]:
        return sorted(self.set_timers)

    def add_timer(self, milliseconds: int) -> None:
        self.set_timers.add(milliseconds)

    def delete_timer(self, milliseconds: int) -> None:
        self.set_timers.discard(milliseconds)


class _None(Timers):
    """For a processor that has no `on_timer`."""

    def at(self, when: datetime) -> None:
        raise TypeError("a timer needs an on_timer method, and this processor has none")


class _Noted(Timers):
    """The author's timers kept apart from ours, and set in the store as well so that somebody wakes."""

    def __init__(self, kept: Kept, shared: bool) -> None:
        super().__init__(kept)
        self._shared = shared
        self.forget()

    def forget(self) -> None:
        self._own: set[int] | None = None
        self._dirty = False

    @property
    def own(self) -> set[int]:
        if self._own is None:
            row = self._kept.value(OWN_TIMERS)
            self._own = set(row[0]) if row is not None else set()
        return self._own

    def at(self, when: datetime) -> None:
        self.own.add(milliseconds(when))
        self._dirty = True
        super().at(when)

    def delete(self, when: datetime) -> None:
        at = milliseconds(when)
        if at in self.own and not self._shared:
            super().delete(when)
        self.take(at)

    def take(self, at: int) -> None:
        self._dirty = self._dirty or at in self.own
        self.own.discard(at)

    def all(self) -> list[datetime]:
        return [moment(at) for at in sorted(self.own)]

    def save(self) -> None:
        if self._dirty:
            self._kept.put_value(OWN_TIMERS, (sorted(self.own),) if self.own else None)
            self._dirty = False


class Engine:
    """Runs a processor over one key after another; what it gives are plain dicts.

    A record or timer on which it raises is handed to `reject`, and the state is as if it had never come: what was done
    since the state was last saved is forgotten and done again without it. Without `reject` the error is raised.
    """

    def __init__(self, work: Work, kept: Kept, reject: Callable[[dict[str, str]], None] | None = None) -> None:
        self.work, self.kept, self._reject = work, kept, reject
        self._done: list[tuple[int | None, int, dict[str, Any]]] = []
        self.processor = work.make()
        shared = work.own_life or work.ordered
        self.timers: Timers = _Noted(kept, shared) if work.timers else _None(kept)
        self.lives: list[Life] = []
        self.handles: dict[str, Any] = {}
        for name, state in work.states.items():
            ttl = state.life if work.own_life else None
            life = Life(kept, None if ttl is None else round(ttl.total_seconds() * 1000))
            shapes = tuple(Shape.of(schema, always_dict=work.short) for schema in state.schemas())
            self.handles[name] = HANDLES[state.kind](name, shapes, life)
            self.lives.append(life)
        self.state = SimpleNamespace(**self.handles)
        self._waiting = Shape.of(work.given, always_dict=True)

    def begin(self, watermark: int | None, batch_time: int | None) -> None:
        """A batch begins."""
        self.watermark = watermark
        self.timers.watermark = None if watermark is None else moment(watermark)
        self.timers.batch_time = None if batch_time is None else moment(batch_time)
        self.now = watermark if self.work.clock == "event" and watermark is not None else batch_time or 0

    def records(self, key: dict[str, Any], rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The records of one key in one batch."""
        self._turn()
        if self.work.ordered:
            self._wait(rows)
        else:
            if self.work.timers and self.work.clock == "event" and self.watermark is not None:
                yield from self._timers_until(key, self.watermark)
            for record in self.in_order(rows):
                yield from self._record(record)
        self._save()

    def due(self, key: dict[str, Any], at: int) -> Iterator[dict[str, Any]]:
        """A timer of the store has come for a key."""
        self._turn()
        if self.work.ordered:
            assert self.watermark is not None
            yield from self.until(key, self.watermark, self._ready(self.watermark))
        elif self.work.timers:
            yield from self._timer(key, at)
        if self.work.own_life:
            self._at(at if self.watermark is None else max(at, self.watermark))
            for handle in self.handles.values():
                handle.sweep()
        self._save()

    def initial(self, key: dict[str, Any], row: dict[str, Any]) -> None:
        """A row of the initial table."""
        self._turn()
        self._at(self.now)
        for _ in self._call(self.processor.on_initial, row, row, self.state, self.timers):
            raise TypeError("on_initial gives nothing")
        self._save()

    def whole(self, key: dict[str, Any], rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """All there is of one key, in batch mode: records and timers in the order of their times.

        On the processing clock all of it happens at one time, so timers come at the end, in order.
        """
        self._turn()
        ordered = self.in_order(rows)
        if self.work.clock == "event" and self.work.timers:
            yield from self.until(key, None, ordered)
            return
        for record in ordered:
            yield from self._record(record)
        if self.work.timers:
            yield from self._last_timers(key)

    def until(self, key: dict[str, Any], end: int | None, records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Records that are in order, each after the timers that are due by its time, then timers up to `end`."""
        for record in records:
            time = record[self.work.time] if self.work.time else None
            if time is not None and self.work.timers:
                yield from self._timers_until(key, _before(time))
            yield from self._record(record)
        if not self.work.timers:
            return
        if end is None:
            yield from self._last_timers(key)
        else:
            yield from self._timers_until(key, end)

    def in_order(self, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Records as they are handled: by event time if there is one, those without it first; else as they came."""
        time = self.work.time
        if time is None:
            return list(rows)
        return sorted(rows, key=lambda r: (r[time] is not None, r[time] if r[time] is not None else 0))

    def _timers_until(self, key: dict[str, Any], end: int) -> Iterator[dict[str, Any]]:
        """Timers in order, with those that are set on the way."""
        last: int | None = None
        while True:
            soon = [at for at in self._own_timers() if at <= end and (last is None or at > last)]
            if not soon:
                return
            last = min(soon)
            yield from self._timer(key, last)

    def _last_timers(self, key: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Once the input has ended each timer fires; those set meanwhile do not, for they might never end."""
        for at in self._own_timers():
            if at in self._own_timers():  # one that fired before may have deleted it
                yield from self._timer(key, at)

    def _own_timers(self) -> list[int]:
        return [milliseconds(when) for when in self.timers.all()]

    def _timer(self, key: dict[str, Any], at: int) -> Iterator[dict[str, Any]]:
        assert isinstance(self.timers, _Noted)
        if at not in self.timers.own:
            return  # one of ours, or deleted, or fired already
        try:
            answers = self._take_timer(at, key)
        except UserFunctionError as error:
            if self._reject is None:
                raise
            self._undo()
            self.timers.take(at)  # it has come, and would fail again
            self.timers.save()
            self._reject({**failure_of(error), "record": as_json({"timer": moment(at), **key})})
            return
        self._done.append((at, at, key))
        yield from answers

    def _take_timer(self, at: int, key: dict[str, Any]) -> list[dict[str, Any]]:
        assert isinstance(self.timers, _Noted)
        self.timers.take(at)
        self._at(at)
        about = {"timer": moment(at), **key}
        return self._call(self.processor.on_timer, about, moment(at), key, self.state, self.timers)

    def _record(self, record: dict[str, Any]) -> Iterator[dict[str, Any]]:
        time = record[self.work.time] if self.work.time and self.work.clock == "event" else None
        now = milliseconds(time) if time is not None else self.now
        before = record if self._reject is None else dict(record)  # a function may change what it is given
        try:
            answers = self._take(record, now)
        except UserFunctionError as error:
            if self._reject is None:
                raise
            self._undo()
            self._reject({**failure_of(error), "record": as_json(before)})
            return
        self._done.append((None, now, before))
        yield from answers

    def _take(self, record: dict[str, Any], now: int) -> list[dict[str, Any]]:
        self._at(now)
        return self._call(self.processor.on_record, record, record, self.state, self.timers)

    def _undo(self) -> None:
        """Back to before the call that failed: what is not saved is forgotten and, but for that call, done again."""
        done = self._done
        self._turn()
        for timer, now, given in done:
            if timer is None:
                self._take(dict(given), now)
            else:
                self._take_timer(timer, given)
        if isinstance(self.timers, _Noted):
            for at in self.timers.own:  # the call may have deleted some, and the store was told at once
                self.kept.add_timer(at)
        self._save()

    def _at(self, now: int) -> None:
        for life in self.lives:
            life.now = now

    def _call(self, method: Callable[..., Any], about: object, *arguments: Any) -> list[dict[str, Any]]:
        """What a method of the author's gives, as a list; a failure tells the step, the line and the record."""
        try:
            return _listed(method(*arguments))
        except Exception as error:
            raise failed(error, self.work.step, getattr(method, "authors", method), about) from error

    def _wait(self, rows: Iterable[dict[str, Any]]) -> None:
        """Records wait until the watermark has passed them; one without a time cannot wait for anything."""
        waiting = list(rows)
        self.kept.add_rows(WAITING, [self._waiting.store(row) for row in waiting])
        for at in {self._turn_of(row) for row in waiting}:
            self.kept.add_timer(at)

    def _turn_of(self, row: dict[str, Any]) -> int:
        assert self.work.time is not None
        time = row[self.work.time]
        return (self.watermark or 0) if time is None else milliseconds(time)

    def _ready(self, watermark: int) -> list[dict[str, Any]]:
        """The records whose turn has come, in order; the others go on waiting."""
        rows = self.kept.rows(WAITING)
        waiting = [self._waiting.load(row) for row in rows]
        ready = [row for row in waiting if self._turn_of(row) <= watermark]
        if ready:
            left = [stored for stored, row in zip(rows, waiting, strict=True) if self._turn_of(row) > watermark]
            self.kept.put_rows(WAITING, left)
        return self.in_order(ready)

    def _turn(self) -> None:
        """Another key's turn: nothing of the one before is remembered."""
        self._done = []
        for handle in self.handles.values():
            handle.forget()
        if isinstance(self.timers, _Noted):
            self.timers.forget()

    def _save(self) -> None:
        self._done = []
        for handle in self.handles.values():
            handle.save()
        if isinstance(self.timers, _Noted):
            self.timers.save()


def _before(time: datetime) -> int:
    """The last millisecond that is not after a time."""
    at = milliseconds(time)
    return at if moment(at) <= (time if time.tzinfo else time.replace(tzinfo=moment(0).tzinfo)) else at - 1


def _listed(answer: Any) -> list[dict[str, Any]]:
    if answer is None:
        return []
    rows = [answer] if isinstance(answer, Mapping) else answer
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise TypeError(f"it gave {answer!r}; it must give None, a dict, or several dicts")
    found = []
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"it gave {row!r} among its records; a record is a dict")
        found.append(dict(row))
    return found


class ShortForm(Processor):
    """A function of record and state as a processor."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    @property
    def on_record(self) -> Callable[..., Any]:
        return _Folding(self.function)

    @property
    def on_initial(self) -> Callable[..., None]:
        return _take_initial


class _Folding:
    """`f(record, state) -> (outputs, state)` in the shape of `on_record`; errors name the author's function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.authors = function

    def __call__(self, record: dict[str, Any], state: Any, timers: Timers) -> Any:
        held = getattr(state, SHORT)
        answer = self.authors(record, held.get())
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeError(f"it gave {answer!r}; it must give two things: (outputs, state)")
        outputs, after = answer
        if after is None:
            held.clear()
        else:
            held.set(after)
        return outputs


def _take_initial(row: dict[str, Any], state: Any, timers: Timers) -> None:
    getattr(state, SHORT).set(row)


def takes_two(function: Callable[..., Any]) -> bool:
    """Whether a function can be called with a record and a state."""
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


def short_states(columns: str, ttl: timedelta | None) -> dict[str, StateDeclaration]:
    """The one state of the short form."""
    return {SHORT: ValueState(columns, ttl)}
