"""The columns a step produces, and which of them tells the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from headrace.model.types import DataType, Field, parse_fields, quote


@dataclass(frozen=True)
class Schema:
    """Columns in order, and the event-time column if records carry one.

    Names are looked up as Spark does: in any case, the first that fits.

    >>> orders = Schema.parse("id BIGINT, at TIMESTAMP").timed("at")
    >>> orders.names, str(orders["AT"]), orders.event_time
    (('id', 'at'), 'timestamp', 'at')
    """

    fields: tuple[Field, ...] = ()
    event_time: str | None = None
    table: bool = False
    """Whether this is all there is, to be looked things up in, rather than records that come one after another."""

    @classmethod
    def parse(cls, ddl: str) -> Schema:
        """A schema from DDL text; raises TypeSyntaxError."""
        return cls(parse_fields(ddl))

    @classmethod
    def of(cls, columns: Iterable[tuple[str, DataType]], event_time: str | None = None) -> Schema:
        """A schema from name and type pairs; the event time stays only if its column is there."""
        fields = tuple(Field(name, kind) for name, kind in columns)
        return cls(fields, event_time if any(f.name == event_time for f in fields) else None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __contains__(self, name: str) -> bool:
        return self.find(name) is not None

    def __getitem__(self, name: str) -> DataType:
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        return found.type

    def find(self, name: str) -> Field | None:
        """The field of that name, in any case, or None."""
        wanted = name.lower()
        return next((f for f in self.fields if f.name.lower() == wanted), None)

    def timed(self, column: str | None) -> Schema:
        """The same columns with another event-time column."""
        return replace(self, event_time=column)

    def renamed(self, new_name: Callable[[str], str]) -> Schema:
        """Every column under a new name; the event time follows its column."""
        return Schema(
            tuple(Field(new_name(f.name), f.type) for f in self.fields),
            None if self.event_time is None else new_name(self.event_time),
        )

    def keeping(self, names: Iterable[str]) -> Schema:
        """Only the named columns, in this schema's order."""
        wanted = {n.lower() for n in names}
        kept = Schema.of(((f.name, f.type) for f in self.fields if f.name.lower() in wanted), self.event_time)
        return replace(kept, table=self.table)

    def with_columns(self, columns: Iterable[tuple[str, DataType]]) -> Schema:
        """Columns added at the end, or replaced where they stand."""
        known = {f.name.lower(): (f.name, f.type) for f in self.fields}
        for name, kind in columns:
            old = known.get(name.lower())
            known[name.lower()] = (old[0] if old else name, kind)
        return Schema.of(known.values(), self.event_time)

    def ddl(self) -> str:
        """The schema as Spark reads it.

        >>> Schema.parse("id long, `a b` string").ddl()
        'id bigint, `a b` string'
        """
        return ", ".join(f"{quote(f.name)} {f.type}" for f in self.fields)

    def __str__(self) -> str:
        return self.ddl()
