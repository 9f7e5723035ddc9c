"""Which files are flows, and which are their cases."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from headrace.declare.flowfile import LONGEST, SECTIONS, names_in
from headrace.declare.load import SUFFIXES
from headrace.errors import UsageError

CASES = ".cases.yaml"


def flows_at(paths: Iterable[Path]) -> list[Path]:
    """The flow files named, and those in the folders named; a folder without one is a mistake."""
    found: list[Path] = []
    for path in paths:
        inside = flows_in(path) if path.is_dir() else [path]
        if not inside:
            looked = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
            hint = f"looked at {looked} in it and below; not at what begins with . or _"
            raise UsageError(f"there is no flow in {path.resolve()}", hint=hint)
        found += inside
    return found


def flows_in(folder: Path) -> list[Path]:
    """The flow files below a folder, those with mistakes too; none hidden."""
    files = [
        file
        for file in sorted(folder.rglob("*"))
        if file.suffix in SUFFIXES
        and file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    ]
    return [file for file in files if not file.name.endswith(CASES) and (cases_of(file).exists() or _is_flow(file))]


def _is_flow(file: Path) -> bool:
    """Whether a file is meant to be a flow. In doubt it is: what is taken for none is never checked."""
    try:
        text = file.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return True
    if file.suffix == ".py":
        return _is_python_flow(text)
    if file.suffix == ".sql":
        return bool(re.search(r"\bcreate\s+(stream|sink)\b", text, re.IGNORECASE))
    if file.suffix == ".json":  # often data, in lines or cut off, so only its names tell
        return _like_a_flow(re.findall(r'"(\w+)"\s*:', text[:LONGEST].replace("\0", "")))
    if re.search(r"^flow\s*:", text, re.MULTILINE):
        return True
    return len(text) <= LONGEST and _is_yaml_flow(text)


def _is_yaml_flow(text: str) -> bool:
    """A mapping with the names of a flow; or nothing that can be read, since in YAML that is most likely a slip."""
    documents = names_in(text)
    return not documents or any(_like_a_flow(names) for names in documents)


def _like_a_flow(names: Iterable[str]) -> bool:
    """Whether these are the names in a flow: its own, or if that is misspelt, two of its sections."""
    return "flow" in names or len(set(names) & set(SECTIONS)) > 1


def _is_python_flow(text: str) -> bool:
    """Whether Python gets hold of what flows are written with."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return "headrace" in text
    makers = {"Flow", "Topology"}
    return any(
        (isinstance(node, ast.ImportFrom) and node.module == "headrace" and makers & {a.name for a in node.names})
        or (isinstance(node, ast.Import) and any(a.name == "headrace" for a in node.names))
        for node in ast.walk(tree)
    )


def cases_of(flow: Path) -> Path:
    """Where the cases of a flow are written: `orders.yaml` has `orders.cases.yaml`."""
    return flow.with_name(flow.stem + CASES)
