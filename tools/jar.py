"""Builds the jar of our own Java classes, or with `--check` says whether it is still what its sources say.

The jar is kept with the sources, because who runs Headrace needs no compiler. It is the same bytes each time: javac of
Java 17, no dates, nothing compressed. Another javac, or none, cannot tell whether the jar is current, and says so.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark

from headrace.log.jars import ensure
from headrace.run.jar import JAR, SOURCES

RELEASE = "17"
_NO_DATE = (1980, 1, 1, 0, 0, 0)


def compiler() -> str | None:
    """A javac of exactly the release, on the path."""
    javac = shutil.which("javac")
    if javac is None:
        return None
    told = subprocess.run([javac, "-version"], capture_output=True, text=True, check=True).stdout
    return javac if told.removeprefix("javac ").startswith(f"{RELEASE}.") else None


def made(javac: str) -> bytes:
    """The jar as the sources say."""
    sources = [str(path) for path in sorted(SOURCES.rglob("*.java"))]
    libraries = os.pathsep.join([str(Path(pyspark.__file__).parent / "jars" / "*"), *map(str, ensure("spark"))])
    with tempfile.TemporaryDirectory() as folder, io.BytesIO() as held:
        command = [javac, "--release", RELEASE, "-g:none", "-nowarn", "-proc:none", "-cp", libraries, "-d", folder]
        subprocess.run([*command, *sources], check=True)
        with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as jar:
            for path in sorted(Path(folder).rglob("*.class")):
                jar.writestr(zipfile.ZipInfo(str(path.relative_to(folder)), _NO_DATE), path.read_bytes())
        return held.getvalue()


def main() -> None:
    """Writes the jar if it is not current, or only says so and fails."""
    javac = compiler()
    if javac is None:
        sys.exit(None if "--check" in sys.argv[1:] else f"a javac of Java {RELEASE} is needed")
    wanted = made(javac)
    if JAR.is_file() and JAR.read_bytes() == wanted:
        return
    if "--check" in sys.argv[1:]:
        sys.exit(f"{JAR.name} is not what its sources say\n  hint: python -m tools.jar")
    JAR.write_bytes(wanted)
    print(f"{JAR.name}: written")


if __name__ == "__main__":
    main()
