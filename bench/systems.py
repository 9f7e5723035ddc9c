"""Everything that is measured: ours, PySpark by hand, and the rivals; how each is started on a work."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from bench import environments
from bench.flows import flow
from bench.place import Place

ROOT = Path(__file__).resolve().parent.parent
LIVE = ("keyed", "stateless")
PARTITIONS = 2
"""Of every topic."""
CORES = 2
"""That each system may use, unless it is asked for another number."""
_HEAP = "2g"
"""The largest heap of everything that runs in Java, as ours has it."""
_JAVA = (f"-Xmx{_HEAP}", "-XX:+UseParallelGC")
"""What the rivals that run in Java are told, which is what ours is told."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One work given to one system."""

    work: str
    bootstrap: str
    topic: str
    out: str
    """Round `n` writes to the topic `<out>-<n>`."""
    tag: str
    folder: str
    total: int = 0
    cores: int = CORES
    rounds: int = 1
    goal: str | None = None
    """What our flow asks for; None: what the work does."""
    also: str | None = None
    """More lines of our flow."""

    @property
    def live(self) -> bool:
        return self.work in LIVE


@dataclass(frozen=True, kw_only=True)
class Command:
    """A process to start."""

    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


Commands = Callable[[Job], list[Command]]


@dataclass(frozen=True, kw_only=True)
class System:
    """One that is measured."""

    name: str
    label: str
    guarantee: str
    """What it promises about its results with the settings used here."""
    live_guarantee: str = ""
    """The same in W3, if it is another."""
    ready: Callable[[], object]
    """Makes what it needs; raises UnavailableError."""
    commands: Commands
    live: bool = True
    """Whether it has a form of its own for W3."""
    pauses: bool = False
    """Whether it stands still at each checkpoint in W3, so that it is measured over several of them."""
    warms: bool = True
    """Whether a second round in the same process is quicker: whatever Java compiles while it runs."""
    far: bool = False
    """Whether it is so much slower that three rounds tell as much as five, in hours that others need."""

    def rounds(self, asked: int) -> int:
        """How many cold rounds it has, of those that are asked for."""
        return min(asked, 3) if self.far else asked


def _told(job: Job, **more: Any) -> dict[str, str]:
    """The environment of a job."""
    paths = [str(ROOT), str(ROOT / "src")]
    return {"BENCH_JOB": json.dumps({**asdict(job), **more}), "PYTHONPATH": os.pathsep.join(paths)}


def _ours(job: Job) -> list[Command]:
    """As a user runs it; several rounds in one process only exist in the form without supervisor."""
    if job.rounds > 1:
        return [Command(arguments=[sys.executable, "-m", "bench.ours"], environment=_told(job))]
    file = Path(job.folder) / f"{job.work}.yaml"
    file.write_text(flow(job.work, job.topic, f"{job.out}-0", goal=job.goal, also=job.also), encoding="utf-8")
    (Path(job.folder) / "headrace.toml").touch()
    run = [sys.executable, "-m", "headrace.cli.main", "run", str(file), "--json", "--restarts", "0"]
    run += ["--bootstrap", job.bootstrap, "--master", f"local[{job.cores}]", *([] if job.live else ["--until-done"])]
    return [Command(arguments=run, environment=_told(job))]


def _base_settings(job: Job) -> dict[str, str]:
    from headrace.log.jars import ensure

    return {
        "spark.master": f"local[{job.cores}]",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": _HEAP,
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in ensure("spark")),
        "spark.local.dir": f"{job.folder}/scratch",
        "spark.sql.session.timeZone": "UTC",
    }


def _by_hand(job: Job, settings: Mapping[str, str], **more: Any) -> list[Command]:
    from headrace.log.java import find_java

    whole = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}  # what was read is counted from all batches
    told = _told(job, spark={**_base_settings(job), **settings, **whole}, **more)
    spark = {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return [Command(arguments=[sys.executable, "-m", "bench.by_hand"], environment={**told, **spark})]


def _defaults(job: Job) -> list[Command]:
    """As Spark comes."""
    return _by_hand(job, {}, reading={}, writing={})


def tuned(job: Job, *, real_time: bool = True, best: bool = False) -> list[Command]:
    """By hand with what the planner chooses for our flow; on live work in real-time mode, with its number of slots.

    In its best form there is no limit to a batch either.
    """
    from bench.by_hand import PER_BATCH
    from headrace.check import load
    from headrace.compile.planner import plan
    from headrace.model import Mode

    file = Path(job.folder) / "settings-of.yaml"
    file.write_text(flow(job.work, job.topic, job.out, goal=job.goal, also=job.also), encoding="utf-8")
    mode = Mode.REAL_TIME if job.live and real_time else Mode.MICRO_BATCH
    # As for a cluster: with Spark's own shuffle, since ours is code, not a setting.
    made = plan(load(file), mode=mode, cores=job.cores, local=False, partitions={"events": PARTITIONS})
    settings = {**made.spark, "spark.driver.extraJavaOptions": f"{made.java} -XX:-UsePerfData"}
    if made.slots is not None:
        settings["spark.master"] = f"local[{made.slots}]"
    every = made.checkpoint
    return _by_hand(
        job,
        settings,
        best=best,
        reading={f"kafka.{name}": value for name, value in made.reading.items()} | ({} if every or best else PER_BATCH),
        writing={f"kafka.{name}": value for name, value in made.writing.items()},
        real_time=f"{every.total_seconds():.0f} seconds" if every else "",
    )


def _script(name: str, interpreter: Path, job: Job, times: int = 1, **more: Any) -> list[Command]:
    told = _told(job, **more) | {"PYTHONPATH": str(environments.RIVALS)}
    one = Command(arguments=[str(interpreter), str(environments.RIVALS / f"{name}_job.py")], environment=told)
    return [one] * times


def _flink(job: Job) -> list[Command]:
    from headrace.log.java import find_java

    jars = [str(jar) for jar in environments.jars("flink")]
    [made] = _script("flink", environments.python("flink"), job, jars=jars)
    # Its Python starts a Java that runs everything; what that is told comes from here, or it has Java's own defaults.
    java = {"JAVA_HOME": str(find_java().home), "JVM_ARGS": " ".join(_JAVA)}
    return [replace(made, environment={**made.environment, **java})]


def _bytewax(job: Job) -> list[Command]:
    interpreter = str(environments.python("bytewax"))
    addresses = ";".join(f"127.0.0.1:{port}" for port in _free_ports(job.cores))
    several = [["-i", str(number), "-a", addresses] for number in range(job.cores)] if job.cores > 1 else [[]]
    told = _told(job) | {"PYTHONPATH": str(environments.RIVALS)}
    run = [interpreter, "-m", "bytewax.run", "bytewax_job:flow"]
    return [Command(arguments=[*run, *more], environment=told) for more in several]


def _free_ports(count: int) -> list[int]:
    import socket
    from contextlib import ExitStack

    with ExitStack() as held:
        taken = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in taken]


def _kafka_streams(job: Job) -> list[Command]:
    from headrace.log.java import find_java

    jars = environments.jars("kafka-streams")
    classes = environments.compiled(environments.RIVALS / "KafkaStreamsJob.java", jars)
    path = os.pathsep.join(map(str, [classes, *jars]))
    java = [str(find_java().executable), *_JAVA, "-cp", path]
    return [Command(arguments=[*java, "KafkaStreamsJob"], environment=_told(job))]


def _compile_kafka_streams() -> None:
    environments.compiled(environments.RIVALS / "KafkaStreamsJob.java", environments.jars("kafka-streams"))


def _nothing() -> None:
    """Our own environment has it."""


SYSTEMS = (
    System(
        name="headrace",
        label="Headrace",
        guarantee="exactly once",
        live_guarantee="at least once",
        pauses=True,
        ready=_nothing,
        commands=_ours,
    ),
    System(
        name="pyspark-tuned",
        label="PySpark by hand, our settings",
        guarantee="at least once",
        pauses=True,
        ready=_nothing,
        commands=tuned,
    ),
    System(
        name="pyspark-best",
        label="PySpark by hand, its best form",
        guarantee="at least once",
        ready=_nothing,
        commands=lambda job: tuned(job, best=True),
        live=False,
    ),
    System(
        name="pyspark",
        label="PySpark by hand, defaults",
        guarantee="at least once",
        ready=_nothing,
        commands=_defaults,
        far=True,
    ),
    System(
        name="flink",
        label="Flink SQL 2.3.0",
        guarantee="at least once",
        ready=lambda: (environments.python("flink"), environments.jars("flink")),
        commands=_flink,
    ),
    System(
        name="kafka-streams",
        label="Kafka Streams 4.3.1",
        guarantee="at least once",
        ready=_compile_kafka_streams,
        commands=_kafka_streams,
    ),
    System(
        name="bytewax",
        label="Bytewax 0.21.1",
        guarantee="none: no recovery is set up",
        ready=lambda: environments.python("bytewax"),
        commands=_bytewax,
        warms=False,
    ),
    System(
        name="quix",
        label="Quix Streams 3.28.1",
        guarantee="at least once",
        ready=lambda: environments.python("quix"),
        commands=lambda job: _script("quix", environments.python("quix"), job, times=job.cores),
        warms=False,
        far=True,
    ),
    System(
        name="pathway",
        label="Pathway 0.33.0",
        guarantee="none: no persistence is set up",
        ready=lambda: environments.python("pathway"),
        commands=lambda job: _script("pathway", environments.python("pathway"), job),
        warms=False,
        far=True,
    ),
)


def order(systems: Sequence[System], number: int) -> list[System]:
    """Who comes when in a round: over the rounds each at every place, and not always after the same one.

    There and back from a place that moves on by one each round (Williams): 0, 1, -1, 2, -2, …
    """
    steps = [(k + 1) // 2 if k % 2 else -(k // 2) for k in range(len(systems))]
    return [systems[(number + step) % len(systems)] for step in steps]


_NUMBERS = count(1)


def flow_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be asked of our flow."""
    parser.add_argument("--goal", help="the goal of our flow, instead of that of the work")
    parser.add_argument("--also", metavar="YAML", help="more lines for the top of our flow")


def job_for(place: Place, name: str, work: str, **given: Any) -> Job:
    """A job with a folder, output topics and a tag of its own: offsets of a group outlive the topics of its run."""
    tag = f"{name}-{work}-{next(_NUMBERS)}"
    job = Job(
        work=work,
        bootstrap=place.bootstrap,
        out=f"out-{tag}",
        tag=tag,
        folder=str(place.fresh(tag)),
        **given,
    )
    for number in range(job.rounds):
        place.topic(f"{job.out}-{number}")
    return job
