"""One layout for flow files: what is short stands on one line, sections are set apart, comments stay where they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headrace.declare.flowfile import SECTIONS, TOP

WIDTH = 100
_SET_APART = tuple(key for key in TOP if key in (*SECTIONS, "spark", "parameters"))
_SPECIAL_IN_FLOW = re.compile(r"[,\[\]{}]|: |:$| #|^[-?:&*!|>%@`\"'#]")
_SPECIAL = re.compile(r": |:$| #|^[-?:&*!|>%@`\"'#\[\]{},]")
_BLOCK_OF_TEXT = re.compile(r"[:-] [|>][+-]?\d*\s*(#.*)?$", re.MULTILINE)


def lay_out(tree: Any) -> None:
    """Sets the style of every value below the sections: lists and mappings of plain values on one line, if short."""
    for key, value in list(tree.items()):
        if not isinstance(value, Mapping) or not value:
            continue
        _block(tree, key)
        for name in list(value):
            if key in SECTIONS and isinstance(value[name], Mapping) and value[name]:
                _block(value, name)
                _children(value[name], 4)
            elif key not in SECTIONS:
                _styled(value, name, 2)
    _requote(tree, in_flow=False)


def spaced(text: str) -> str:
    """An empty line before each section, nowhere two; comments two spaces behind, or as deep as what follows."""
    if _BLOCK_OF_TEXT.search(text):  # lines of a block of text are not ours to change
        return text
    lines = [line.rstrip() for line in text.splitlines()]
    out: list[str] = []
    for number, line in enumerate(lines):
        if not line and (not out or not out[-1]):
            continue
        if line.lstrip().startswith("#"):
            follow = next((one for one in lines[number + 1 :] if one and not one.lstrip().startswith("#")), None)
            depth = len(line if follow is None else follow) - len((line if follow is None else follow).lstrip())
            line = " " * depth + line.lstrip()
        else:
            line = _comment_apart(line)
        if line.partition(":")[0] in _SET_APART and out:
            start = len(out)
            while start and out[start - 1].startswith("#"):
                start -= 1
            if start and out[start - 1]:
                out.insert(start, "")
        out.append(line)
    while out and not out[-1]:
        out.pop()
    return "\n".join(out) + "\n"


def _comment_apart(line: str) -> str:
    """A line with two spaces before the comment at its end."""
    quote, skip = "", False
    for index, c in enumerate(line):
        if skip:
            skip = False
        elif quote:
            skip = (quote == "'" and line[index : index + 2] == "''") or (quote == '"' and c == "\\")
            quote = "" if c == quote and not skip else quote
        elif c in "'\"" and (index == 0 or line[index - 1] in " [{,"):
            quote = c
        elif c == "#" and index and line[index - 1] == " ":
            return f"{line[:index].rstrip()}  {line[index:]}"
    return line


def _children(tree: Any, indent: int) -> None:
    keys = list(tree) if isinstance(tree, Mapping) else range(len(tree))
    for key in keys:
        if isinstance(tree[key], Mapping | list):
            _styled(tree, key, indent)


def _styled(parent: Any, key: Any, indent: int) -> None:
    """Gives one value its style; what has comments in it stays as its author laid it out."""
    value = parent[key]
    if not isinstance(value, Mapping | list):
        return
    lead = indent + (len(str(key)) + 2 if isinstance(parent, Mapping) else 2)
    if not _commented(value):
        if not value or (_plain(value) and lead + len(_shown(value)) <= WIDTH):
            _flow(value)
            return
        _block(parent, key)
    _children(value, indent + 2)


def _flow(tree: Any) -> None:
    if hasattr(tree, "fa"):
        tree.fa.set_flow_style()
    for value in tree.values() if isinstance(tree, Mapping) else tree:
        if isinstance(value, Mapping | list):
            _flow(value)


def _block(parent: Any, key: Any) -> None:
    """Over several lines, unless a comment stands right behind it, which would then stand in the middle."""
    found = getattr(parent, "ca", None)
    tree = parent[key]
    if hasattr(tree, "fa") and not (tree.fa.flow_style() and found is not None and key in found.items):
        tree.fa.set_block_style()


def _plain(value: Any) -> bool:
    """Whether a value has nothing below it but plain values, lists of them, or in a list a column with its name."""
    for one in value.values() if isinstance(value, Mapping) else value:
        if isinstance(one, Mapping) and (isinstance(value, Mapping) or len(one) != 1 or not _plain(one)):
            return False
        if isinstance(one, list) and any(isinstance(item, Mapping | list) for item in one):
            return False
        if isinstance(one, str) and "\n" in one:
            return False
    return True


def _requote(tree: Any, *, in_flow: bool) -> None:
    """Texts in quotes only where YAML needs them."""
    flow = in_flow or bool(hasattr(tree, "fa") and tree.fa.flow_style())
    for key in list(tree) if isinstance(tree, Mapping) else range(len(tree)):
        if isinstance(tree[key], Mapping | list):
            _requote(tree[key], in_flow=flow)
        elif isinstance(tree[key], str):  # past the library's own assignment, which keeps the quotes that were
            base: Any = dict if isinstance(tree, Mapping) else list
            base.__setitem__(tree, key, _text(tree[key], in_flow=flow))


def _text(value: Any, *, in_flow: bool) -> Any:
    """A text without quotes if it can be, else as the writer does it; in double ones if it has single ones."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, SingleQuotedScalarString

    anchored = getattr(getattr(value, "anchor", None), "value", None)
    if type(value) not in (str, DoubleQuotedScalarString, SingleQuotedScalarString) or anchored or "\n" in value:
        return value
    text = str(value)
    special = (_SPECIAL_IN_FLOW if in_flow else _SPECIAL).search(text)
    if special and "'" in text and '"' not in text and "\\" not in text and text.isprintable():
        return DoubleQuotedScalarString(text)
    return text


def _shown(value: Any) -> str:
    """About how a value looks on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_shown(v) for v in value) + "]"
    text = str(value)
    return f'"{text}"' if _SPECIAL_IN_FLOW.search(text) else text


def _commented(tree: Any) -> bool:
    """Whether there is a comment anywhere in a value."""
    found = getattr(tree, "ca", None)
    if found is not None and (found.comment or found.items or getattr(found, "end", None)):
        return True
    inner = tree.values() if isinstance(tree, Mapping) else tree if isinstance(tree, list) else ()
    return any(_commented(value) for value in inner)
