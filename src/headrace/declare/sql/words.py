"""Reads the words of statements: names, options, values and expressions, each with its place in the file."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from headrace.declare.placed import Placed, PlacedList
from headrace.expressions.forms import Tokens
from headrace.expressions.lex import ExpressionSyntaxError, Token
from headrace.expressions.parse import ExpressionReader, parse
from headrace.expressions.tree import Column, Literal, Node
from headrace.model import Location, Port
from headrace.options import show_duration

T = TypeVar("T")
_DEEPEST_VALUE = 40
"""Brackets that may be open in an option's value."""


FORMAT = "<name>"
"""Where the name of a format is kept while its options are read."""


_PARAMETER = re.compile(r"\$\{param:([^}`'\"\n]*)\}")


def masked(text: str) -> str:
    """The text with references to parameters as names of the same length, so that they can stand for any value."""
    return _PARAMETER.sub(r"`{param:\1`", text)


class StatementError(Exception):
    """What is wrong with a statement, at an offset of the file; reading goes on at the next one."""

    def __init__(self, code: str, message: str, at: int, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.at, self.hint = code, message, at, hint


@dataclass(frozen=True)
class Written:
    """An expression of the file: its tree (with places within the text), its text on one line, where it stands."""

    tree: Node
    text: str
    at: int
    end: int


@dataclass(frozen=True)
class Name:
    """A name and where it stands."""

    text: str
    at: int


class Words(Tokens):
    """The tokens of a file without its comments; expressions are read where they stand."""

    def __init__(self, text: str, cut: list[Token], file: str) -> None:
        super().__init__(text, [t for t in cut if t.kind != "comment"])
        self.inner = ExpressionReader(text, self.tokens)
        self.file = file
        self.comments = [t for t in cut if t.kind == "comment"]
        self.lines = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
        self.brackets = 0
        self.keywords: set[int] = set()
        """Where words stand that were read as keywords of a statement."""

    # -- places

    def place(self, at: int, end: int | None = None) -> Location:
        """Where an offset is in the file; with `end`, places within what stands there can be told too."""
        line = bisect_right(self.lines, at)
        rest = self.text[at:end] if end is not None else ""
        return Location(self.file, line, at - self.lines[line - 1] + 1, rest)

    def fail(self, message: str, at: int | None = None, hint: str = "", code: str = "bad-sql") -> StatementError:
        return StatementError(code, message, self.token.at if at is None else at, hint)

    def wanted(self, what: str, hint: str = "") -> StatementError:
        return self.fail(f"expected {what}, found {self.found()}", hint=hint)

    @property
    def ended(self) -> bool:
        return self.token.kind == "end" or self.symbol() == ";"

    @property
    def behind(self) -> int:
        """Where the last word that was read ends."""
        return self.tokens[self.next - 1].end if self.next else 0

    # -- words

    def accept(self, *wanted: str) -> str:
        at = self.token.at
        found = super().accept(*wanted)
        if found:
            self.keywords.add(at)
        return found

    def need(self, *wanted: str) -> str:
        """One of these words or symbols."""
        found = self.accept(*wanted)
        if not found:
            raise self.wanted(" or ".join(w.upper() if w.isalpha() else f'"{w}"' for w in wanted))
        return found

    def phrase(self, *words: str) -> bool:
        """Reads these words if all of them come."""
        if all(self.word(i) == word for i, word in enumerate(words)):
            for word in words:
                self.need(word)
            return True
        return False

    def named(self, what: str) -> Name:
        """A name, in backticks if it is not one word."""
        token = self.token
        if token.kind == "quoted" and token.text.startswith("$"):
            self.move()
            return Name(token.text, token.at)
        if token.kind == "quoted" and len(token.text) > 2:
            self.move()
            return Name(token.text[1:-1].replace("``", "`"), token.at)
        if token.kind == "word":
            self.move()
            return Name(token.text, token.at)
        raise self.wanted(what, "put it in backticks" if token.kind == "string" else "")

    def port(self) -> Name:
        """What records are read from: a name, or `step.port`."""
        first = self.named("the name of a stream or view")
        if self.symbol() != ".":
            return Name(str(Port.parse(first.text)) if "." not in first.text else first.text, first.at)
        self.move()
        return Name(str(Port(first.text, self.named("the name of a port").text)), first.at)

    def text_of(self, what: str) -> Name:
        """A text in quotes."""
        if self.token.kind not in ("string", "raw"):
            raise self.wanted(f"{what} in quotes")
        at = self.token.at
        try:
            return Name(self.inside(ExpressionReader.string), at)
        except ExpressionSyntaxError as error:
            raise self.fail(error.message, error.at) from None

    def names(self, what: str = "the name of a column") -> list[Name]:
        """Names in parentheses."""
        self.need("(")
        found = [self.named(what)]
        while self.need(",", ")") == ",":
            found.append(self.named(what))
        return found

    def listed(self, names: list[Name]) -> PlacedList:
        """Names as a value of an option."""
        made = PlacedList()
        for name in names:
            made.add(name.text, self.place(name.at))
        return made

    # -- expressions

    def inside(self, read: Callable[[ExpressionReader], T]) -> T:
        """Lets the grammar of expressions read what stands here, and goes on behind it."""
        self.inner.next = self.next
        found = read(self.inner)
        self.next = self.inner.next
        return found

    def written(self) -> Written:
        """The expression that stands here."""
        at = self.token.at
        self.inner.level, self.inner.in_call = 0, False
        try:
            self.inside(ExpressionReader.expression)
        except ExpressionSyntaxError as error:
            raise self.fail(error.message, error.at, error.hint, "bad-expression") from None
        except RecursionError:
            raise self.fail("the expression is nested too deeply", at, code="bad-expression") from None
        return self.parsed(self.plain_text(at, self.behind), at, self.behind)

    def parsed(self, text: str, at: int, end: int) -> Written:
        """An expression that stands between two places and says `text`."""
        try:
            return Written(parse(masked(text)), text, at, end)
        except ExpressionSyntaxError as error:
            raise self.fail(error.message, at + error.at, error.hint, "bad-expression") from None

    def plain_text(self, at: int, end: int) -> str:
        """A piece of the file as one line of the same length: comments and ends of lines are spaces."""
        piece = self.text[at:end]
        for comment in self.comments:
            if at <= comment.at < end:
                start = comment.at - at
                piece = piece[:start] + " " * len(comment.text) + piece[start + len(comment.text) :]
        return _no_line_ends(piece)

    # -- options

    def options(self) -> tuple[Placed, int]:
        """`(name = value, …)`, and where it begins; `a.b = 1` is `a = {b: 1}`."""
        at = self.token.at
        self.need("(")
        made = Placed()
        while not self.accept(")"):
            self.option(made, ("=",))
            if self.need(",", ")") == ")":
                break
        return made, at

    def option(self, into: Placed, between: tuple[str, ...]) -> None:
        path, at = self.key()
        for name in path[:-1]:
            if name == "format" and isinstance(into.get(name), str):
                into = self.named_format(into, into[name])
                break
            if not isinstance(into.get(name, Placed()), Placed):
                raise self.fail(f'option "{name}" is given twice', at, "remove one", "duplicate-name")
            into = into.within(name, self.place(at))
        twice = path[-1] in into and not (path == ["format"] and isinstance(into["format"], Placed))
        if twice:
            raise self.fail(f'option "{".".join(path)}" is given twice', at, "remove one", "duplicate-name")
        self.need(*between)
        value_at = self.token.at
        value = self.value()
        if path == ["format"] and "format" in into:
            into["format"].put(FORMAT, value, self.place(at), self.value_place(value, value_at))
            return
        into.put(path[-1], value, self.place(at), self.value_place(value, value_at))

    @staticmethod
    def named_format(into: Placed, name: str) -> Placed:
        """The options of a format whose name was said before them."""
        made = Placed()
        made.put(FORMAT, name, into.lc.key("format"), into.lc.value("format"))
        into.put("format", made, into.lc.key("format"), into.lc.value("format"))
        return made

    def value_place(self, value: Any, at: int) -> Location:
        inside = isinstance(value, str) and self.text[at : at + 1] in ("'", '"')
        return self.place(at + 1 if inside else at, self.behind)

    def key(self) -> tuple[list[str], int]:
        """The name of an option, in words with dots between or in quotes."""
        at = self.token.at
        if self.token.kind in ("string", "raw"):
            path = self.text_of("the name of an option").text.split(".")
        else:
            path = [self.named("the name of an option").text]
            while self.symbol() == ".":
                self.move()
                path.append(self.named("the name of an option").text)
        if not all(path):
            raise self.fail("the name of an option has an empty part", at)
        return path, at

    def value(self) -> Any:
        """A value: text, number, true, false, null, `[…]`, `{name: …}`; a word is text, and so is an expression."""
        start = self.next
        if self.symbol() in ("{", "["):
            self.brackets += 1
            if self.brackets > _DEEPEST_VALUE:
                raise self.fail("the value is nested too deeply")
            found = self.mapping() if self.symbol() == "{" else self.list_of_values()
            self.brackets -= 1
            return found
        simple = self.simple()
        if simple is not None and (self.ended or self.symbol() in (",", ")", "]", "}")):
            return simple[0]
        self.next = start
        written = self.written()
        if isinstance(written.tree, Column):
            return written.text if written.text.startswith("$") else written.tree.name
        if isinstance(written.tree, Literal) and isinstance(written.tree.value, timedelta):
            return show_duration(written.tree.value)
        return written.text

    def simple(self) -> tuple[Any] | None:
        """A value of one word, in a tuple; None if there is none here."""
        if self.token.kind in ("string", "raw"):
            return (self.text_of("text").text,)
        if self.word() in ("true", "false", "null"):
            return ({"true": True, "false": False, "null": None}[self.move().text.lower()],)
        sign = self.move().text if self.symbol() in ("-", "+") else ""
        if self.token.kind != "number":
            return None
        digits = sign + self.move().text
        for kind in (int, float):
            try:
                return (kind(digits),)
            except ValueError:
                continue
        return None

    def mapping(self) -> Placed:
        self.need("{")
        made = Placed()
        while not self.accept("}"):
            at = self.token.at
            quoted = self.token.kind in ("string", "raw")
            name = self.text_of("a name") if quoted else self.named("a name")
            if name.text in made:
                raise self.fail(f'"{name.text}" is given twice', at, "remove one", "duplicate-name")
            self.need(":", "=")
            value_at = self.token.at
            value = self.value()
            made.put(name.text, value, self.place(at), self.value_place(value, value_at))
            if self.need(",", "}") == "}":
                break
        return made

    def list_of_values(self) -> PlacedList:
        self.need("[")
        made = PlacedList()
        while not self.accept("]"):
            at = self.token.at
            value = self.value()
            made.add(value, self.value_place(value, at))
            if self.need(",", "]") == "]":
                break
        return made


def _no_line_ends(text: str) -> str:
    """Line ends outside of quotes as spaces, so that the text has the same length on one line."""
    out, quote, escaped = [], "", False
    for c in text:
        if quote:
            if escaped:
                escaped = False
            elif c == "\\" and quote != "`":
                escaped = True
            elif c == quote:
                quote = ""
            out.append(c)
        else:
            quote = c if c in "'\"`" else ""
            out.append(" " if c in "\r\n" else c)
    return "".join(out)
