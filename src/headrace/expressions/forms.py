"""The parts of an expression with a grammar of their own: values written out, types, calls with words inside.

`Forms` reads tokens; what it needs of the rest of the grammar is `expression`, which `parse.py` gives it.
"""

from __future__ import annotations

from headrace.expressions.lex import ExpressionSyntaxError, Token, tokens
from headrace.expressions.literals import interval, interval_range, read_number, read_string, read_time, unit_name
from headrace.expressions.precedence import COMPARE, OR
from headrace.expressions.tree import Call, Cast, Literal, Node
from headrace.model.types import (
    BINARY,
    DAY_INTERVAL,
    STRING,
    YEAR_INTERVAL,
    DataType,
    TypeSyntaxError,
    parse_type,
)

UNIT_FORMS = {
    **dict.fromkeys(("timestampadd", "date_add", "dateadd"), "timestampadd"),
    **dict.fromkeys(("timestampdiff", "date_diff", "datediff", "timediff"), "timestampdiff"),
}


class Tokens:
    """The tokens of a text, read one after the other."""

    def __init__(self, text: str, cut: list[Token] | None = None) -> None:
        self.text, self.tokens, self.next = text, tokens(text) if cut is None else cut, 0

    @property
    def token(self) -> Token:
        return self.tokens[self.next]

    def after(self, steps: int = 1) -> Token:
        return self.tokens[min(self.next + steps, len(self.tokens) - 1)]

    def word(self, steps: int = 0) -> str:
        """The word that comes, in lower case; empty if something else does."""
        token = self.after(steps)
        return token.text.lower() if token.kind == "word" else ""

    def symbol(self, steps: int = 0) -> str:
        token = self.after(steps)
        return token.text if token.kind == "symbol" else ""

    def move(self) -> Token:
        token = self.token
        self.next = min(self.next + 1, len(self.tokens) - 1)
        return token

    def accept(self, *wanted: str) -> str:
        found = self.word() or self.symbol()
        if found in wanted:
            self.move()
            return found
        return ""

    def expect(self, *wanted: str) -> str:
        found = self.accept(*wanted)
        if not found:
            listed = " or ".join(w.upper() if w.isalpha() else f'"{w}"' for w in wanted)
            raise ExpressionSyntaxError(f"expected {listed}, found {self.found()}", self.token.at)
        return found

    def found(self) -> str:
        return "the end" if self.token.kind == "end" else f'"{self.token.text}"'


class Forms(Tokens):
    """Reads what has a grammar of its own."""

    def expression(self, least: int = OR) -> Node:
        """Any expression whose operators bind at least as tightly as `least`."""
        raise NotImplementedError

    def primary(self) -> Node:
        """A value without operators around it."""
        raise NotImplementedError

    def name(self) -> str:
        token = self.token
        if token.kind == "quoted":
            self.move()
            return self.unquoted(token)
        if token.kind == "word" and not token.text[0].isdigit():
            self.move()
            return token.text
        raise ExpressionSyntaxError(f"expected a name, found {self.found()}", token.at, "put it in backticks")

    @staticmethod
    def unquoted(token: Token) -> str:
        name = token.text[1:-1].replace("``", "`")
        if not name:
            raise ExpressionSyntaxError("the name is empty", token.at)
        return name

    def list_until(self, end: str) -> tuple[Node, ...]:
        found: list[Node] = []
        if not self.accept(end):
            found.append(self.expression())
            while self.expect(",", end) == ",":
                found.append(self.expression())
        return tuple(found)

    def number(self, token: Token, at: int, sign: str = "") -> Node:
        follow = self.text[token.end : token.end + 1]
        if follow.isalnum() or follow == "_":
            raise ExpressionSyntaxError(f'unexpected "{follow}" after the number', token.end, "put names in backticks")
        try:
            value, kind = read_number(sign + token.text)
        except ValueError as error:
            raise ExpressionSyntaxError(str(error), at) from None
        return Literal(value=value, type=kind, at=at)

    def string(self) -> str:
        """A string, with those that follow it: 'it''s' is one with a quote, 'a' 'b' is 'ab'."""
        value, last = "", None
        while self.token.kind in ("string", "raw"):
            token = self.move()
            if last is not None and last.end == token.at and last.text[-1] == token.text[0]:
                value += token.text[0]
            try:
                piece = token.text[2:-1] if token.kind == "raw" else read_string(token.text)
                piece.encode()
            except (ValueError, UnicodeError):
                raise ExpressionSyntaxError("the string has an escape that is no character", token.at) from None
            value, last = value + piece, token
        return value

    def bytes(self, token: Token) -> Node:
        digits = token.text[2:-1]
        try:
            value = bytes.fromhex(digits.rjust(len(digits) + len(digits) % 2, "0"))
        except ValueError:
            raise ExpressionSyntaxError(f"{token.text} has what is no hexadecimal digit", token.at) from None
        return Literal(value=value, type=BINARY, at=token.at)

    def time(self, kind: str, at: int) -> Node:
        text = self.string()
        try:
            value, type_ = read_time(kind.replace("_ltz", ""), text)
        except (ValueError, OverflowError):
            hint = "write DATE '2024-01-31'" if kind == "date" else "write TIMESTAMP '2024-01-31 12:00:00'"
            raise ExpressionSyntaxError(f"{text!r} is not a {kind}", at, hint) from None
        return Literal(value=value, type=type_, at=at)

    def interval(self) -> Node:
        at = self.move().at
        parts: list[tuple[str, str]] = []
        try:
            while self.token.kind in ("string", "number") or (parts == [] and self.symbol() in ("-", "+")):
                sign = self.move().text if self.symbol() else ""
                amount = self.string() if self.token.kind == "string" else self.move().text
                unit = self.word() and unit_name(self.word())
                if not unit and not parts:
                    words = amount.split()
                    pairs = list(zip(words[::2], words[1::2], strict=False))
                    if not pairs or len(words) % 2:
                        raise ValueError(f"{amount!r} is not an interval")
                    parts = [(_signed(sign, a), u) for a, u in pairs]
                    break
                if not unit:
                    raise ValueError(f"expected a unit of time, found {self.found()}")
                self.move()
                if self.accept("to"):
                    last = unit_name(self.move().text) or ""
                    value, kind = interval_range(_signed(sign, amount), unit, last)
                    return Literal(value=value, type=kind, at=at)
                parts.append((_signed(sign, amount.strip()), unit))
            value, kind = interval(parts)
        except (ValueError, OverflowError) as error:
            hint = "write INTERVAL '1' DAY or INTERVAL 90 SECONDS"
            raise ExpressionSyntaxError(str(error), at, hint) from None
        return Literal(value=value, type=kind, at=at)

    def cast(self, attempt: bool, at: int) -> Node:
        of = self.expression()
        self.expect("as")
        kind = self.type()
        self.expect(")")
        return Cast(of=of, type=kind, attempt=attempt, at=at)

    def type(self) -> DataType:
        start = self.token
        if self.word() == "interval":
            return self.interval_type()
        self.move()
        closes = {"(": ")", "<": ">"}
        if self.symbol() in closes or (self.symbol() == "<>" and start.text.lower() == "struct"):
            opened = 0
            while self.token.kind != "end":
                mark = self.move().text
                opened += mark in ("(", "<")
                opened -= 1 if mark in (")", ">") else len(mark) if mark in (">>", ">>>") else 0
                if opened <= 0:
                    break
        end = self.tokens[self.next - 1].end if self.next and self.token.kind != "end" else self.tokens[-2].end
        written = self.text[start.at : end]
        try:
            found = parse_type(written)
        except TypeSyntaxError as error:
            word = written.split("(")[0].strip().lower()
            hint = "write string" if word in ("varchar", "char", "text") else error.hint
            raise ExpressionSyntaxError(str(error), start.at + error.at, hint) from None
        return found

    def interval_type(self) -> DataType:
        at = self.move().at
        first = self.expect("day", "hour", "minute", "second", "year", "month")
        last = self.expect("hour", "minute", "second", "month") if self.accept("to") else first
        if (first in ("year", "month")) != (last in ("year", "month")):
            raise ExpressionSyntaxError("an interval is of months or of days and less, not of both", at)
        return YEAR_INTERVAL if first in ("year", "month") else DAY_INTERVAL

    def unit_call(self, name: str, at: int) -> Node:
        token = self.move()
        self.expect(",")
        unit = Literal(value=unit_or_quarter(token.text), type=STRING, at=token.at)
        args = self.list_until(")")
        return Call(function=UNIT_FORMS[name], args=(unit, *args), at=at)

    def extract(self, name: str, at: int) -> Node | None:
        if not (self.word() and self.word(1) == "from"):
            return None
        token = self.move()
        self.move()
        args = (Literal(value=token.text.lower(), type=STRING, at=token.at), self.expression())
        self.expect(")")
        return Call(function="date_part", args=args, at=at)

    def trim(self, name: str, at: int) -> Node | None:
        side, what = "both", None
        if self.word() in ("both", "leading", "trailing") and self.symbol(1) not in (")", ",", "."):
            side = self.move().text.lower()
        elif self.token.kind == "end":
            return None
        first = None if self.word() == "from" else self.expression()
        if self.accept("from"):
            what, first = first, self.expression()
        if first is None or (side != "both" and what is None and self.symbol() == ","):
            raise ExpressionSyntaxError(f"expected FROM, found {self.found()}", self.token.at)
        args: tuple[Node, ...] = (first,) if what is None else (what, first)
        if self.expect(",", ")") == ",":
            args = (*args, *self.list_until(")"))
        return Call(function={"both": "trim", "leading": "ltrim", "trailing": "rtrim"}[side], args=args, at=at)

    def substring(self, name: str, at: int) -> Node | None:
        args = [self.expression()]
        if self.accept("from"):
            args.append(self.expression())
            if self.accept("for"):
                args.append(self.expression())
            self.expect(")")
        elif self.expect(",", ")") == ",":
            args += self.list_until(")")
        return Call(function="substring", args=tuple(args), at=at)

    def position(self, name: str, at: int) -> Node | None:
        args = [self.expression(COMPARE)]
        if self.accept("in"):
            args.append(self.expression(COMPARE))
            self.expect(")")
        elif self.expect(",", ")") == ",":
            args += self.list_until(")")
        return Call(function="position", args=tuple(args), at=at)

    def overlay(self, name: str, at: int) -> Node | None:
        args = [self.expression()]
        if self.accept("placing"):
            args.append(self.expression())
            self.expect("from")
            args.append(self.expression())
            if self.accept("for"):
                args.append(self.expression())
            self.expect(")")
        elif self.expect(",", ")") == ",":
            args += self.list_until(")")
        return Call(function="overlay", args=tuple(args), at=at)


def _signed(sign: str, amount: str) -> str:
    if sign != "-":
        return amount
    return amount.strip()[1:] if amount.strip().startswith("-") else "-" + amount.strip()


def unit_or_quarter(word: str) -> str:
    """The unit of `timestampadd` and its like; empty if the word is none."""
    lower = word.lower()
    if lower in ("quarter", "dayofyear"):
        return "quarter" if lower == "quarter" else "day"
    return lower if unit_name(lower) == lower else ""
