"""An archive of the classes Spark is made of, so that Java need not read, check and link them at each start.

Java's own class data sharing: one small job is run once per Java and PySpark, and what it loaded is kept in a file
in the cache. A start with it takes about half the processor time. Without it everything works, only slower.

    python -m headrace.run.classes      makes it now
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.formats.json import JsonFormat, JsonOptions
from headrace.log.folders import cache_home, locked
from headrace.log.jars import ensure as ensure_jars
from headrace.log.java import Java, find_java
from headrace.model import Schema
from headrace.run.jar import JAR
from headrace.run.process import identify, watch_input

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tell = Callable[[str], None]
TRAINING_SECONDS = 300.0
NOTE = ".pyspark"
"""How the name of a note beside an archive ends: of which PySpark and which Java it is."""


def options(java: Java, jars: Sequence[Path]) -> str:
    """Java's options to use the archive; none if there is none."""
    archive = _archive(java, jars)
    return _using(archive) if archive.is_file() else ""


def ready(java_home: str | None, tell: Tell) -> None:
    """Fetches and makes, with progress, what every start of Spark on this machine needs, if it is not there yet."""
    java = find_java(java_home)
    ensure(java, ensure_jars("spark", tell, java), tell)


def ensure(java: Java, jars: Sequence[Path], tell: Tell | None = None) -> None:
    """Makes the archive if it is not there yet. One that cannot be made is told, and nothing else."""
    tell = tell or (lambda _: None)
    archive = _archive(java, jars)
    if archive.is_file():
        return
    with locked(archive.parent / "lock"):
        if archive.is_file():  # another process may have made it while we waited
            return
        note = f"{_pyspark()}\n{java.home}"
        _forget_others(archive.parent, note)
        tell("preparing Java for quick starts, once: a small job is run to see what Spark needs")
        draft = archive.with_suffix(f".{os.getpid()}")
        try:
            said = _train(java, draft)
            if draft.is_file():
                archive.with_suffix(NOTE).write_text(note, encoding="utf-8")
                draft.replace(archive)
            else:
                tell(f"this Java could not be prepared; everything works, a start takes some seconds longer: {said}")
        finally:
            draft.unlink(missing_ok=True)  # half of one, if we are interrupted


def _archive(java: Java, jars: Sequence[Path]) -> Path:
    """Where the archive of exactly this Java and these jars is kept; Java refuses it for any other."""
    ours = f"{JAR} {JAR.stat().st_mtime_ns}"  # the other jars have their version in their name
    named = "\n".join([str(java.home), str(java.version), str(_pyspark()), *map(str, jars), ours])
    return cache_home() / "classes" / f"{sha256(named.encode()).hexdigest()[:16]}.jsa"


def _pyspark() -> Path:
    spec = find_spec("pyspark")
    return Path(next(iter(spec.submodule_search_locations or ()), "")) if spec else Path()


def _using(archive: Path) -> str:
    return f"-XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"


def _forget_others(folder: Path, now: str) -> None:
    """Removes the archives, each of 200 MB, of environments that are no more, and older ones for the same `now`."""
    for note in folder.glob(f"*{NOTE}"):
        whose = note.read_text(encoding="utf-8")
        if whose == now or not Path(whose.partition("\n")[0]).is_dir():
            note.with_suffix(".jsa").unlink(missing_ok=True)
            note.unlink(missing_ok=True)


def _train(java: Java, draft: Path) -> str:
    """Runs the small job in a process of its own, whose Java writes the archive when it ends; its last words."""
    with tempfile.TemporaryDirectory(prefix="headrace-classes-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "headrace.run.classes", "--train", str(draft), folder]
        said = Path(folder) / "said"
        with said.open("wb") as out:
            child = subprocess.Popen(
                command,
                env={**os.environ, "JAVA_HOME": str(java.home)},
                stdin=subprocess.PIPE,  # it ends, with its Java, when this closes
                stdout=subprocess.DEVNULL,
                stderr=out,
                start_new_session=True,
            )
        trainer = identify(child.pid)
        try:
            child.wait(TRAINING_SECONDS)
        except subprocess.TimeoutExpired:
            return f"it took over {TRAINING_SECONDS:.0f} seconds"
        finally:
            trainer.end_group()
            child.wait()
        lines = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    about = [line for line in lines if "[cds" in line or "SharedArchive" in line or "ArchiveClasses" in line]
    return (about or lines or ["no reason was given"])[-1][-500:]


def _run_small_job(draft: Path, folder: Path) -> None:
    """A session as a driver has it, and one stream with what flows use most."""
    from pyspark import SparkContext

    from headrace.run import session as sessions

    java = find_java(os.environ["JAVA_HOME"])
    jars = ensure_jars("spark", java=java)
    log4j, scratch = folder / "log4j2.properties", folder / "scratch"
    master = "local[2]"
    os.environ.update(sessions.environment(java.home, master, [Path(p) for p in sys.path if p]))
    wanted = sessions.settings(
        master=master,
        jars=jars,
        scratch=scratch,
        log4j=log4j,
        flow={"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={draft} -XX:TieredStopAtLevel=1"},
    )
    session = sessions.start("classes", wanted, log4j=log4j, scratch=scratch)
    small_stream(session, folder)
    _touch_kafka(session, jars)
    session.stop()
    process: Any = SparkContext._gateway.proc  # type: ignore[union-attr]
    process.stdin.close()  # Java ends, and writes the archive, when this closes
    process.wait()


def small_stream(session: SparkSession, folder: Path) -> None:
    """One stream with what flows use most, over a file of its own; leaves what it made in the folder."""
    from pyspark.sql import functions as F

    form, columns = JsonFormat(JsonOptions()), Schema.parse("a INT, t TIMESTAMP")
    given = folder / "given"
    given.mkdir()
    (given / "a.txt").write_text('{"a": 1, "t": "2024-01-01T00:00:00Z"}\n' * 100, encoding="ascii")
    record, reason = form.decode(F.col("value").cast("binary"), columns)
    counted = (
        session.readStream.text(given.as_uri())
        .select(record.alias("r"), reason.alias("reason"))
        .where("reason IS NULL")
        .select("r.*")
        .observe("seen", F.count(F.lit(1)).alias("rows"))
        .where("a > 0")
        .mapInArrow(lambda batches: batches, "a INT, t TIMESTAMP")
        .withWatermark("t", "1 second")
        .groupBy(F.window("t", "10 seconds"), "a")
        .agg(F.count(F.lit(1)).alias("n"), F.sum("a").alias("s"))
    )

    def write(batch: Any, number: int) -> None:
        batch = batch.persist()
        written = batch.select(form.encode(Schema.parse("a INT, n BIGINT")).alias("value"))
        written.write.parquet(str(folder / f"out-{number}"))
        batch.collect()
        batch.toArrow()
        batch.unpersist()

    stream = counted.writeStream.outputMode("update").option("checkpointLocation", str(folder / "checkpoint"))
    stream.trigger(availableNow=True).foreachBatch(write).start().awaitTermination()


def _touch_kafka(session: SparkSession, jars: Sequence[Path]) -> None:
    """Loads the Kafka connector, ours, and the clients, which the small job, having no Kafka, does not need."""
    jvm: Any = session._jvm
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    for name in (name for jar in (*jars, JAR) for name in _classes_in(jar)):
        with suppress(Exception):  # one that needs an optional library which is not here
            jvm.java.lang.Class.forName(name, False, loader)
    told = jvm.java.util.HashMap()
    told.putAll({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "none", "max.block.ms": "200"})
    kind = "org.apache.kafka.common.serialization.ByteArray"
    told.putAll({"key.serializer": f"{kind}Serializer", "value.serializer": f"{kind}Serializer"})
    told.putAll({"key.deserializer": f"{kind}Deserializer", "value.deserializer": f"{kind}Deserializer"})
    producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(told)
    with suppress(Exception):  # nobody answers
        producer.initTransactions()
    producer.close(jvm.java.time.Duration.ofMillis(100))
    client = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(told)
    client.assign(jvm.java.util.Collections.singletonList(jvm.org.apache.kafka.common.TopicPartition("none", 0)))
    client.poll(jvm.java.time.Duration.ofMillis(100))
    client.close(jvm.java.time.Duration.ofMillis(100))


def _classes_in(jar: Path) -> list[str]:
    with zipfile.ZipFile(jar) as file:
        return [name.removesuffix(".class").replace("/", ".") for name in file.namelist() if name.endswith(".class")]


def main(arguments: list[str]) -> None:
    """Makes the archive for the Java that is found here, with progress on stderr."""
    if arguments[:1] == ["--train"]:
        watch_input(lambda: os.killpg(0, signal.SIGKILL))
        _run_small_job(Path(arguments[1]), Path(arguments[2]))
        return
    ready(None, lambda text: print(text, file=sys.stderr, flush=True))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
