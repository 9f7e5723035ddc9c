"""What a changed flow means for what its run remembers: kept, new, or in the way.

State belongs to steps by name. A checkpoint fits a query as long as the query reads the same sources and its
stateful steps are the same and mean the same; everything else about a flow may change between two starts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel, SecretStr

from headrace.compile.plan import Plan, Query
from headrace.model import Step
from headrace.operators.base import Operator


@dataclass(frozen=True)
class Verdict:
    """What is kept and what stands in the way, in words."""

    kept: tuple[str, ...]
    in_the_way: tuple[str, ...]


def describe(plan: Plan) -> dict[str, Any]:
    """What each query's checkpoint depends on, as plain data to be kept with the run."""
    return {query.name: _describe(plan, query) for query in plan.queries}


def _describe(plan: Plan, query: Query) -> dict[str, Any]:
    return {
        "sources": {name: str(getattr(plan.flow[name], "connector", "")) for name in query.sources},
        "stateful": {name: _meaning(plan.flow[name]) for name in query.stateful},
        "changes": query.changes.value,
    }


def _meaning(part: Any) -> str:
    assert isinstance(part, Step), f"only steps hold state, not {type(part).__name__}"
    operator: Operator = part.options
    layout = (operator.layout(),) if operator.layout() else ()
    return digest((part.operator, operator, [str(port) for port in part.inputs], *layout))


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Verdict:
    """What happens to the checkpoints made by `before` when the flow is now `after`."""
    kept: list[str] = []
    wrong: list[str] = []
    for query, new in after.items():
        old = before.get(query)
        if old is None:
            kept.append(f'query "{query}" is new and begins at the beginning')
            continue
        trouble = [*_sources(query, old, new), *_steps(query, old, new)]
        if old.get("changes") != new["changes"] and new["stateful"]:
            trouble.append(f'query "{query}" emitted {old.get("changes")}s and would now emit {new["changes"]}s')
        wrong += trouble
        if not trouble:
            held = ", ".join(f'"{step}"' for step in new["stateful"])
            kept.append(f'query "{query}" goes on where it was' + (f"; the state of {held} is kept" if held else ""))
    for query, old in before.items():
        if query not in after:
            steps = ", ".join(f'"{step}"' for step in old["stateful"])
            if steps:
                wrong.append(f'query "{query}" is gone, and with it the state of {steps}')
            else:
                kept.append(f'query "{query}" is gone; it held no state')
    return Verdict(tuple(kept), tuple(wrong))


def _sources(query: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    if old["sources"] == new["sources"]:
        return []
    before, after = (", ".join(f"{n} ({c})" for n, c in q["sources"].items()) for q in (old, new))
    return [f'query "{query}" read from {before} and would now read from {after}']


def _steps(query: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    before, after = old["stateful"], new["stateful"]
    gone = [f'step "{s}" of query "{query}" is gone, and with it its state' for s in before if s not in after]
    room = f'the checkpoint of query "{query}" has no room for its state'
    added = [f'step "{s}" is new, and {room}' for s in after if s not in before]
    changed = [s for s in after if s in before and before[s] != after[s]]
    return [*gone, *added, *(f'step "{s}" means something else than when its state was made' for s in changed)]


def digest(value: Any) -> str:
    """A short hash of what a value means: the same in every process, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(_plain(value), sort_keys=True).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, SecretStr):
        return "secret"  # a rotated password is not another meaning, and its hash must not be kept
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        compared = [f.name for f in dataclasses.fields(value) if f.compare]
        return [type(value).__name__, {name: _plain(getattr(value, name)) for name in compared}]
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(json.dumps(_plain(v), sort_keys=True) for v in value)
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if callable(value):
        return _source_of(value)
    return str(value)


def _source_of(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return str(getattr(function, "__qualname__", type(function).__qualname__))
