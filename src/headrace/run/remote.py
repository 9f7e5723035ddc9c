"""Checkpoints outside the run's home: on any file system that Hadoop knows, read through the driver's Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from headrace.connectors.folder import Folder
from headrace.errors import UsageError


def checkpoint_root(text: str) -> Path:
    """Where checkpoints are: a local path as it is, `file:` too; for any other scheme what stands for a path there.

    >>> checkpoint_root("file:///elsewhere/a%20b")
    PosixPath('/elsewhere/a b')
    """
    if text.startswith("file:"):
        return Path(unquote(urlsplit(text).path))
    if "://" not in text:
        return Path(text)
    return cast("Path", RemotePath(text.rstrip("/")))  # it has all of a path that is used for checkpoints


class RemotePath:
    """A path on a file system that only Hadoop reaches; needs a running Spark session in this process."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self._text}/{name}")

    @property
    def name(self) -> str:
        return self._text.rsplit("/", 1)[-1]

    @property
    def parent(self) -> RemotePath:
        return RemotePath(self._text.rsplit("/", 1)[0])

    def resolve(self) -> RemotePath:
        return self

    def _folder(self) -> Folder:
        from pyspark.sql import SparkSession

        session: Any = SparkSession.getActiveSession() or SparkSession._instantiatedSession
        if session is None:
            raise UsageError(
                f'"{self}" can only be read where Spark runs',
                hint="the run's driver can, and headrace verify, which starts one",
            )
        return Folder(session, self._text)

    def exists(self) -> bool:
        return self._folder().exists(self._text)

    def is_dir(self) -> bool:
        return self._folder().is_folder(self._text)

    def is_file(self) -> bool:
        return self.exists() and not self.is_dir()

    def iterdir(self) -> Iterator[RemotePath]:
        return (self / name for name in self._folder().names(self._text))

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """What lies directly in the folder; no other pattern is asked for."""
        assert pattern == "*", pattern
        return self.iterdir()

    def size(self) -> int:
        return self._folder().size(self._text)

    def read_text(self, encoding: str = "utf-8") -> str:
        if not self.exists():
            raise FileNotFoundError(self._text)
        return self._folder().read(self._text)

    def read_bytes(self) -> bytes:
        return self.read_text().encode()

    def write_whole(self, text: str) -> None:
        self._folder().write(self._text, text)
