"""Where the characters of a YAML text stand in the file, if it goes over several lines or has escapes."""

from __future__ import annotations

import re
from typing import Any

from headrace.model import Location

_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_ESCAPES = {
    '"': re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.|$)"),
    "'": re.compile(r"''"),
}


class Scalars:
    """The texts of a file whose characters do not simply stand one after another, by where they begin."""

    def __init__(self, text: str) -> None:
        self.lines = _BREAK.split(text)
        self.found: dict[tuple[int, int], tuple[tuple[int, int, int], ...]] = {}

    def note(self, node: Any, value: str) -> None:
        """Notes where the pieces of a text stand, as (offset in the text, line, column)."""
        start, end = node.start_mark, node.end_mark
        if start.line == end.line and node.style not in _ESCAPES:
            return
        cursor, spots = 0, []
        for line, column, piece in self._pieces(start, end, node.style):
            at = value.find(piece, cursor)
            if at >= 0:
                spots.append((at, line + 1, column + 1))
                cursor = at + len(piece)
        if spots:
            first = spots[0]
            self.found[start.line, start.column] = ((0, first[1], max(first[2] - first[0], 1)), *spots)

    def at(self, location: Location) -> Location:
        """A place with what is known of the text there."""
        spots = self.found.get((location.line - 1, location.column - 1))
        return Location(location.file, spots[0][1], spots[0][2], spots=spots) if spots else location

    def _pieces(self, start: Any, end: Any, style: str | None) -> list[tuple[int, int, str]]:
        """Line, column and text of each run of characters that stand in the file as they are meant."""
        found = []
        for number in range(start.line, min(end.line + 1, len(self.lines))):
            line = self.lines[number]
            begin = start.column if number == start.line else 0
            stop = end.column if number == end.line else len(line)
            if number == start.line and style in ("|", ">"):
                continue
            if style in _ESCAPES:
                begin = line.find(str(style), begin) + 1 if number == start.line else begin
                stop = stop - 1 if number == end.line else stop
            escape = _ESCAPES.get(str(style))
            for escaped in escape.finditer(line, begin, stop) if escape else ():
                found.append((number, begin, line[begin : escaped.start()]))
                begin = escaped.end()
            found.append((number, begin, line[begin:stop]))
        return [
            (number, column + len(piece) - len(piece.lstrip()), piece.strip())
            for number, column, piece in found
            if piece.strip()
        ]
