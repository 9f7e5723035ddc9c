"""Files by way of Hadoop's FileSystem: a local disk, HDFS and object stores alike. Needs a session, hence a driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Folder:
    """The few file operations we need, on any file system Hadoop knows."""

    def __init__(self, session: Any, path: str) -> None:
        self._jvm = session._jvm
        root = self._path(path)
        system = root.getFileSystem(session._jsc.hadoopConfiguration())
        # The local one writes a checksum file beside each file; the one under it does not.
        summed = self._jvm.java.lang.Class.forName("org.apache.hadoop.fs.ChecksumFileSystem").isInstance(system)
        self._system = system.getRawFileSystem() if summed else system

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def exists(self, path: str) -> bool:
        return bool(self._system.exists(self._path(path)))

    def is_folder(self, path: str) -> bool:
        return self.exists(path) and bool(self._system.getFileStatus(self._path(path)).isDirectory())

    def size(self, path: str) -> int:
        return int(self._system.getFileStatus(self._path(path)).getLen())

    def status(self, path: str) -> tuple[int, int]:
        """The length of a file, and when it was changed last, in milliseconds."""
        found = self._system.getFileStatus(self._path(path))
        return int(found.getLen()), int(found.getModificationTime())

    def address(self, path: str) -> str:
        """A path as a URI."""
        return str(self._path(path).toUri().toString())

    def fetch(self, path: str, folder: Path) -> Path:
        """Copies a file to a folder of this machine's; where it is then."""
        there = folder / str(self._path(path).getName())
        number = 1
        while there.exists():
            number += 1
            there = folder / f"{number}-{self._path(path).getName()}"
        self._system.copyToLocalFile(False, self._path(path), self._path(str(there)), True)
        return there

    def names(self, path: str) -> list[str]:
        """The names in a folder; none if it is not there."""
        if not self.exists(path):
            return []
        return [status.getPath().getName() for status in self._system.listStatus(self._path(path))]

    def files(self, path: str) -> list[str]:
        """Every file below a folder, by its path within it."""
        root = self._system.makeQualified(self._path(path)).toUri()
        found, files = self._system.listFiles(self._path(path), True), []
        while found.hasNext():
            files.append(root.relativize(found.next().getPath().toUri()).getPath())
        return files

    def read(self, path: str) -> str:
        stream = self._system.open(self._path(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode()
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Writes a file that is there as a whole or not at all."""
        fresh = f"{path}.new"
        stream = self._system.create(self._path(fresh), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.move(fresh, path)

    def move(self, source: str, target: str) -> None:
        self._system.mkdirs(self._path(target).getParent())
        self._system.delete(self._path(target), False)
        if not self._system.rename(self._path(source), self._path(target)):
            raise OSError(f'could not rename "{source}" to "{target}"')

    def delete(self, path: str) -> None:
        self._system.delete(self._path(path), True)
