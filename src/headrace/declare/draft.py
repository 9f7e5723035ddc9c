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


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A flow as it was written, and what was wrong with the writing itself."""

    name: str
    description: str = ""
    spark: Mapping[str, Any] = field(default_factory=dict)
    state: Any = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    dead_letters: Any = None
    entries: tuple[Entry, ...] = ()
    places: Places = field(default=Places())
    problems: tuple[Problem, ...] = ()

    @property
    def location(self) -> Location:
        return self.places.location
