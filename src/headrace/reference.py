"""The reference: what every connector, operator and format takes, from its option model.

`headrace describe` prints it, `make docs` writes it as `docs/reference.md`, `--json` gives JSON Schema.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.catalogue import FORMATS, OPERATORS, SINKS, SOURCES
from headrace.declare.spellings import spellings
from headrace.errors import UsageError, nearest
from headrace.model import Delivery
from headrace.options import Options

KINDS: dict[str, Mapping[str, Any]] = {"source": SOURCES, "sink": SINKS, "operator": OPERATORS, "format": FORMATS}


_LANGUAGES = {"yaml": "flow file", "python": "Python", "sql": "SQL"}


def summary() -> dict[str, dict[str, str]]:
    """Every name with its first line, by kind."""
    return {kind: {name: _first(thing) for name, thing in things.items()} for kind, things in KINDS.items()}


def search(kinds: Iterable[str], name: str, word: str) -> dict[str, Any]:
    """What has a name, by kind; `word` is what the kinds are called together."""
    kinds = tuple(kinds)
    found = {kind: KINDS[kind][name] for kind in kinds if name in KINDS[kind]}
    if not found:
        known = sorted({known for kind in kinds for known in KINDS[kind]})
        hint = nearest(name, known).replace("It takes", "There are")
        raise UsageError(f'there is no {word} "{name}"', hint=hint)
    return found


def _model(thing: Any) -> type[Options]:
    return thing if issubclass(thing, Options) else thing.options_model  # type: ignore[no-any-return]


def schema(thing: Any) -> dict[str, Any]:
    """The JSON Schema of its options."""
    return _model(thing).model_json_schema(by_alias=True)


def _first(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").split("\n")[0]


def options(thing: Any) -> list[tuple[str, str, str, str]]:
    """Name, type, default and meaning of each option."""
    rows = []
    properties = schema(thing).get("properties", {})
    for name, info in _model(thing).model_fields.items():
        shown = info.alias or name
        default = "required" if info.is_required() else _default(info.get_default(call_default_factory=True))
        rows.append((shown, _type(properties.get(shown, {})), default, info.description or ""))
    return rows


def _default(value: object) -> str:
    from datetime import timedelta

    from headrace.options import show_duration

    if isinstance(value, timedelta):
        return show_duration(value)
    return "" if value in (None, (), {}) else str(value).lower() if isinstance(value, bool) else str(value)


def _type(property_: dict[str, Any]) -> str:
    """A short name of a JSON Schema type."""
    if "enum" in property_:
        return " or ".join(str(v) for v in property_["enum"])
    if "anyOf" in property_:
        kinds = [_type(p) for p in property_["anyOf"] if p.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "format" in property_:
        return str(property_["format"])
    if property_.get("type") == "array":
        return f"list of {_type(property_.get('items', {}))}"
    if "$ref" in property_:
        return str(property_["$ref"]).rpartition("/")[2].lower()
    return {"object": "mapping"}.get(str(property_.get("type")), str(property_.get("type", "value")))


def _promise(thing: Any) -> str:
    strongest: Delivery | None = getattr(thing, "strongest", None)
    if strongest is None:
        return ""
    why = f": {thing.weakness}" if thing.weakness else ""
    return f"Delivery: at most {strongest}{why}." if why else f"Delivery: {strongest}."


def text(kind: str, thing: Any) -> str:
    """One thing for a terminal."""
    lines = [f"{thing.name} ({kind})", "", inspect.getdoc(thing) or "", ""]
    if _promise(thing):
        lines += [_promise(thing), ""]
    rows = options(thing)
    if rows:
        lines.append("options")
        width = max(len(r[0]) for r in rows)
        for name, type_, default, meaning in rows:
            lines.append(f"  {name:{width}}  {type_}{f', {default}' if default else ''}: {meaning}")
        lines.append("")
    for language, example in spellings(kind, thing.example).items():
        lines += [f"example ({_LANGUAGES[language]})", *(f"  {line}" for line in example.splitlines()), ""]
    return "\n".join(lines).rstrip()


def markdown() -> str:
    """The whole reference as one page."""
    lines = [
        "# Reference",
        "",
        "Generated from the option models by `make docs`; do not edit. "
        "The same on the command line: `headrace describe`. Each example is given as a flow file, in Python and in "
        "SQL; the three mean the same.",
        "",
    ]
    for kind, things in KINDS.items():
        lines += [f"## {kind.capitalize()}s", ""]
        for thing in things.values():
            lines += [f"### {thing.name}", "", inspect.getdoc(thing) or "", ""]
            if _promise(thing):
                lines += [_promise(thing), ""]
            rows = options(thing)
            if rows:
                lines += ["| option | type | default | meaning |", "|---|---|---|---|"]
                lines += [f"| `{n}` | {t} | {d} | {m} |".replace("||", "| |") for n, t, d, m in rows]
                lines.append("")
            for language, example in spellings(kind, thing.example).items():
                lines += [f"```{language}", example, "```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
