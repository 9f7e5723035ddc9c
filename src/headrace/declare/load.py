"""From a file to what it declares, whatever form it is in."""

from __future__ import annotations

import importlib.util
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from headrace.author.callables import FLOW_MODULE, travel_by_value
from headrace.declare import flowfile
from headrace.declare.draft import Draft
from headrace.declare.parameters import Values
from headrace.declare.resolve import Declared, resolve
from headrace.errors import Problem
from headrace.model import Flow, Location

SUFFIXES = {".yaml": "flow file", ".yml": "flow file", ".py": "Python", ".sql": "SQL", ".json": "JSON"}


def declare(path: Path, *, shown: str | None = None, given: Values | None = None) -> Declared:
    """What a file declares, with these values for its parameters.

    Problems carry `shown` (or the path as given) as the file's name.
    """
    name = shown or str(path)
    at = Location(name)
    if path.suffix == PICKLED and path.is_file():
        return _pickled(path, at, given)
    if path.suffix not in SUFFIXES:
        return _failed("bad-flow", f"a flow is a file that ends in {', '.join(SUFFIXES)}", at)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return _failed("file-not-found", "there is no such file", at)
    except UnicodeDecodeError:
        return _failed("bad-flow", "the file is not UTF-8 text", at, "save it as UTF-8")
    except OSError as error:
        return _failed("bad-flow", f"the file could not be read: {error.strerror}", at)
    beside(path)
    if path.suffix == ".py":
        return _python(path, at, given)
    return resolve(draft(text, name, path.stem), given)


def draft(text: str, file: str, stem: str) -> Draft:
    """What a text declares, in the form that the name of its file tells."""
    if file.endswith(".sql"):
        from headrace.declare.sql.read import read

        return read(text, file, stem)
    if file.endswith(".json"):
        from headrace.declare.jsonfile import read as read_json

        return read_json(text, file)
    return flowfile.read(text, file)


PICKLED = ".pickle"
"""A flow that was written where there is no file, as in a notebook; see `write_down`."""


def write_down(draft: Draft, folder: Path) -> Path:
    """A draft as a file that another process can read, its functions with it; for flows that have no file of their own.

    Like a Python file it holds code: it is read from the project's own home, and from nowhere else unless asked.
    """
    from pyspark import cloudpickle

    for function in _functions([entry.data for entry in draft.entries]):
        travel_by_value(function)
    file = folder / f"{draft.name}{PICKLED}"
    file.write_bytes(cloudpickle.dumps(draft))  # type: ignore[no-untyped-call]
    return file


def _functions(data: Any) -> Iterator[Callable[..., Any]]:
    if isinstance(data, Mapping):
        data = list(data.values())
    if isinstance(data, list | tuple):
        for one in data:
            yield from _functions(one)
    elif callable(data) and hasattr(data, "__module__"):
        yield data


def _pickled(path: Path, at: Location, given: Values | None) -> Declared:
    try:
        draft = pickle.loads(path.read_bytes())
    except Exception as error:  # noqa: BLE001 - unpickling raises anything
        return _failed("bad-python", f"the file could not be read: {type(error).__name__}: {error}", at)
    return resolve(draft, given)


def beside(path: Path) -> None:
    """Lets functions be imported from modules beside the flow and in the folder above it."""
    for folder in (path.resolve().parent.parent, path.resolve().parent):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))


def _failed(code: str, message: str, at: Location, hint: str = "") -> Declared:
    problem = Problem(code=code, message=message, location=at, hint=hint)
    return Declared(flow=Flow(name="unreadable"), problems=(problem,))


def _python(path: Path, at: Location, given: Values | None) -> Declared:
    """The one flow a Python file declares in a global variable."""
    from headrace.declare.api import Flow as Builder
    from headrace.declare.api import shown_as

    path = path.resolve()
    shown_as[str(path)] = at.file
    try:
        module = _module(path)
    except BaseException as error:  # whatever the author's file raises, SystemExit included
        if isinstance(error, KeyboardInterrupt):
            raise
        return _failed("bad-python", f"{type(error).__name__}: {error}", _raised_at(error, path, at))
    flows = {id(v): v for v in vars(module).values() if isinstance(v, Builder)}
    if len(flows) != 1:
        count = "no flow" if not flows else f"{len(flows)} flows"
        return _failed("bad-python", f"the file has {count}", at, "assign one: flow = Flow(…)")
    return next(iter(flows.values())).declared(given)


def _module(path: Path) -> ModuleType:
    """The file as a module; its functions travel to workers by value, since they cannot import it."""
    name = f"{FLOW_MODULE}{path.stem.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _raised_at(error: BaseException, path: Path, at: Location) -> Location:
    if isinstance(error, SyntaxError) and error.lineno:
        return Location(at.file, error.lineno, error.offset or 0)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return Location(at.file, lines[-1] or 0) if lines else at
