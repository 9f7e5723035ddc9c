"""Imports point one way, and heavy libraries wait until they are needed.

`MAY_IMPORT` is the one place that says which room may know which. A room is a folder or a file directly under
`src/headrace`; its own files may import each other. docs/architecture.md shows the same table, which is tested.
"""

from __future__ import annotations

import ast
import json
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src" / "headrace"

PARTS = {"formats", "operators", "connectors"}
VALUES = {"model", "errors", "options", "expressions", "goal"}

MAY_IMPORT: dict[str, set[str]] = {
    "model": set(),
    "errors": {"model"},
    "options": {"model", "errors"},
    "expressions": {"model", "errors", "options"},
    "goal": {"model", "errors", "options"},
    "formats": VALUES,
    "processor": {"model", "options"},
    "author": {"model", "options", "processor"},
    "operators": VALUES | {"processor", "author"},
    "kafka_settings": set(),
    "connectors": VALUES | {"formats", "kafka_settings", "author"},
    "catalogue": VALUES | PARTS,
    "declare": VALUES | PARTS | {"catalogue", "processor", "author"},
    "reference": VALUES | PARTS | {"catalogue", "declare"},
    "check": VALUES | PARTS | {"catalogue", "declare"},
    "compile": VALUES | PARTS | {"catalogue", "declare", "check"},
    "log": {"model", "errors", "options"},
    "project": {"model", "errors", "options", "kafka_settings", "log"},
    "observe": {"model", "errors", "options", "project"},
    "gateway": VALUES | PARTS | {"catalogue", "log", "project", "observe"},
    "run": VALUES | PARTS | {"catalogue", "declare", "check", "compile", "log", "project", "observe", "gateway"},
    "interactive": VALUES | PARTS | {"catalogue", "declare", "check", "compile", "log", "project", "observe", "run"},
    "testing": VALUES
    | PARTS
    | {"author", "catalogue", "declare", "check", "compile", "log", "project", "observe", "run"},
    "server": {"model", "errors", "options", "catalogue", "declare", "check", "compile", "project", "observe", "run"},
    "demo": {"model", "errors", "options", "connectors", "log", "project", "observe", "run"},
    "cli": VALUES
    | PARTS
    | {
        "kafka_settings",
        "catalogue",
        "reference",
        "declare",
        "check",
        "compile",
        "log",
        "project",
        "observe",
        "gateway",
        "run",
    }
    | {"testing", "server", "demo"},
    "__main__": {"cli"},
    "__init__": VALUES | {"operators", "declare", "processor", "author", "interactive"},
}
"""The rooms in their order, and for each the rooms it may import. `gateway` and `server` are still to come."""

HEAVY = {"confluent_kafka", "deltalake", "numpy", "pandas", "psycopg", "pyarrow", "pyspark", "rich"}
"""Libraries that take long to load; imported inside the functions that need them."""

HEAVY_AT_TOP: dict[str, set[str]] = {}
"""Modules that may import a heavy library at their top, because they themselves are only imported when it is needed."""

NEVER_LOADED = {"confluent_kafka", "deltalake", "pandas", "psycopg", "pyarrow", "pyspark", "rich"}
"""What `headrace check` and `headrace list` must not load."""


@dataclass(frozen=True, kw_only=True)
class Import:
    """One import statement in a module: what it names, where, and whether it is executed with the module."""

    module: str
    room: str
    line: int
    target: str
    at_top: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


def imports_of(text: str, module: str) -> Iterator[Import]:
    """Every import in a module's text, also those within functions; `module` is its path under src/headrace."""
    room = module.removesuffix(".py").partition("/")[0]
    package = ["headrace", *Path(module).parent.parts]

    def visit(node: ast.AST, at_top: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            for target in targets(child, package):
                yield Import(module=module, room=room, line=getattr(child, "lineno", 0), target=target, at_top=at_top)
            if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
                yield from visit(ast.Module(body=child.body, type_ignores=[]), at_top=False)
                yield from visit(ast.Module(body=child.orelse, type_ignores=[]), at_top)
            else:
                within = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from visit(child, at_top and not within)

    yield from visit(ast.parse(text), at_top=True)


def targets(node: ast.AST, package: list[str]) -> list[str]:
    """The modules an import statement names, in full; `from headrace import log` names headrace.log."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = package[: len(package) + 1 - node.level] if node.level else []
        start = ".".join([*base, *([node.module] if node.module else [])])
        return [f"{start}.{alias.name}" for alias in node.names] if start == "headrace" else [start]
    return []


def all_imports() -> list[Import]:
    paths = sorted(SOURCE.rglob("*.py"))
    assert paths, f"no source under {SOURCE}"
    return [
        found
        for path in paths
        for found in imports_of(path.read_text(encoding="utf-8"), path.relative_to(SOURCE).as_posix())
    ]


def room_of(target: str) -> str | None:
    """The room a module of ours is in, or None for someone else's; what `headrace` itself offers is in `__init__`."""
    name, _, rest = target.partition(".")
    if name != "headrace":
        return None
    room = rest.partition(".")[0]
    return room if room in MAY_IMPORT or (SOURCE / room).is_dir() or (SOURCE / f"{room}.py").is_file() else "__init__"


def breaches(found: list[Import]) -> list[str]:
    return [
        f"{one}, but {one.room} may import only {', '.join(sorted(MAY_IMPORT[one.room])) or 'nothing of ours'}"
        for one in found
        if (room := room_of(one.target)) is not None
        and one.room in MAY_IMPORT
        and room != one.room
        and room not in MAY_IMPORT[one.room]
    ]


def heavy_at_top(found: list[Import]) -> list[str]:
    return [
        f"{one} at its top; import it inside the function that needs it"
        for one in found
        if one.at_top
        and (library := one.target.partition(".")[0]) in HEAVY
        and library not in HEAVY_AT_TOP.get(one.module, set())
    ]


def test_every_room_is_in_the_table() -> None:
    rooms = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")}

    assert rooms - set(MAY_IMPORT) == set()


def test_the_table_has_an_order_and_is_written_in_it() -> None:
    rooms = list(MAY_IMPORT)

    assert list(TopologicalSorter(MAY_IMPORT).static_order())  # raises CycleError if rooms import in a circle
    assert [(a, b) for a, known in MAY_IMPORT.items() for b in known if rooms.index(b) > rooms.index(a)] == []


def test_imports_point_one_way() -> None:
    assert "\n".join(breaches(all_imports())) == ""


def test_heavy_libraries_are_not_imported_at_module_top() -> None:
    assert "\n".join(heavy_at_top(all_imports())) == ""


@pytest.mark.parametrize(
    "text",
    [
        "from headrace.run import start",
        "import headrace.run.home",
        "from headrace import run",
        "from ..run import start",
        "def late():\n    from headrace.run.home import Home",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from headrace.run import Home",
        "from headrace import Flow",
    ],
)
def test_a_breach_is_found_however_it_is_written(text: str) -> None:
    assert len(breaches(list(imports_of(text, "check/rules.py")))) == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import pyspark.sql", 1),
        ("try:\n    from pandas import DataFrame\nexcept ImportError:\n    pass", 1),
        ("class Sink:\n    import psycopg", 1),
        ("if TYPE_CHECKING:\n    import pyspark\nelse:\n    import numpy", 1),
        ("import typing\nif typing.TYPE_CHECKING:\n    from pyspark.sql import DataFrame", 0),
        ("def write():\n    import psycopg", 0),
        ("class Sink:\n    async def write(self):\n        import psycopg", 0),
    ],
)
def test_a_heavy_import_counts_only_where_loading_the_module_executes_it(text: str, found: int) -> None:
    assert len(heavy_at_top(list(imports_of(text, "connectors/postgresql.py")))) == found


def test_the_documented_table_is_this_one() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]*) \|$", text, re.MULTILINE)
    shown = {room: set(re.findall(r"`(\w+)`", cell)) for room, cell in rows}
    # The page writes a group of rooms as one word.
    groups = {"values": VALUES, "parts": PARTS}
    spelt = {room: {n for name in known for n in groups.get(name, {name})} for room, known in shown.items()}

    assert spelt == MAY_IMPORT


REPORT = """
import json, sys
from headrace.cli.main import main
code = 0
try:
    main()
except SystemExit as end:
    code = end.code or 0
libraries = sorted({name.partition(".")[0] for name in sys.modules})
print(json.dumps({"code": code, "libraries": libraries}), file=sys.stderr)
"""


LIBRARIES = """
import click, ruamel.yaml
from pydantic import BaseModel
class Options(BaseModel):
    one: int
"""
"""What a check cannot do without; a model, because pydantic loads most of itself with the first."""


def fresh(code: str, arguments: list[str], folder: Path) -> tuple[str, float]:
    """Python code in an interpreter of its own: what it said on standard error, and the processor time it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stderr, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.mark.parametrize("command", ["check", "list"])
def test_quick_commands_load_no_heavy_library_and_cost_little_more_than_their_libraries(
    command: str, tmp_path: Path
) -> None:
    flow = str(ROOT / "examples" / "word-count" / "from-file.yaml")
    arguments = [command, flow] if command == "check" else [command]

    said, spent = fresh(REPORT, arguments, tmp_path)
    told = json.loads(said.strip().splitlines()[-1])
    assert told["code"] == 0
    assert NEVER_LOADED & set(told["libraries"]) == set()

    # The best of each, against the libraries alone; other work on the machine slows both, and passes.
    _, libraries = fresh(LIBRARIES, [], tmp_path)
    for _ in range(20):
        spent = min(spent, fresh(REPORT, arguments, tmp_path)[1])
        libraries = min(libraries, fresh(LIBRARIES, [], tmp_path)[1])
        if spent < 2 * libraries:
            break
    assert spent < 2 * libraries
