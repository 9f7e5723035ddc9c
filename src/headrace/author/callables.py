"""The author's functions and classes by name, `module:name`: found, named, and sent to workers whole."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from headrace.options import refuse


def reference_of(function: Callable[..., Any]) -> str:
    """The name of a function or class; one without a name of its own has its line."""
    module, name = getattr(function, "__module__", "?"), getattr(function, "__qualname__", type(function).__name__)
    if "<" in name and hasattr(function, "__code__"):
        return f"{module}:{name}@{function.__code__.co_firstlineno}"
    return f"{_importable(module)}:{name}"


FLOW_MODULE = "headrace_flow_"
"""What the module of a flow's own Python file is called, before the file's name."""


def _importable(module: str) -> str:
    """The name by which others may import a flow's own file, if it has one; else the module as it is called."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if not module.startswith(FLOW_MODULE) or file is None:
        return module
    name = Path(file).stem
    try:
        found = importlib.util.find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        found = None
    same = found is not None and found.origin is not None and Path(found.origin).resolve() == Path(file)
    return name if same else module


def load(reference: str) -> Callable[..., Any]:
    """What a reference names; raises as validators do."""
    module_name, _, path = reference.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # noqa: BLE001 - whatever the author's module raises while it is imported
        raise refuse(
            "bad-function",
            f'function "{reference}" could not be loaded: {type(error).__name__}: {error}',
            "the module is looked for beside the flow file and in the project's root",
        ) from None
    if not callable(found):
        raise refuse("bad-function", f'"{reference}" is not a function')
    return found  # type: ignore[no-any-return]


def travel_by_value(function: Callable[..., Any]) -> None:
    """Sends the author's module, and those beside it, to workers whole: they may not be able to import them."""
    from pyspark import cloudpickle

    home = getattr(sys.modules.get(function.__module__), "__file__", None)
    if home is None or not is_authors(home):
        return
    beside = f"{Path(home).parent}{os.sep}"
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and file.startswith(beside) and is_authors(file):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def is_authors(file: str) -> bool:
    """Whether a module's file is neither installed nor part of Python or of this package."""
    return not any(Path(file).is_relative_to(folder) for folder in _installed())


@cache
def _installed() -> tuple[Path, ...]:
    """Where modules are that are not the author's."""
    return (Path(__file__).parents[1], *(Path(folder) for folder in sysconfig.get_paths().values()))


@dataclass(frozen=True)
class Reference:
    """A class by name, and the class itself."""

    name: str
    made: Any = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


def parse_reference(given: object) -> Reference:
    """A class from what an author may write for one: itself, or `module:Class`; raises as validators do."""
    if isinstance(given, Reference):
        return given
    if isinstance(given, Mapping) and set(given) == {"python"}:
        given = given["python"]
    if isinstance(given, str) and given.count(":") == 1:
        return Reference(given, load(given))
    if isinstance(given, type):
        return Reference(reference_of(given), given)
    raise refuse("bad-function", f"{given!r} does not name a class", 'write "module:Class"')


ClassOption = Annotated[
    Reference,
    BeforeValidator(parse_reference),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["module:Class"]}),
]
