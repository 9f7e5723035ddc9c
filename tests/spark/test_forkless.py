"""Our local file system does to files what Hadoop's own does, only without starting processes for it."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODES = (0o000, 0o400, 0o644, 0o640, 0o755, 0o777, 0o1777)


def told_by(files: Any, jvm: Any, folder: Path) -> dict[str, object]:
    """What one file system makes of the same requests: modes on the disk, and what it says of links and names."""
    at = jvm.org.apache.hadoop.fs.Path
    allowed = jvm.org.apache.hadoop.fs.permission.FsPermission
    found: dict[str, object] = {}
    for mode in MODES:
        made, file = folder / f"folder-{mode:o}", folder / f"file-{mode:o}"
        assert files.mkdirs(at(str(made)), allowed(mode))
        files.create(at(str(file))).close()
        files.setPermission(at(str(file)), allowed(mode))
        for path in (made, file):
            found[path.name] = (f"{stat.S_IMODE(path.stat().st_mode):o}", files.getFileStatus(at(str(path))).toString())
    (folder / "link").symlink_to(folder / "file-644")
    found["link"] = files.getFileLinkStatus(at(str(folder / "link"))).toString()
    assert files.rename(at(str(folder / "file-644")), at(str(folder / "renamed")))
    found["names"] = sorted(path.name for path in folder.iterdir())
    return {name: str(said).replace(str(folder), "").split(" modification_time")[0] for name, said in found.items()}


def test_files_are_as_hadoops_own_would_have_them(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    said = []
    for kind in (jvm.org.apache.hadoop.fs.LocalFileSystem, jvm.headrace.ForklessLocalFileSystem):
        files = kind()
        files.initialize(jvm.java.net.URI("file:///"), jvm.org.apache.hadoop.conf.Configuration())
        (folder := tmp_path / str(len(said))).mkdir()
        said.append(told_by(files, jvm, folder))
    assert said[0] == said[1]


def test_spark_asks_ours_by_both_of_hadoops_ways(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    told, here = spark._jsc.hadoopConfiguration(), jvm.java.net.URI("file:///")
    by_name = jvm.org.apache.hadoop.fs.FileSystem.get(here, told)
    by_context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(here, told).getDefaultFileSystem()
    assert by_name.getClass().getName() == "headrace.ForklessLocalFileSystem"
    assert by_context.getClass().getName() == "headrace.ForklessLocalFs"
