"""Writes requirements.lock from pyproject.toml: every pin with its hashes, and no address of any registry.

uv works on a copy of the project file in a folder of its own, because its own lock file names download addresses.
Run by `make lock`. Pins stay as they are; `make lock UPGRADE="click rich"` renews some, `UPGRADE=all` all of them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
HEADER = (
    "# Made by `make lock` from pyproject.toml; do not edit. All extras and the dev group, Python 3.11 and later.\n"
)
HINT = '  hint: make lock UPGRADE="name …" for the packages whose bounds changed, or UPGRADE=all'


def uv() -> str:
    """The uv of this environment, or else the one on the path."""
    here = shutil.which("uv", path=sysconfig.get_path("scripts"))
    found = here or shutil.which("uv")
    if found is None:
        sys.exit("make lock: there is no uv here\n  hint: make setup")
    return found


def exported(project: str, kept: list[str]) -> str:
    """The lock for a project file, as a requirements file; pins in `kept` stay as they are."""
    constraints = "".join(f"  {pin!r},\n" for pin in kept)
    with tempfile.TemporaryDirectory(prefix="headrace-lock-") as folder:
        copy = f"{project}\n[tool.uv]\nconstraint-dependencies = [\n{constraints}]\n"
        Path(folder, "pyproject.toml").write_text(copy, encoding="utf-8")
        command = [uv(), "--no-config", "--directory", folder]
        if subprocess.run([*command, "lock"], check=False).returncode != 0:
            sys.exit("make lock: the bounds in pyproject.toml and the pins that are kept do not fit\n" + HINT)
        export = ["export", "--quiet", "--frozen", "--no-header", "--no-emit-project", "--no-annotate"]
        everything = ["--all-extras", "--all-groups", "--format", "requirements.txt"]
        done = subprocess.run([*command, *export, *everything], check=True, stdout=subprocess.PIPE, text=True)
    return HEADER + done.stdout


def pinned(lock: str) -> list[str]:
    """The pins of a lock, without hashes.

    >>> pinned("numpy==2.4.6 ; python_full_version < '3.12' \\\\\\n    --hash=sha256:00\\nrich==15.0.0 \\\\\\n")
    ["numpy==2.4.6 ; python_full_version < '3.12'", 'rich==15.0.0']
    """
    return [line.removesuffix("\\").strip() for line in lock.splitlines() if re.match(r"[A-Za-z0-9]", line)]


def main() -> None:
    """Writes the lock and says what changed."""
    before = pinned(LOCK.read_text(encoding="utf-8")) if LOCK.exists() else []
    renewed = set(sys.argv[1:])
    kept = [] if "all" in renewed else [pin for pin in before if pin.partition("==")[0] not in renewed]
    text = exported((ROOT / "pyproject.toml").read_text(encoding="utf-8"), kept)
    if "://" in text:
        sys.exit("make lock: the export names an address, which a committed lock must not")
    LOCK.write_text(text, encoding="utf-8")
    after = pinned(text)
    for pin in sorted(set(after) ^ set(before)):
        print("+" if pin in after else "-", pin)
    print(f"requirements.lock: {len(after)} pins, {len(set(after) - set(before))} new")


if __name__ == "__main__":
    main()
