"""What a front door hands over: the author's words with their places, not yet understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.errors import Problem
from headrace.model import Location, Places

KEY = "<key>"
"""Ends a path that means the name of an option, not its value."""

Kind = Literal["source", "step", "sink"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One source, step or sink as it was written."""

    kind: Kind
    name: str
    data: Mapping[str, Any]
    places: Places


@dataclass(frozen=True)
class Claim:
    """What an author said that a flow has no place for, to be held against it: the time of an input is `column`."""

    step: str
    input: int
    column: str
    location: Location


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A flow as it was written, and what was wrong with the writing itself."""

    name: str
    description: str = ""
    spark: Mapping[str, Any] = field(default_factory=dict)
    state: Any = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    goal: Any = None
    dead_letters: Any = None
    entries: tuple[Entry, ...] = ()
    places: Places = field(default=Places())
    problems: tuple[Problem, ...] = ()
    claims: tuple[Claim, ...] = ()

    @property
    def location(self) -> Location:
        return self.places.location
