"""What was measured, kept in bench/results/<name>.json with the machine and the command that measured it."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import machine

FOLDER = Path(__file__).parent / "results"


def keep(name: str, found: dict[str, Any], *, of: dict[str, Any] | None = None) -> Path:
    """Writes a result; `of` is the machine as it was before, since a benchmark is itself a load."""
    whole = {
        "command": command(name, sys.argv),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": of or machine.describe(),
        **found,
    }
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
    return path


def command(name: str, arguments: Sequence[str]) -> str:
    """What was called, with all that it was told.

    >>> command("w1", ["/a/bench/__main__.py", "w1", "--also", "a b"]), command("w1", ["pytest"])
    ("python -m bench w1 --also 'a b'", 'python -m bench w1')
    """
    whole = arguments[1:] if Path(arguments[0]).parts[-2:] == ("bench", "__main__.py") else [name]
    return f"python -m bench {shlex.join(whole)}"


def kept(name: str) -> dict[str, Any] | None:
    """A result written before; None if there is none."""
    try:
        return dict(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def unfinished(name: str, told: dict[str, Any]) -> dict[str, Any]:
    """What a run with the same arguments had measured when it was cut short; nothing if it ended."""
    found = kept(name)
    if found is None or found.get("whole", True) or any(found.get(k) != v for k, v in told.items()):
        return {}
    print(f"going on with the run of {found['at']}; --again begins anew", file=sys.stderr)
    return dict(found["runs"])


def parser(name: str, told: str | None) -> argparse.ArgumentParser:
    """The arguments of a benchmark, to which it adds its own."""
    made = argparse.ArgumentParser(prog=f"python -m bench {name}", description=told)
    made.add_argument("--again", action="store_true", help="measure anew what an unfinished run has measured")
    made.add_argument("--name", default=name, help="under which the result is kept")
    return made


class Runs:
    """What a benchmark of many runs has measured so far, kept after each, so that it can be cut short and go on."""

    def __init__(self, asked: argparse.Namespace, told: dict[str, Any]) -> None:
        self.name, self.told, self.before = asked.name, told, machine.describe()
        self.found: dict[str, Any] = {} if asked.again else unfinished(asked.name, told)

    def keep(self, *, whole: bool = False, **more: Any) -> dict[str, Any]:
        """Writes it, with what is made of it; `whole` says that nothing is left to be measured."""
        keep(self.name, {**self.told, "whole": whole, **more, "runs": self.found}, of=self.before)
        return kept(self.name) or {}
