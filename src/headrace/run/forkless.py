"""Local files as Spark sees them, without the processes that Hadoop starts for each of them.

Hadoop without its native library, which PySpark does not bring, runs `chmod` for every file and folder it makes and
`readlink` for every one it renames: dozens for each small batch. Our own classes ask Java instead.
"""

from __future__ import annotations

SETTINGS = {
    "spark.hadoop.fs.file.impl": "headrace.ForklessLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "headrace.ForklessLocalFs",
}
