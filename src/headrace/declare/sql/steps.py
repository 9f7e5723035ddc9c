"""The steps a query becomes: a chain, of which the last takes the query's name; others are named after clauses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.declare.placed import Placed
from headrace.declare.sql.words import Name


@dataclass
class Pending:
    """A step that has no name yet."""

    clause: str
    """What it is named after if the query goes on behind it: where, group, join …"""
    operator: str
    options: Placed
    at: int
    inputs: list[Name] = field(default_factory=list)
    """What it reads; none: what the step before it gives."""
    times: list[tuple[int, Name]] = field(default_factory=list)
    """Columns its author calls the time of an input, by the input's number."""


@dataclass
class Relation:
    """Something in FROM: what it is called there, and what its columns are called in the records so far."""

    name: str
    column: Callable[[str], str] = lambda name: name


@dataclass
class Chain:
    """Where records come from, what was done to them so far, and what the tables in FROM are called."""

    start: Name
    steps: list[Pending] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)

    def add(self, step: Pending) -> Pending:
        self.steps.append(step)
        return step

    def find(self, name: str) -> Relation | None:
        return next((r for r in self.relations if r.name.lower() == name.lower()), None)
