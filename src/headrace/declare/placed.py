"""Plain values that know where they stood, for front doors whose text is not YAML.

They look to the walker of the flow file as the trees of its YAML reader do, so one walk makes the draft of them all.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from headrace.model import Location


class Where:
    """The places of the keys and values of one mapping or list."""

    def __init__(self) -> None:
        self.keys: dict[Hashable, Location] = {}
        self.values: dict[Hashable, Location] = {}

    def key(self, name: Hashable) -> Location:
        return self.keys[name]

    def value(self, name: Hashable) -> Location:
        return self.values[name]

    item = value


class Placed(dict[str, Any]):
    """A mapping with the place of every key and value."""

    def __init__(self) -> None:
        super().__init__()
        self.lc = Where()

    def put(self, key: str, value: Any, at: Location, value_at: Location | None = None) -> None:
        """Sets a value; `at` is the place of its name."""
        self[key] = value
        self.lc.keys[key], self.lc.values[key] = at, value_at or at

    def within(self, key: str, at: Location) -> Placed:
        """The mapping under a key, made if it is not there; what else stood there is replaced."""
        if not isinstance(self.get(key), Placed):
            self.put(key, Placed(), at)
        found: Placed = self[key]
        return found


class PlacedList(list[Any]):
    """A list with the place of every item."""

    def __init__(self) -> None:
        super().__init__()
        self.lc = Where()

    def add(self, value: Any, at: Location) -> None:
        self.lc.values[len(self)] = at
        self.append(value)
