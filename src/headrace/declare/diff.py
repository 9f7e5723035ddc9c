"""What changed between two flows, by meaning: parts added, removed, renamed, rewired, options old and new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headrace.declare.flowfile import SECTIONS
from headrace.declare.show import full_options, show, show_entry
from headrace.expressions.expression import Expression
from headrace.expressions.lex import ExpressionSyntaxError
from headrace.model import Flow, Sink, Source, Step

Kind = Literal["added", "removed", "renamed", "changed", "rewired", "replaced"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One thing that is another; `old` and `new` are plain values."""

    kind: Kind
    part: str
    """flow, source, step or sink."""
    name: str
    option: str = ""
    old: Any = None
    new: Any = None

    def __str__(self) -> str:
        title = self.part if self.part == "flow" else f'{self.part} "{self.name}"'
        match self.kind:
            case "added":
                return f"{title} is added ({self.new})"
            case "removed":
                return f"{title} is removed ({self.old})"
            case "renamed":
                return f'{title} is renamed to "{self.new}"'
            case "rewired":
                return f"{title} reads from {_shown(self.new)} instead of {_shown(self.old)}"
            case "replaced":
                return f"{title} is {self.new} instead of {self.old}"
        return f"{title}: {self.option}: {_shown(self.old)} -> {_shown(self.new)}"

    def as_dict(self) -> dict[str, Any]:
        """The change as plain data."""
        said = {"kind": self.kind, "part": self.part, "name": self.name, "option": self.option}
        return {k: v for k, v in said.items() if v} | {k: getattr(self, k) for k in ("old", "new")}


def _shown(value: Any) -> str:
    if value is None:
        return "(default)"
    if isinstance(value, list):
        return ", ".join(str(v) for v in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def diff(old: Flow, new: Flow) -> list[Change]:
    """What one must change in the old flow to have the new one; in the order of the new flow, what is gone first."""
    renamed = _renames(old, new)
    found = _settings(old, new)
    for part in old:
        if part.name not in new and part.name not in renamed:
            found.append(Change(kind="removed", part=_kind(part), name=part.name, old=_what(part)))
    back = {after: before for before, after in renamed.items()}
    for part in new:
        before = back.get(part.name, part.name)
        if before not in old:
            found.append(Change(kind="added", part=_kind(part), name=part.name, new=_what(part)))
            continue
        if before != part.name:
            found.append(Change(kind="renamed", part=_kind(part), name=before, new=part.name))
        found += _between(old[before], part, renamed)
    return found


def _kind(part: Source | Step | Sink) -> str:
    return type(part).__name__.lower()


def _what(part: Source | Step | Sink) -> str:
    return part.operator if isinstance(part, Step) else part.connector


def _settings(old: Flow, new: Flow) -> list[Change]:
    before, after = (_flat(_whole(flow)) for flow in (old, new))
    pairs = [(key, before.get(key), after.get(key)) for key in dict.fromkeys((*before, *after))]
    return [Change(kind="changed", part="flow", name=new.name, option=n, old=a, new=b) for n, a, b in pairs if a != b]


def _whole(flow: Flow) -> dict[str, Any]:
    """What is said of the flow as a whole; Spark's settings under their own names."""
    said = {key: value for key, value in show(flow).items() if key not in SECTIONS and key != "spark"}
    return {"name" if key == "flow" else key: value for key, value in said.items()} | dict(flow.spark)


def _renames(old: Flow, new: Flow) -> dict[str, str]:
    """Parts that are the same under another name: what they do is equal, and so is what they read, renames followed."""
    found: dict[str, str] = {}
    while True:
        gone = [p for p in old if p.name not in new and p.name not in found]
        come = [p for p in new if p.name not in old and p.name not in found.values()]
        pair = next(
            (
                (a, b)
                for a in gone
                for b in come
                if type(a) is type(b) and _same(a, b) and _wired(a, found) == _wired(b)
            ),
            None,
        )
        if pair is None:
            return found
        found[pair[0].name] = pair[1].name


def _same(a: Any, b: Any) -> bool:
    """Whether two parts do the same, whatever they are called and read."""
    if _what(a) != _what(b) or a.options != b.options:
        return False
    names = ("format", "format_options", "schema", "time", "table", "delivery", "goal", "expect")
    return all(getattr(a, n, None) == getattr(b, n, None) for n in names)


def _wired(part: Source | Step | Sink, renamed: Mapping[str, str] | None = None) -> list[str]:
    inputs = []
    for port in part.inputs:
        text = str(port)
        step, _, rest = text.partition(".")
        step = (renamed or {}).get(step, step)
        inputs.append(f"{step}.{rest}" if rest else step)
    return inputs


def _between(old: Source | Step | Sink, new: Source | Step | Sink, renamed: Mapping[str, str]) -> list[Change]:
    part, name = _kind(new), new.name
    found: list[Change] = []
    if type(old) is not type(new):
        return [Change(kind="replaced", part=part, name=name, old=f"a {_kind(old)}", new=f"a {part}")]
    before, after = _wired(old, renamed), _wired(new)
    if before != after:
        found.append(Change(kind="rewired", part=part, name=name, old=before, new=after))
    if _what(old) != _what(new):
        return [*found, Change(kind="replaced", part=part, name=name, old=_what(old), new=_what(new))]
    a, b = _flat(_said(old)), _flat(_said(new))
    differing = [o for o in dict.fromkeys((*a, *b)) if not _equal(a.get(o), b.get(o))]
    return found + [
        Change(kind="changed", part=part, name=name, option=o, old=a.get(o), new=b.get(o)) for o in differing
    ]


def _said(part: Source | Step | Sink) -> dict[str, Any]:
    entry = {k: v for k, v in show_entry(part).items() if k not in ("from", _what(part))}
    return full_options(part.options) | entry


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Nested options as one mapping of dotted names."""
    if isinstance(value, Mapping) and value:
        return {k: v for key, inner in value.items() for k, v in _flat(inner, f"{path}.{key}" if path else key).items()}
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        named = {k: v for item in value for k, v in (item.items() if isinstance(item, Mapping) else [(item, item)])}
        return _flat(named, path)
    return {path: value}


def _equal(a: Any, b: Any) -> bool:
    """Whether two values mean the same: expressions may be spelled in two ways."""
    if a == b:
        return True
    if not (isinstance(a, str) and isinstance(b, str)):
        return False
    try:
        return Expression.parse(a) == Expression.parse(b)
    except ExpressionSyntaxError:
        return False
