"""A flow as a flow file: anew, or into the author's own text with its comments and layout kept."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from headrace.declare.flowfile import SECTIONS, read, yaml_of
from headrace.declare.layout import lay_out, spaced
from headrace.declare.resolve import resolve
from headrace.declare.show import show
from headrace.model import Flow


def write(flow: Flow) -> str:
    """The flow as the shortest flow file; reading it gives an equal flow."""
    tree = _commentable(show(flow))
    lay_out(tree)
    return spaced(_text(tree))


def tidy(text: str) -> str:
    """A flow file in the one layout, with its comments; the text must be YAML with the shape of a flow."""
    for _ in range(4):  # a comment at the end of a line that grew finds its column in a second round
        tree = yaml_of("", []).load(text)
        if not isinstance(tree, Mapping):
            return text
        lay_out(tree)
        made = spaced(_text(tree))
        if made == text:
            break
        text = made
    return text


def _commentable(value: Any) -> Any:
    """Plain values as the YAML writer's own kinds, whose style can be set."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    if isinstance(value, Mapping):
        made = CommentedMap()
        made.update({key: _commentable(inner) for key, inner in value.items()})
        return made
    return CommentedSeq(_commentable(inner) for inner in value) if isinstance(value, list | tuple) else value


def rewrite(flow: Flow, original: str) -> str:
    """The author's file with what differs in meaning changed, and every other line as it was."""
    tree, old, new = yaml_of("", []).load(original), resolve(read(original)).flow, show(flow)
    said = set(new)
    for section in SECTIONS:
        wanted = new.pop(section, {})
        present = tree.setdefault(section, {}) if wanted else tree.get(section) or {}
        for name in [n for n in present if n not in wanted]:
            del present[name]
        for name, entry in wanted.items():
            if name not in present:
                present[name] = entry
            elif name not in old or old[name] != flow[name]:
                _merge(present[name], entry)
        if section in tree and not wanted:
            del tree[section]
    for section in ("spark", "parameters"):
        if getattr(old, section) == getattr(flow, section):
            new.pop(section, None)
    for key, value in new.items():
        if tree.get(key) != value:
            tree[key] = value
    top = ("description", "goal", "state", "parameters", "dead_letters", "spark")
    for key in [k for k in tree if k in top and k not in said]:
        del tree[key]
    return _text(tree)


def _text(tree: Any) -> str:
    out = io.StringIO()
    yaml_of("", []).dump(tree, out)
    return out.getvalue()


def _merge(tree: Any, data: Mapping[str, Any]) -> None:
    """Make `tree` say what `data` says, touching only what differs."""
    for key in [k for k in tree if k not in data]:
        del tree[key]
    for key, value in data.items():
        old = tree.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            _merge(old, value)
        elif key not in tree or old != value:
            tree[key] = value
