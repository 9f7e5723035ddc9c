"""The Spark session of a driver: settings that fit streams on one machine, and nothing on the terminal.

How Spark is set to be quick is the planner's to say (`compile/goal.py`); here is only what the place it runs in asks
for. Settings go over each other in this order: ours, the plan's, `headrace.toml`'s, the flow's own.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.compile import goal as goals
from headrace.model import Mode
from headrace.run import forkless, names, workers
from headrace.run.jar import JAR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
BRIEF = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""What Java is told for a few small jobs: no second compiler, yet its room for code, which Spark soon fills."""
_NOT_OURS = frozenset({"node_modules", "site-packages", "venv"})
"""Folders within a project whose modules belong to somebody else."""

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
# Says for every key of a map state that it is not there yet.
logger.maps.name = org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer
logger.maps.level = error
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


def address_towards(master: str) -> str | None:
    """The address of this machine on the way to a standalone master; None if there is none, or no such master.

    Spark would ask for the address of this machine's name, which is often one that only the machine itself knows.

    >>> address_towards("spark://127.0.0.1:7077"), address_towards("yarn")
    ('127.0.0.1', None)
    """
    found = re.match(r"spark://\[?([^,\]]+?)\]?:(\d+)(,|$)", master)
    if found is None:
        return None
    try:
        family, kind, _, _, address = socket.getaddrinfo(found[1], int(found[2]), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as way:
            way.connect(address)  # nothing is sent: it only chooses the way
            return str(way.getsockname()[0])
    except OSError:
        return None


def cores(master: str) -> int:
    """How many tasks can run at once on this machine; on a cluster, as many as this machine has, for want of knowledge.

    >>> cores("local[3]"), cores("local")
    (3, 1)
    """
    asked = re.fullmatch(r"local\[(\d+)(?:,\s*\d+)?\]", master)
    return int(asked[1]) if asked else 1 if master == "local" else max(1, os.cpu_count() or 1)


def with_slots(master: str, slots: int | None) -> str:
    """The master with room for so many tasks at once, where it is this machine; a cluster has the room it has.

    In real-time mode tasks mostly wait, so there may be more of them than cores.

    >>> with_slots("local[*]", 5), with_slots("local[2]", None), with_slots("spark://host:7077", 5)
    ('local[5]', 'local[2]', 'spark://host:7077')
    """
    return f"local[{slots}]" if slots is not None and is_local(master) else master


def settings(
    *,
    master: str,
    jars: Sequence[Path],
    scratch: Path,
    log4j: Path,
    plan: Mapping[str, str] | None = None,
    project: Mapping[str, str] | None = None,
    flow: Mapping[str, str] | None = None,
    host: str | None = None,
    java: str = "",
    mode: Mode = Mode.MICRO_BATCH,
) -> dict[str, str]:
    """Every setting of the session. Pure.

    `host` is where a cluster's workers reach the driver, `java` what Java is told besides.
    """
    ours = {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.executorEnv.TZ": "UTC",
        # Spark would note the Python line of every column, by ten calls to Java for each: those lines are ours.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Of the classes it makes Spark keeps 100; a flow of many queries has more, and would make them anew each batch.
        "spark.sql.codegen.cache.maxEntries": "1000",
        **{name: value for name, (value, _) in goals.base(cores(master)).items()},
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # Not as spark.jars, or not only: those are copied at each start, no archive of classes can hold them, and our
        # own classes, which are on the class path, would not see Kafka's.
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in (*jars, JAR)),
    }
    if is_local(master):
        # Only here: other machines must be able to reach the driver, and have folders of their own.
        ours |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.local.dir": str(scratch),
            workers.MODULE: workers.__name__,
            **forkless.SETTINGS,
        }
    else:
        ours |= {"spark.jars": ",".join(str(jar) for jar in (*jars, JAR))}  # for the executors
        if host is not None:
            ours |= {"spark.driver.host": host, "spark.driver.bindAddress": host}
    merged = {**ours, **(plan or {}), **(project or {}), **(flow or {})}
    chosen = " ".join(choice.value for choice in goals.java(merged, mode) if not choice.by_author)
    java = f"-Dlog4j2.configurationFile=file:{log4j} -Djava.io.tmpdir={scratch} {chosen} -XX:-UsePerfData {java}"
    # These add up: an author who sets one must not lose the log file, nor the classes our own settings name.
    merged["spark.driver.extraJavaOptions"] = " ".join(
        f"{java} {merged.get('spark.driver.extraJavaOptions', '')}".split()
    )
    paths = (ours.get("spark.driver.extraClassPath"), merged.get("spark.driver.extraClassPath"))
    merged["spark.driver.extraClassPath"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))
    return {name: value for name, value in merged.items() if value != ""}


def environment(java_home: Path, master: str, python_path: Sequence[Path]) -> dict[str, str]:
    """What the driver's process must have in its environment before Spark starts."""
    wanted = {
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(str(p) for p in python_path),
        # Spark first runs a small Java program that only prints the command line of the real one.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
        "TZ": "UTC",  # times in Python state cross between Java and Python without their zone
    }
    return {**wanted, "SPARK_LOCAL_IP": LOOPBACK} if is_local(master) else wanted


def python_path(flow_file: Path, root: Path) -> tuple[Path, ...]:
    """Where workers find the author's modules and ours: beside the flow, above it, in the project; the package."""
    package = Path(__file__).resolve().parents[2]
    beside = flow_file.resolve().parent
    return tuple(dict.fromkeys((beside, beside.parent, root.resolve(), package)))


def start(
    name: str, wanted: Mapping[str, str], *, log4j: Path, scratch: Path, ship: Sequence[Path] = ()
) -> SparkSession:
    """Starts Spark with exactly these settings; one session per process. A cluster is sent the modules to `ship`."""
    from pyspark.sql import SparkSession

    if scratch.exists():  # what a killed driver left
        shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True, exist_ok=True)
    log4j.write_text(_LOG4J, encoding="ascii")
    names.remember()
    builder = SparkSession.builder.appName(f"headrace {name}")
    for key, value in wanted.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if not is_local(wanted["spark.master"]):
        for number, folder in enumerate(ship):
            session.sparkContext.addPyFile(str(_zipped(folder, scratch / f"modules-{number}.zip")))
    return session


def shipped(paths: Sequence[Path], root: Path) -> tuple[Path, ...]:
    """The folders whose modules go to the executors of a cluster: the project's, and our own package."""
    project = root.resolve()
    return tuple(path for path in paths if path.is_relative_to(project) or (path / "headrace").is_dir())


def _zipped(folder: Path, archive: Path) -> Path:
    """The Python modules below a folder as a zip, for executors on machines that do not have them.

    Of a folder with our package in it only that is taken, since it may be a whole environment's.
    """
    roots = [folder / "headrace"] if (folder / "headrace" / "run" / "session.py").is_file() else [folder]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for root in roots:
            for at, folders, names in os.walk(root):
                folders[:] = sorted(f for f in folders if not f.startswith((".", "__pycache__")) and f not in _NOT_OURS)
                for name in sorted(n for n in names if not n.startswith(".")):
                    if root != folder or name.endswith(".py"):  # of our own package, its data too
                        file.write(Path(at, name), Path(at, name).relative_to(folder))
    return archive
