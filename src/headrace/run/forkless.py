"""Local files as Spark sees them, without the processes that Hadoop starts for each of them.

Hadoop without its native library, which PySpark does not bring, runs `chmod` for every file and folder it makes and
`readlink` for every one it renames: dozens for each small batch. The classes in `java/` ask Java instead; the jar is
built from them by `python -m tools.jar`.
"""

from __future__ import annotations

from pathlib import Path

SOURCES = Path(__file__).with_name("java")
JAR = SOURCES / "forkless.jar"
SETTINGS = {
    "spark.hadoop.fs.file.impl": "headrace.ForklessLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "headrace.ForklessLocalFs",
}
