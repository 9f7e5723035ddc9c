"""Environments of the rivals, each apart from ours, made once and kept in the user's cache.

    python -m bench.environments [NAME…]      makes them now

Versions are pinned here and in rivals/ivy.xml; another pin makes another environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.log.folders import cache_home, locked

RIVALS = Path(__file__).parent / "rivals"
PACKAGES = {
    "flink": ("apache-flink==2.3.0",),
    "bytewax": ("bytewax==0.21.1", "confluent-kafka==2.6.1", "orjson==3.11.4"),
    "quix": ("quixstreams==3.28.1", "orjson==3.11.4"),
    "pathway": ("pathway==0.33.0",),
}
JARS = {"flink": 1, "kafka-streams": 10}
"""Those that need jars, and about how many, for the progress."""


class UnavailableError(Exception):
    """An environment that could not be made, and why; the benchmark goes on without it."""


def python(name: str) -> Path:
    """The interpreter of an environment; made if it is not there."""
    wanted = PACKAGES[name]
    folder = _folder(name, wanted)
    interpreter = folder / "bin" / "python"
    with locked(folder.with_suffix(".lock")):
        if not (folder / ".whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _tell(f"making an environment for {name}: {', '.join(wanted)}")
            _call([sys.executable, "-m", "uv", "venv", "--quiet", "--python", sys.executable, str(folder)])
            _call([sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(interpreter), *wanted])
            (folder / ".whole").touch()
    return interpreter


def jars(name: str) -> list[Path]:
    """The jars of a rival; fetched if they are not there."""
    from headrace.log.jars import resolve
    from headrace.log.java import find_java

    ivy = RIVALS / "ivy.xml"
    folder = _folder(f"{name}-jars", [ivy.read_text(encoding="utf-8")])
    with locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                fetched = Path(scratch) / "jars"
                try:
                    resolve(ivy, name, JARS[name], fetched, find_java(), _tell)
                except HeadraceError as error:
                    raise UnavailableError(f"{error}") from error
                fetched.rename(folder)
    return sorted(folder.glob("*.jar"))


def compiled(source: Path, against: Sequence[Path]) -> Path:
    """The folder with the classes of a Java file; compiled if it has changed."""
    from headrace.log.java import find_java

    compiler = find_java().home / "bin" / "javac"
    if not compiler.is_file():
        raise UnavailableError(f'there is no Java compiler at "{compiler}"; a JDK is needed, a JRE is not enough')
    folder = _folder(f"{source.stem}-classes", [source.read_text(encoding="utf-8"), *map(str, against)])
    with locked(folder.with_suffix(".lock")):
        if not (folder / ".whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            classpath = os.pathsep.join(map(str, against))
            _call([str(compiler), "-nowarn", "-cp", classpath, "-d", str(folder), str(source)])
            (folder / ".whole").touch()
    return folder


def _folder(name: str, made_of: Sequence[str]) -> Path:
    digest = sha256("\n".join([sys.version, *made_of]).encode()).hexdigest()[:12]
    home = cache_home() / "bench"
    home.mkdir(parents=True, exist_ok=True)
    return home / f"{name}-{digest}"


def _call(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stdout.splitlines() if line.strip()]
        raise UnavailableError(" ".join(said[-3:])[:500] or f"{command[0]} ended with {done.returncode}")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(names: Sequence[str]) -> None:
    """Makes them; one that cannot be made is told and does not stop the others."""
    from bench.systems import SYSTEMS

    for system in SYSTEMS:
        if not names or system.name in names:
            try:
                system.ready()
                print(f"{system.name}: ready")
            except UnavailableError as error:
                print(f"{system.name}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
