"""A flow into its author's own SQL: statements about what has not changed stay as they were, comments with them."""

from __future__ import annotations

from dataclasses import replace

from headrace.declare.flowfile import SECTIONS
from headrace.declare.resolve import resolve
from headrace.declare.show import show
from headrace.declare.sql.read import Statement, reader_of
from headrace.declare.sql.write import statements, tidy
from headrace.model import Flow, Sink


def rewrite(flow: Flow, original: str) -> str:
    """The author's statements, without those of parts that changed or went, and with new ones for what is new."""
    reader, _ = reader_of(original, "")
    reader.statements()
    old = resolve(reader.draft(flow.name, [])).flow
    if old == flow:
        return tidy(original)
    same = {part.name for part in flow if part.name in old and old[part.name] == flow[part.name]}
    said_of = [replace(said, parts=tuple(p for p in said.parts if p in old)) for said in reader.said]
    dropped = _dropped(said_of, same, {sink.name for sink in old.sinks})
    kept: dict[str, list[str]] = {}
    head: list[str] = []
    settled = _settings(old) == _settings(flow)
    start = 0
    for said in said_of:
        text, start = _whole(original, start, said), _behind(original, said)
        if not said.parts:
            if settled or "function" in text.lower():
                head.append(text)
        elif said not in dropped:
            for name in said.parts:
                kept.setdefault(name, []).append(text)
    anew = statements(flow)
    out = head if settled else [*anew.settings, *head]
    fed = {name for said in dropped if len(said.parts) > 1 for name in said.parts}
    for part in flow:
        texts = kept.get(part.name, anew.parts[part.name])
        if part.name in fed and isinstance(part, Sink) and part.name in kept:
            texts = [*texts, *anew.parts[part.name][1:]]
        out += [text for text in texts if text not in out]
    known = "\n".join(head).lower()
    made = [f for f in anew.functions if f.lower() not in known and any(p.name not in same for p in flow.steps)]
    return tidy("\n".join([*out[: len(head)], *made, *out[len(head) :]]))


def _dropped(said: list[Statement], same: set[str], sinks: set[str]) -> list[Statement]:
    """The statements to write anew: those with a part that is not the same, and what feeds the same sinks as they."""
    dropped = [one for one in said if not set(one.parts) <= same]
    while True:
        fed = {name for one in dropped for name in one.parts if len(one.parts) > 1 and name in sinks}
        more = [s for s in said if s not in dropped and len(s.parts) > 1 and not fed.isdisjoint(s.parts)]
        if not more:
            return dropped
        dropped += more


def _settings(flow: Flow) -> dict[str, object]:
    return {key: said for key, said in show(flow).items() if key not in SECTIONS}


def _whole(text: str, start: int, said: Statement) -> str:
    """A statement with the comments before it and its semicolon."""
    return text[start : said.end].strip("\n") + ";"


def _behind(text: str, said: Statement) -> int:
    at = text.find(";", said.end)
    return len(text) if at < 0 else at + 1
