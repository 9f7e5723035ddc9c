"""Fetches the jars that Spark's Kafka connector and the broker are made of, once for all projects.

The Ivy inside the PySpark wheel resolves `ivy.xml`; what it brings must match `checksums.sha256`. Jars appear
in the cache all at once or not at all, also when several processes ask at the same time.

    python -m headrace.log.jars         fetches everything now
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from headrace.errors import EndpointError, InternalError
from headrace.log.folders import cache_home, locked
from headrace.log.java import Java, find_java

Conf = Literal["spark", "broker"]
Progress = Callable[[str], None]

_HERE = Path(__file__).parent
_MARK = ".verified"


def ensure(conf: Conf, progress: Progress | None = None, java: Java | None = None) -> list[Path]:
    """The jars of a configuration, fetched and verified if they are not here yet."""
    wanted = checksums(conf)
    folder = jar_folder(conf)
    if not _whole(folder, wanted):
        with locked(folder.parent / f"{conf}.lock"):
            if not _whole(folder, wanted):  # another process may have fetched them while we waited
                _fetch(conf, wanted, folder, java or find_java(), progress or (lambda _: None))
    return [folder / name for name in wanted]


def jar_folder(conf: Conf) -> Path:
    """Where the jars of a configuration are kept; another lock has another folder."""
    lock = sha256((_HERE / "ivy.xml").read_bytes() + (_HERE / "checksums.sha256").read_bytes()).hexdigest()
    return cache_home() / "jars" / lock[:16] / conf


def checksums(conf: Conf) -> dict[str, str]:
    """The SHA-256 of each jar of a configuration by file name, in the form `sha256sum -c` reads."""
    lines = (_HERE / "checksums.sha256").read_text(encoding="ascii").splitlines()
    parts = (line.split() for line in lines)
    return {path.removeprefix(f"{conf}/"): digest for digest, path in parts if path.startswith(f"{conf}/")}


def verify(folder: Path, wanted: Mapping[str, str]) -> None:
    """Compares every jar with its checksum; one that differs is an error that names it."""
    for name, digest in wanted.items():
        path = folder / name
        if not path.is_file():
            raise EndpointError(f'the jar "{name}" was not delivered', hint="try again; if it stays so, report it")
        with path.open("rb") as handle:
            found = file_digest(handle, "sha256").hexdigest()
        if found != digest:
            raise EndpointError(
                f'the jar "{name}" is not the one that was locked',
                detail=f"expected SHA-256 {digest}, found {found}",
                hint=f'remove "{cache_home() / "ivy"}" and try again; if it stays so, do not trust what delivers it',
            )


def _whole(folder: Path, wanted: Mapping[str, str]) -> bool:
    """Whether the folder was verified before and no jar has changed size since."""
    try:
        stamp = (folder / _MARK).read_text(encoding="ascii")
        return stamp == _stamp(folder, wanted)
    except OSError:
        return False


def _stamp(folder: Path, wanted: Mapping[str, str]) -> str:
    return "".join(f"{(folder / name).stat().st_size} {name}\n" for name in wanted)


def _fetch(conf: Conf, wanted: Mapping[str, str], folder: Path, java: Java, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{conf}-") as scratch:
        fetched = Path(scratch) / conf
        resolve(_HERE / "ivy.xml", conf, len(wanted), fetched, java, progress)
        verify(fetched, wanted)
        for extra in (path for path in fetched.iterdir() if path.name not in wanted):
            raise EndpointError(f'a jar that is not locked was delivered: "{extra.name}"', hint="report it")
        (fetched / _MARK).write_text(_stamp(fetched, wanted), encoding="ascii")
        if folder.exists():  # damaged, or we would not be here
            shutil.rmtree(folder)
        fetched.rename(folder)
    progress(f"jars {len(wanted)}/{len(wanted)} ({conf}), verified")


def resolve(lock: Path, conf: str, total: int, into: Path, java: Java, progress: Progress) -> None:
    """Runs Ivy on a file of its own kind; its words go to a log in the cache, ours to `progress`."""
    ivy_home = cache_home() / "ivy"
    ivy_home.mkdir(parents=True, exist_ok=True)
    settings = os.environ.get("HEADRACE_IVY_SETTINGS") or str(_HERE / "ivysettings.xml")
    command = [
        *(str(java.executable), "-Xshare:auto", "-XX:TieredStopAtLevel=1", *_proxy(os.environ)),
        *("-cp", str(_ivy_jar()), "org.apache.ivy.Main", "-settings", settings, "-cache", str(ivy_home)),
        *("-ivy", str(lock), "-confs", conf, "-types", "jar", "bundle"),
        *("-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    log = cache_home() / f"ivy-{conf}.log"
    lines: list[str] = []
    progress(f"jars 0/{total} ({conf}), looking them up")
    with (
        locked(cache_home() / "ivy.lock"),  # Ivy's cache is not made for two writers
        log.open("w", encoding="utf-8") as log_file,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as ivy,
    ):
        assert ivy.stdout is not None
        try:
            found = done = 0
            for line in ivy.stdout:
                log_file.write(line)
                lines.append(line.strip())
                if re.match(r"\s*found ", line):
                    found += 1
                    progress(f"jars 0/{total} ({conf}), {found} found")
                elif "[SUCCESSFUL ]" in line:
                    done += 1
                    progress(f"jars {min(done, total)}/{total} ({conf}) {_artifact(line)}")
        except BaseException:
            ivy.kill()
            raise
    # Ivy's command line may end with 0 although something is missing; the checksums have the last word.
    if ivy.returncode != 0 or any("UNRESOLVED DEPENDENCIES" in line or "FAILED DOWNLOADS" in line for line in lines):
        raise EndpointError(
            f"could not fetch the jars for the {conf}",
            detail=_reason(lines),
            hint=f'check that Maven Central can be reached, then try again; the whole story is in "{log}"',
        )


def _artifact(line: str) -> str:
    """The artifact's name in a line such as `[SUCCESSFUL ] org.yaml#snakeyaml;2.5!snakeyaml.jar(bundle) (105ms)`.

    >>> _artifact("[SUCCESSFUL ] org.yaml#snakeyaml;2.5!snakeyaml.jar(bundle) (105ms)")
    'snakeyaml'
    """
    match = re.search(r"#([^;]+);", line)
    return match[1] if match else ""


def _reason(lines: list[str]) -> str:
    telling = re.compile(r"UnknownHost|Connection|timed out|refused|not found|SSL|Host .* not found|unreachable", re.I)
    kept = [line.strip(": ") for line in lines if telling.search(line)] or [line for line in lines if line]
    return "; ".join(dict.fromkeys(kept[:3]))


def _ivy_jar() -> Path:
    """Ivy, as shipped inside the PySpark wheel; found without importing PySpark."""
    spec = find_spec("pyspark")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        for jar in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return jar
    raise InternalError(
        "PySpark is not installed whole: it has no jars/ivy-*.jar", hint="pip install --force-reinstall pyspark"
    )


def _proxy(environment: Mapping[str, str]) -> list[str]:
    """Java's options for the proxy that the environment names; Java itself does not look there.

    >>> _proxy({"https_proxy": "http://gate:3128"})
    ['-Dhttps.proxyHost=gate', '-Dhttps.proxyPort=3128', '-Dhttp.proxyHost=gate', '-Dhttp.proxyPort=3128']
    """
    text = next((environment[n] for n in ("https_proxy", "HTTPS_PROXY") if environment.get(n)), "")
    parts = urlsplit(text if "//" in text else f"//{text}")
    if not parts.hostname:
        return []
    port = parts.port or 80
    return [f"-D{s}.proxy{k}={v}" for s in ("https", "http") for k, v in (("Host", parts.hostname), ("Port", port))]


def main() -> None:
    """Fetches everything, with progress on stderr."""
    for conf in ("spark", "broker"):
        ensure(conf, lambda text: print(text, file=sys.stderr, flush=True))


if __name__ == "__main__":
    main()
