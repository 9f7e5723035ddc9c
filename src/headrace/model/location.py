"""Where something was written: a file, a line, a column."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, order=True)
class Location:
    """A place in a file the author wrote; lines and columns count from 1, 0 means "not known".

    >>> str(Location("orders.yaml", 14, 5))
    'orders.yaml:14:5'
    """

    file: str = ""
    line: int = 0
    column: int = 0
    rest: str = field(default="", compare=False, repr=False)
    """The text from here on, where what stands here may go on in the next line."""
    spots: tuple[tuple[int, int, int], ...] = field(default=(), compare=False, repr=False)
    """Offset, line and column of the pieces of what stands here, where it is not written as it is meant."""

    def __str__(self) -> str:
        known = [str(n) for n in (self.line, self.column) if n]
        return ":".join([self.file or "<flow>", *known])

    def right(self, columns: int) -> Location:
        """Some characters further on: in the same line, unless the text is known to go on in another."""
        if self.spots:
            offset, line, column = max(spot for spot in self.spots if spot[0] <= max(columns, 0))
            return Location(self.file, line, column + columns - offset)
        passed = self.rest[:columns]
        if "\n" in passed:
            return Location(self.file, self.line + passed.count("\n"), len(passed) - passed.rfind("\n"))
        return Location(self.file, self.line, self.column + columns) if self.column else self
