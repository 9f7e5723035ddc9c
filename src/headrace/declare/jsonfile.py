"""The JSON form of a flow: the flow file's shape, for machines; read with the place of every value.

`written` is a side field: the text the flow was last written as by hand, and its form. It means nothing to the flow;
going back to that form keeps the author's comments and layout.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from headrace.declare.draft import Draft
from headrace.declare.flowfile import LONGEST, draft_of
from headrace.declare.placed import Placed, PlacedList
from headrace.declare.show import show
from headrace.errors import Problem
from headrace.model import Flow, Location, Places

WRITTEN = "written"
_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_DEEPEST = 200


@dataclass(frozen=True)
class Written:
    """The author's own text of a flow."""

    form: str
    text: str


def write(flow: Flow, written: Written | None = None) -> str:
    """The flow as JSON; reading it gives an equal flow."""
    said = show(flow)
    if written is not None:
        said[WRITTEN] = {"form": written.form, "text": written.text}
    return json.dumps(said, indent=2, ensure_ascii=False) + "\n"


def written_in(text: str) -> Written | None:
    """The author's own text that a JSON form carries."""
    try:
        said = json.loads(text).get(WRITTEN)
        return Written(str(said["form"]), str(said["text"])) if said else None
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return None


def read(text: str, file: str = "<json>") -> Draft:
    """The draft a JSON text holds; problems are in the draft."""
    if len(text) > LONGEST * 3:
        return _failed(f"the file has {len(text):,} characters", Location(file))
    reader = _Reader(text, file)
    try:
        tree = reader.whole()
    except _JsonError as error:
        return _failed(f"the file is not JSON: {error}", reader.place(error.at))
    if isinstance(tree, Placed):
        tree.pop(WRITTEN, None)
    return draft_of(tree, file, reader.problems)


def _failed(message: str, at: Location) -> Draft:
    problem = Problem(code="bad-flow", message=message, location=at)
    return Draft(name="unreadable", places=Places(at), problems=(problem,))


class _JsonError(Exception):
    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class _Reader:
    """Reads JSON as the standard library does, and notes where things stand."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file, self.at, self.depth = text, file, 0, 0
        self.lines = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
        self.problems: list[Problem] = []

    def place(self, at: int) -> Location:
        line = bisect_right(self.lines, at)
        return Location(self.file, line, at - self.lines[line - 1] + 1)

    def whole(self) -> Any:
        value = self.value()
        if self.at < len(self.text):
            raise _JsonError("something stands behind its end", self.at)
        return value

    def skip(self) -> str:
        """Passes over space; the character that comes."""
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.text[self.at : self.at + 1]

    def value(self) -> Any:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _JsonError("it is nested too deeply", self.at)
        mark = self.skip()
        if mark == "{":
            found: Any = self.mapping()
        elif mark == "[":
            found = self.list()
        elif mark == '"':
            found = self.string()
        else:
            match = _SCALAR.match(self.text, self.at)
            if match is None:
                raise _JsonError(f"expected a value, found {mark or 'the end'!r}", self.at)
            self.at = match.end()
            found = json.loads(match.group())
        self.depth -= 1
        self.skip()
        return found

    def string(self) -> str:
        try:
            found, self.at = scanstring(self.text, self.at + 1, True)
        except ValueError as error:
            raise _JsonError(str(getattr(error, "msg", error)).lower(), self.at) from None
        return str(found)

    def mapping(self) -> Placed:
        made = Placed()
        self.at += 1
        while self.skip() != "}":
            at = self.at
            if self.text[at : at + 1] != '"':
                raise _JsonError("expected a name in double quotes", at)
            name = self.string()
            if self.skip() != ":":
                raise _JsonError('expected ":"', self.at)
            self.at += 1
            self.skip()
            value_at = self.at
            value = self.value()
            if name in made:
                hint = "the second one is not used; give it another name or remove it"
                message = f'"{name}" is written twice'
                self.problems.append(
                    Problem(code="duplicate-name", message=message, location=self.place(at), hint=hint)
                )
            else:
                inside = value_at + 1 if isinstance(value, str) else value_at
                made.put(name, value, self.place(at), self.place(inside))
            if self.skip() != ",":
                break
            self.at += 1
        self.close("}")
        return made

    def list(self) -> PlacedList:
        made = PlacedList()
        self.at += 1
        while self.skip() != "]":
            at = self.at
            value = self.value()
            made.add(value, self.place(at + 1 if isinstance(value, str) else at))
            if self.skip() != ",":
                break
            self.at += 1
        self.close("]")
        return made

    def close(self, mark: str) -> None:
        if self.skip() != mark:
            raise _JsonError(f'expected "," or "{mark}"', self.at)
        self.at += 1
