"""The Spark session of a driver: settings that fit streams on one machine, and nothing on the terminal.

Settings go over each other in this order: ours, the plan's, `headrace.toml`'s, the flow's own.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"

_LOG4J = """\
# Written by headrace at every start; what goes to standard error is the driver's log.
rootLogger.level = warn
rootLogger.appenderRef.log.ref = log
appender.log.type = Console
appender.log.name = log
appender.log.target = SYSTEM_ERR
appender.log.layout.type = PatternLayout
appender.log.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSS} %p %c{1}: %m%n%ex
# Says at each start that there is no native library, or that a setting we want is new: nothing to be done about it.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.adaptive.name = org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream
logger.adaptive.level = error
"""


def choose_master(asked: str | None, configured: str | None) -> str:
    """Where Spark runs: the flag's, else the environment's or the project's, else this machine."""
    return asked or configured or "local[*]"


def is_local(master: str) -> bool:
    """Whether executors live in the driver's own process.

    >>> is_local("local[2]"), is_local("spark://host:7077")
    (True, False)
    """
    return master == "local" or master.startswith("local[")


def cores(master: str) -> int:
    """How many tasks can run at once on this machine; on a cluster, as many as this machine has, for want of knowledge.

    >>> cores("local[3]"), cores("local")
    (3, 1)
    """
    asked = re.fullmatch(r"local\[(\d+)(?:,\s*\d+)?\]", master)
    return int(asked[1]) if asked else 1 if master == "local" else max(1, os.cpu_count() or 1)


def settings(
    *,
    master: str,
    jars: Sequence[Path],
    scratch: Path,
    log4j: Path,
    python_path: Sequence[Path],
    plan: Mapping[str, str] | None = None,
    project: Mapping[str, str] | None = None,
    flow: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Every setting of the session. Pure."""
    java = f"-Dlog4j2.configurationFile=file:{log4j} -Djava.io.tmpdir={scratch} -XX:+UseParallelGC -XX:-UsePerfData"
    ours = {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores(master)),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "10",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(str(p) for p in python_path),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    if is_local(master):
        # Only here: other machines must be able to reach the driver, and have folders of their own.
        ours |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.local.dir": str(scratch),
        }
    merged = {**ours, **(plan or {}), **(project or {}), **(flow or {})}
    # Java options add up: an author who sets one must not lose the log file.
    merged["spark.driver.extraJavaOptions"] = f"{java} {merged.get('spark.driver.extraJavaOptions', '')}".strip()
    return {name: value for name, value in merged.items() if value != ""}


def environment(java_home: Path, master: str, python_path: Sequence[Path]) -> dict[str, str]:
    """What the driver's process must have in its environment before Spark starts."""
    wanted = {
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(str(p) for p in python_path),
    }
    return {**wanted, "SPARK_LOCAL_IP": LOOPBACK} if is_local(master) else wanted


def python_path(flow_file: Path, root: Path) -> tuple[Path, ...]:
    """Where workers find the author's modules and ours: beside the flow, above it, in the project; the package."""
    package = Path(__file__).resolve().parents[2]
    beside = flow_file.resolve().parent
    return tuple(dict.fromkeys((beside, beside.parent, root.resolve(), package)))


def start(name: str, wanted: Mapping[str, str], *, log4j: Path, scratch: Path) -> SparkSession:
    """Starts Spark with exactly these settings; one session per process."""
    from pyspark.sql import SparkSession

    if scratch.exists():  # what a killed driver left
        shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True, exist_ok=True)
    log4j.write_text(_LOG4J, encoding="ascii")
    builder = SparkSession.builder.appName(f"headrace {name}")
    for key, value in wanted.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if not is_local(wanted["spark.master"]):
        session.sparkContext.addPyFile(str(_package(scratch)))
    return session


def _package(scratch: Path) -> Path:
    """Our package as a zip, for executors on machines that do not have it."""
    root = Path(__file__).resolve().parents[1]
    archive = scratch / "headrace.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                file.write(path, Path("headrace") / path.relative_to(root))
    return archive
