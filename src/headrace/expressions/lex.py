"""The words of an expression: Spark tokens by sqlglot, each with its place.

sqlglot knows how Spark cuts text into tokens; what it makes of them in its own parser (renamed functions,
shifted array positions) is not wanted here, and its compiled parser cannot be adjusted, so the grammar is ours.
"""

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
    """One token: `kind` is word, quoted (an identifier in backticks), string, raw, hex, number, symbol or end."""

    kind: str
    text: str
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)


_STRINGS = {"STRING": "string", "RAW_STRING": "raw", "HEX_STRING": "hex", "IDENTIFIER": "quoted"}
_WORD = re.compile(r"\w+|\S", re.UNICODE)
_SYMBOL = re.compile(r"<=>|>>>|<<|>>|<=|>=|<>|!=|==|\|\||&&|->|=>|::|\S")
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(BD|[LSYDF])?", re.IGNORECASE)


def tokens(text: str) -> list[Token]:
    """The tokens of a text, closed by one of kind "end"; raises ExpressionSyntaxError."""
    if len(text) > LONGEST:
        raise ExpressionSyntaxError(f"the expression has {len(text)} characters; at most {LONGEST} are read")
    if "\x00" in text:
        raise ExpressionSyntaxError("the expression has a zero character in it", text.index("\x00"))
    found = list(_joined(list(_cut(text)), text))
    return [*found, Token("end", "", len(text.rstrip()))]


def _cut(text: str) -> Iterator[Token]:
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import SqlglotError

    try:  # the parenthesis keeps words such as SHOW from being taken for a command that swallows the rest
        raw = Spark().tokenize("(" + text)
    except SqlglotError:
        quote = next((q for q in "'\"`" if text.count(q) % 2), "")
        hint = "close the quote, or write \\' for a quote inside" if quote else ""
        raise ExpressionSyntaxError("a quote is opened and not closed", text.rfind(quote), hint) from None
    for i, token in enumerate(raw):
        start, end = token.start - 1, token.end
        if token.comments:
            at = next((i for i in (text.find("--", end), text.find("/*", end)) if i >= 0), max(start, 0))
            hint = "write - (-1) for minus a negative number" if text[at : at + 2] == "--" else "remove the comment"
            raise ExpressionSyntaxError("an expression has no comments", at, hint)
        if i == 0:
            continue
        piece = text[start:end]
        kind = _STRINGS.get(token.token_type.name)
        if kind == "hex" and "'" not in piece and '"' not in piece:
            raise ExpressionSyntaxError(f"{piece} is not a number in Spark", start, "write X'1F' for bytes")
        if kind:
            yield Token(kind, piece, start)
        elif token.token_type.name == "NUMBER":
            yield Token("number", piece, start)
        elif piece and not (piece[0].isalnum() or piece[0] == "_"):
            for match in _SYMBOL.finditer(piece):  # sqlglot knows operators of other dialects: ~~, ->>, @>
                yield Token("symbol", match.group(), start + match.start())
        else:  # sqlglot reads some pairs of words as one, and 1L as three that stand in one place
            for match in _WORD.finditer(piece):
                yield Token("word", match.group(), start + match.start())


def _joined(cut: list[Token], text: str) -> Iterator[Token]:
    """Puts together what sqlglot cuts apart: 1L, .5, >> and >>>."""
    covered = -1
    for _i, token in enumerate(cut):
        if token.at < covered or (token.kind == "symbol" and token.text == "::" and text[token.at] != ":"):
            continue
        if token.kind == "number" or (token.text == "." and text[token.end : token.end + 1].isdigit()):
            before = text[token.at - 1 : token.at]
            match = _NUMBER.match(text, token.at)
            if match and not (token.text == "." and (before.isalnum() or (before and before in "_)]`"))):
                covered = match.end()
                yield Token("number", match.group(), token.at)
                continue
        if token.kind == "symbol" and token.text in ("<", ">", "<<", ">>"):
            run = re.match(r">>>|>>|<<", text[token.at :])
            if run:
                covered = token.at + len(run.group())
                yield Token("symbol", run.group(), token.at)
                continue
        covered = token.end
        yield token
