"""A flow into its author's own SQL: statements about what has not changed stay as they were, comments with them."""

from __future__ import annotations

from headrace.declare.flowfile import SECTIONS
from headrace.declare.resolve import resolve
from headrace.declare.show import show
from headrace.declare.sql.read import Statement, reader_of
from headrace.declare.sql.write import statements, tidy
from headrace.model import Flow


def rewrite(flow: Flow, original: str) -> str:
    """The author's statements, without those of parts that changed or went, and with new ones for what is new."""
    reader, _ = reader_of(original, "")
    reader.statements()
    old = resolve(reader.draft(flow.name, [])).flow
    if old == flow:
        return tidy(original)
    same = {part.name for part in flow if part.name in old and old[part.name] == flow[part.name]}
    kept: dict[str, list[str]] = {}
    head: list[str] = []
    settled = _settings(old) == _settings(flow)
    start = 0
    for said in reader.said:
        text, start = _whole(original, start, said), _behind(original, said)
        if not said.parts:
            if settled or "function" in text.lower():
                head.append(text)
        elif set(said.parts) <= same:
            for name in said.parts:
                kept.setdefault(name, []).append(text)
    anew = statements(flow)
    out = head if settled else [*anew.settings, *head]
    for part in flow:
        for text in kept.get(part.name, anew.parts[part.name]):
            if text not in out:
                out.append(text)
    known = "\n".join(head).lower()
    made = [f for f in anew.functions if f.lower() not in known and any(p.name not in same for p in flow.steps)]
    return tidy("\n".join([*out[: len(head)], *made, *out[len(head) :]]))


def _settings(flow: Flow) -> dict[str, object]:
    return {key: said for key, said in show(flow).items() if key not in SECTIONS}


def _whole(text: str, start: int, said: Statement) -> str:
    """A statement with the comments before it and its semicolon."""
    return text[start : said.end].strip("\n") + ";"


def _behind(text: str, said: Statement) -> int:
    at = text.find(";", said.end)
    return len(text) if at < 0 else at + 1
