"""The words of a text in Spark's dialect, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST = 10_000
"""Characters an expression may have; far above what anyone writes, low enough to stay quick on hostile text."""


class ExpressionSyntaxError(ValueError):
    """Text that is not an expression; `at` is the offset of the trouble, `hint` something to do."""

    def __init__(self, message: str, at: int = 0, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.at, self.hint = message, at, hint


@dataclass(frozen=True)
class Token:
    """One token.

    `kind` is word, quoted (an identifier in backticks), string, raw, hex, number, symbol, comment or end.
    """

    kind: str
    text: str
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)


_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>--[^\r\n]*|/\*.*?\*/)
  | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
  | (?P<hex>[xX](?:'[^']*'|"[^"]*"))
  | (?P<string>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
  | (?P<quoted>`(?:``|[^`])*`)
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|bd|[LSYDFlsydf])?(?!\w))
  | (?P<word>\w+)
  | (?P<open>['"`]|/\*)
  | (?P<symbol><=>|>>>|<<|>>|<=|>=|<>|!=|==|\|\||&&|->|=>|::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_AFTER_NAME = ("word", "quoted")


def tokens(text: str, *, longest: int = LONGEST, comments: bool = False) -> list[Token]:
    """The tokens of a text, closed by one of kind "end"; raises ExpressionSyntaxError.

    An expression has no comments, and `1--1` is more likely a mistake than half a calculation; a text of
    statements has, and they are given as tokens if asked for.
    """
    if len(text) > longest:
        raise ExpressionSyntaxError(f"the expression has {len(text)} characters; at most {longest} are read")
    if "\x00" in text:
        raise ExpressionSyntaxError("the expression has a zero character in it", text.index("\x00"))
    return [*_cut(text, comments), Token("end", "", len(text.rstrip()))]


def _cut(text: str, comments: bool) -> Iterator[Token]:
    at, before = 0, Token("end", "", 0)
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None  # the last alternative takes anything
        assert match.lastgroup is not None
        token = Token(match.lastgroup, match.group(), at)
        if token.kind == "number" and token.text[0] == "." and _follows_name(before, token):
            token = Token("symbol", ".", at)  # of `a.1`, where a field is meant
        at = token.end
        if token.kind == "space":
            continue
        if token.kind == "open":
            what = "a comment" if token.text == "/*" else "a quote"
            hint = "" if token.text == "/*" else "close the quote, or write \\' for a quote inside"
            raise ExpressionSyntaxError(f"{what} is opened and not closed", token.at, hint)
        if token.kind == "word" and token.text[:2] in ("0x", "0X"):
            raise ExpressionSyntaxError(f"{token.text} is not a number in Spark", token.at, "write X'1F' for bytes")
        if token.kind == "comment" and not comments:
            hint = "write - (-1) for minus a negative number" if token.text[0] == "-" else "remove the comment"
            raise ExpressionSyntaxError("an expression has no comments", token.at, hint)
        yield token
        before = token


def _follows_name(before: Token, token: Token) -> bool:
    named = before.kind in _AFTER_NAME or before.text in (")", "]")
    return named and before.end == token.at
