"""One layout for SQL: keywords in capitals, clauses on lines of their own where one line is too short, comments kept.

Only space, the case of keywords and line ends change: every word stays, in its order. A comment stands above the
line it belongs to, or at the end of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.declare.sql.read import Reader
from headrace.expressions.lex import Token
from headrace.expressions.precedence import RESERVED

WIDTH = 100
_CLAUSES = (
    "with",
    "select",
    "from",
    "where",
    "group",
    "having",
    "emit",
    "late",
    "dead",
    "limit",
    "union",
    "transform",
    "lateral",
)
_JOINS = ("inner", "left", "right", "full", "asof", "join", "lookup")
_BREAKS = ("AND", "OR", "WHEN", "ELSE")
_WORTH_IT = 30
"""Characters a bracket must have for its items to be set on lines of their own."""
_TIGHT_AFTER = ("(", "[", "{", ".", "::")
_TIGHT_BEFORE = (")", "]", "}", ",", ";", ".", ":", "::", "[")
_OPEN, _CLOSE = {"(": ")", "[": "]", "{": "}"}, (")", "]", "}")
_NOT_CALLED = frozenset(
    "with in and or not on as over when then else case values using except rename take exists".split()
)


@dataclass
class _Word:
    """A token as it is shown, with the comments that belong to it."""

    token: Token
    shown: str
    keyword: bool
    above: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    gap: bool = False
    """A line was left empty between the comments above and the word."""


def layout(reader: Reader) -> str:
    """The text of a reader that has read all of it, laid out."""
    words = _words(reader)
    out: list[str] = []
    statement: list[_Word] = []
    before = ""
    for word in words:
        if word.token.kind == "end":
            break
        if word.token.text == ";" and not statement:
            continue
        statement.append(word)
        if word.token.text == ";":
            out += _statement(statement, before, bool(out))
            before, statement = _opening(statement), []
    if statement:
        last = statement[-1]
        statement.append(_Word(Token("symbol", ";", last.token.end), ";", False))
        out += _statement(statement, before, bool(out))
    end = words[-1]
    if end.above:
        out += ([""] if out else []) + end.above
    return "\n".join(out) + "\n" if out else ""


def _words(reader: Reader) -> list[_Word]:
    """All words of the file, each with its comments."""
    text, found = reader.text, []
    for index, token in enumerate(reader.tokens):
        before = reader.tokens[index - 1] if index else None
        member = before is not None and before.text == "."
        keyword = token.kind == "word" and not member and token.at in reader.keywords
        capital = keyword or (token.kind == "word" and not member and token.text.lower() in RESERVED)
        follow = reader.tokens[index + 1].text if index + 1 < len(reader.tokens) else ""
        plain = not keyword and token.text.lower() in ("user", "session_user", "filter", "any", "some", "left", "right")
        shown = (
            token.text.upper() if capital and not (plain or (not keyword and follow in ("(", ":", "="))) else token.text
        )
        found.append(_Word(token, shown, keyword))
    for comment in reader.comments:
        index = next(i for i, w in enumerate(found) if w.token.at > comment.at or w.token.kind == "end")
        line_start = text.rfind("\n", 0, comment.at) + 1
        alone = not text[line_start : comment.at].strip() or index == 0
        shown = comment.text.rstrip()
        if alone or "\n" in shown:
            target = found[index]
            target.above.append(shown)
            after = text[comment.end : target.token.at if target.token.kind != "end" else len(text)]
            target.gap = after.count("\n") > 1 and not after.strip()
        else:
            found[index - 1].behind.append(shown)
    return found


def _opening(statement: list[_Word]) -> str:
    return " ".join(w.token.text.lower() for w in statement[:2])


def _statement(words: list[_Word], before: str, something: bool) -> list[str]:
    """A statement's lines, with an empty one before it unless it goes with the one before."""
    opening = _opening(words)
    first, second = opening.partition(" ")[0], before.partition(" ")[0]
    together = (first == "set" and second == "set") or (first == "insert" and before == "create sink")
    together = together or opening == before == "create function"
    lines = [""] if something and not (together and not words[0].above) else []
    if words[0].gap:
        lines += [*words[0].above, ""]
        words[0].above = []
    return lines + _broken(words)


def _flat(words: list[_Word]) -> str:
    out = ""
    for index, word in enumerate(words):
        out += _space(words, index) + word.shown
    return out


def _space(words: list[_Word], index: int) -> str:
    """What stands between a word and the one before it."""
    if index == 0:
        return ""
    before, word = words[index - 1], words[index]
    a, b = before.token, word.token
    if a.text in _TIGHT_AFTER or (b.kind == "symbol" and b.text in _TIGHT_BEFORE):
        return "" if not (b.text == "[" and (a.kind == "symbol" and a.text not in (")", "]"))) else " "
    if b.text == "(":
        return "" if _is_call(words, index - 1) else " "
    if _in_type(words, index) or (a.text in ("<",) and _in_type(words, index - 1)):
        return ""
    if a.kind == "symbol" and a.text in ("-", "+", "~", "!") and _is_sign(words, index - 1):
        return ""
    if a.kind == b.kind == "string" and a.end == b.at:
        return ""
    return " "


def _is_call(words: list[_Word], index: int) -> bool:
    """Whether a parenthesis behind this word holds the arguments of a call, or of a type."""
    word = words[index]
    if word.token.kind not in ("word",) or word.token.text.lower() in _NOT_CALLED:
        return False
    if word.keyword:
        return False
    ahead = [w.token.text.lower() for w in words[max(0, index - 2) : index]]
    named = len(ahead) == 2 and ahead[0] == "create" and ahead[1] in ("stream", "table", "source")
    return not named and not (ahead and ahead[-1] in ("join", "into"))


def _is_sign(words: list[_Word], index: int) -> bool:
    """Whether a symbol belongs to the value behind it alone."""
    if index == 0:
        return True
    before = words[index - 1]
    value = before.token.kind in ("number", "string", "raw", "hex", "quoted") or before.token.text in (")", "]")
    word = before.token.kind == "word" and not before.keyword and before.token.text.lower() not in RESERVED
    return not (value or word)


def _in_type(words: list[_Word], index: int) -> bool:
    """Whether `<` or `>` belongs to a type such as ARRAY<STRING>."""
    text = words[index].token.text
    if text == "<":
        return index > 0 and words[index - 1].token.text.lower() in ("array", "map", "struct")
    if text not in (">", ">>", ">>>"):
        return False
    opened = 0
    for i in range(index):
        if words[i].token.text == "<" and _in_type(words, i):
            opened += 1
        elif words[i].token.text in (">", ">>", ">>>") and opened:
            opened = max(0, opened - len(words[i].token.text))
    return opened > 0


def _line(words: list[_Word], indent: int) -> list[str]:
    """One line, its comments above it and behind it."""
    pad = " " * indent
    above = [pad + c for w in words for c in w.above]
    behind = "".join(f"  {c}" for w in words for c in w.behind)
    return [*above, pad + _flat(words) + behind]


def _broken(words: list[_Word], indent: int = 0) -> list[str]:
    """A statement on one line, or a line for each clause."""
    if indent + len(_flat(words)) <= WIDTH:
        return _line(words, indent)
    parts = _cut(words, lambda i: i > 0 and _begins_clause(words, i))
    lines: list[str] = []
    for number, part in enumerate(parts):
        lines += _part(part, indent + (2 if number else 0))
    return lines


def _begins_clause(words: list[_Word], index: int) -> bool:
    word, before = words[index], words[index - 1]
    text, earlier = word.token.text.lower(), before.token.text.lower()
    if not word.keyword or (earlier in ("all", "distinct") and text != "select"):
        return False
    if text in _JOINS:
        return earlier not in (*_JOINS, "outer")
    if text == "on" or text == "using":
        return False
    if text == "from" and before.keyword and earlier in ("insert", "into"):
        return False
    return text in _CLAUSES


def _part(words: list[_Word], indent: int) -> list[str]:
    """A clause on one line, or its outermost list with a line for each entry."""
    if indent + len(_flat(words)) <= WIDTH:
        return _line(words, indent)
    commas = _cut(words, lambda i: i > 0 and words[i - 1].token.text == "," and _depth(words, i) == 0)
    if len(commas) > 1:
        lines = _nested(commas[0], indent)
        return lines + [line for part in commas[1:] for line in _nested(part, indent + 2)]
    return _nested(words, indent)


def _nested(words: list[_Word], indent: int) -> list[str]:
    """Words whose longest bracket is opened over several lines, if they do not fit on one."""
    if indent + len(_flat(words)) <= WIDTH:
        return _line(words, indent)
    longest = max(_brackets(words), key=lambda pair: len(_flat(words[pair[0] : pair[1] + 1])), default=(0, 0))
    start, end = longest
    if len(_flat(words[start : end + 1])) < _WORTH_IT:
        ands = _cut(words, lambda i: i > 0 and words[i].shown in _BREAKS and not _of_between(words, i))
        if len(ands) > 1:
            return _line(ands[0], indent) + [line for part in ands[1:] for line in _nested(part, indent + 2)]
        return _line(words, indent)
    inside = words[start + 1 : end]
    items = _cut(inside, lambda i: i > 0 and inside[i - 1].token.text == "," and _depth(inside, i) == 0)
    if not inside:
        return _line(words, indent)
    lines = _line(words[: start + 1], indent)
    queries = inside[0].token.text.lower() in ("select", "with", "from", "transform") and inside[0].keyword
    for item in [inside] if queries else items:
        lines += _broken(item, indent + 2) if queries else _nested(item, indent + 2)
    return lines + _nested(words[end:], indent)


def _of_between(words: list[_Word], index: int) -> bool:
    """Whether this AND is the one of BETWEEN."""
    for i in range(index - 1, -1, -1):
        if words[i].shown == "BETWEEN":
            return True
        if words[i].shown in ("AND", "OR"):
            return False
    return False


def _brackets(words: list[_Word]) -> list[tuple[int, int]]:
    """The outermost brackets, each with its first and last word."""
    found, opened, start = [], 0, 0
    for index, word in enumerate(words):
        if word.token.kind != "symbol":
            continue
        if word.token.text in _OPEN:
            start = index if opened == 0 else start
            opened += 1
        elif word.token.text in _CLOSE:
            opened -= 1
            if opened == 0:
                found.append((start, index))
    return found


def _depth(words: list[_Word], index: int) -> int:
    texts = [w.token.text for w in words[:index] if w.token.kind == "symbol"]
    return sum(t in _OPEN for t in texts) - sum(t in _CLOSE for t in texts)


def _cut(words: list[_Word], here: object) -> list[list[_Word]]:
    """Words cut where `here(index)` says, outside of brackets."""
    parts: list[list[_Word]] = [[]]
    for index, word in enumerate(words):
        if callable(here) and here(index) and _depth(words, index) == 0:
            parts.append([])
        parts[-1].append(word)
    return [part for part in parts if part]
