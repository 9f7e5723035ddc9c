"""Which files are flows, and which are their cases."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.declare.load import SUFFIXES

CASES = ".cases.yaml"


def flows_in(folder: Path) -> list[Path]:
    """The flow files below a folder: YAML or JSON that begins a flow, SQL or Python that makes one; none hidden."""
    files = [
        file
        for file in sorted(folder.rglob("*"))
        if file.suffix in SUFFIXES
        and file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    ]
    return [file for file in files if not file.name.endswith(CASES) and _is_flow(file)]


def _is_flow(file: Path) -> bool:
    text = file.read_text(encoding="utf-8", errors="replace")
    if file.suffix == ".py":
        return bool(re.search(r"^from headrace import .*\b(?:Flow|Topology)\b|^import headrace\b", text, re.MULTILINE))
    if file.suffix == ".sql":
        return bool(re.search(r"^\s*create\s+(stream|sink)\b", text, re.MULTILINE | re.IGNORECASE))
    if file.suffix == ".json":
        return bool(re.match(r'\s*\{\s*"flow"\s*:', text))
    return bool(re.search(r"^flow:", text, re.MULTILINE))


def cases_of(flow: Path) -> Path:
    """Where the cases of a flow are written: `orders.yaml` has `orders.cases.yaml`."""
    return flow.with_name(flow.stem + CASES)
