"""From any form of a flow to any other; what a form cannot say is a problem, never left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from headrace.author.callables import FLOW_MODULE, Reference
from headrace.declare import jsonfile
from headrace.declare.load import declare, draft
from headrace.declare.resolve import resolve
from headrace.errors import FlowError, InternalError, Problem
from headrace.model import Flow
from headrace.operators.functions import Function
from headrace.options import Secret

FORMS = {"yaml": ".yaml", "python": ".py", "sql": ".sql", "json": ".json"}
"""The forms a flow can be written in, and how their files end."""
_OF_SUFFIX = {".yaml": "yaml", ".yml": "yaml", ".py": "python", ".sql": "sql", ".json": "json"}


def form_of(path: Path) -> str:
    """The form of a file, by its name."""
    return _OF_SUFFIX.get(path.suffix, "")


def convert(path: Path, form: str) -> str:
    """The flow in a file as text in another form; raises FlowError with what is wrong, or cannot be said."""
    declared = declare(path)
    errors = [p for p in declared.problems if not p.warning]
    if errors:
        raise FlowError(*errors)
    text = path.read_text(encoding="utf-8-sig")
    if form == form_of(path) == "python":
        return text  # the author's own is the best there is, and its layout is left to a Python formatter
    return write(declared.flow, form, _by_hand(path, text))


def _by_hand(path: Path, text: str) -> jsonfile.Written | None:
    """What the author last wrote by hand: this file, or the text that a JSON form carries."""
    form = form_of(path)
    if form == "json":
        return jsonfile.written_in(text)
    return jsonfile.Written(form, text) if form in ("yaml", "sql") else None


def write(flow: Flow, form: str, written: jsonfile.Written | None = None) -> str:
    """A flow in a form; the author's own text in that form, if there is one, keeps its comments and layout."""
    problems = list(unsayable(flow, form))
    if problems:
        raise FlowError(*problems)
    if form == "json":
        return jsonfile.write(flow, written)
    made = _again(flow, form, written) or _anew(flow, form)
    if _read(made, form, flow.name) != flow:
        raise InternalError(f'flow "{flow.name}" written as {form} does not read as the same flow')
    return made


def _read(text: str, form: str, name: str) -> Flow:
    """The flow that our own text says."""
    if form != "python":
        return resolve(draft(text, f"flow{FORMS[form]}", name)).flow
    made: dict[str, Any] = {}
    exec(compile(text, "<written>", "exec"), made)
    declared: Flow = made["flow"].declared().flow
    return declared


def _anew(flow: Flow, form: str) -> str:
    if form == "yaml":
        from headrace.declare.write import write as write_yaml

        return write_yaml(flow)
    if form == "sql":
        from headrace.declare.sql.write import write as write_sql

        return write_sql(flow)
    from headrace.declare.python import write as write_python

    return write_python(flow)


def _again(flow: Flow, form: str, written: jsonfile.Written | None) -> str | None:
    """The author's own text, changed where the flow is another; None if that cannot be done."""
    if written is None or written.form != form:
        return None
    if form == "yaml":
        from headrace.declare.write import rewrite

        made = rewrite(flow, written.text)
    else:
        from headrace.declare.sql.rewrite import rewrite as rewrite_sql

        made = rewrite_sql(flow, written.text)
    return made if resolve(draft(made, f"flow{FORMS[form]}", flow.name)).flow == flow else None


def unsayable(flow: Flow, form: str) -> Iterator[Problem]:
    """What the form has no words for: functions without a name to import them by, secrets written out."""
    for part in flow:
        kind = type(part).__name__.lower()
        for found in _inside(part):
            if isinstance(found, Function | Reference) and _homeless(_name(found)):
                yield Problem(
                    code="unsupported",
                    message=f'{kind} "{part.name}" calls {_said(_name(found))}, which cannot be named in {form}',
                    location=part.places.location,
                    step=part.name,
                    hint=_home_for(_name(found)),
                )
            elif isinstance(found, Secret) and found.reference != found.get_secret_value():
                yield Problem(
                    code="unsupported",
                    message=f'{kind} "{part.name}" has a secret written out, which is not shown in {form}',
                    location=part.places.location,
                    step=part.name,
                    hint="put it in the environment and write ${env:NAME}",
                )


def _name(found: Function | Reference) -> str:
    return found.reference if isinstance(found, Function) else found.name


def _said(reference: str) -> str:
    """A function as its author knows it.

    >>> _said("headrace_flow_shop:<lambda>@4"), _said("__main__:twice")
    ('a lambda', 'twice')
    """
    name = reference.partition(":")[2].partition("@")[0]
    return "a lambda" if "<lambda>" in name else name


def _homeless(reference: str) -> bool:
    module, _, name = reference.partition(":")
    return "<" in name or module == "__main__" or module.startswith(FLOW_MODULE)


def _home_for(reference: str) -> str:
    """How what has no name that could be imported gets one."""
    module, _, name = reference.partition(":")
    if "<" in name:
        return "define it with a name, not inside another function or as a lambda"
    if module.startswith(FLOW_MODULE):
        return "give the flow's file a name that can be imported (letters, digits, _), or put it in a module beside it"
    return "define it with a name in a module of its own, beside the flow"


def _inside(value: Any) -> Iterator[Any]:
    """All functions, classes and secrets in a part."""
    if isinstance(value, Function | Reference | Secret):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _inside(getattr(value, name))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            if field.compare:
                yield from _inside(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _inside(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _inside(inner)


def tidy(path: Path, text: str) -> str:
    """The text of a flow in the one layout of its form, its comments kept; raises FlowError if it cannot be read."""
    form, name = form_of(path), str(path)
    before = draft(text, name, path.stem)
    if before.problems:
        raise FlowError(*before.problems)
    if form == "yaml":
        from headrace.declare.write import tidy as tidy_yaml

        made = tidy_yaml(text)
    elif form == "sql":
        from headrace.declare.sql.write import tidy as tidy_sql

        made = tidy_sql(text)
    else:
        import json

        made = json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    if resolve(draft(made, name, path.stem)).flow != resolve(before).flow:
        raise InternalError(f"{path} laid out does not read as the same flow")
    return made
