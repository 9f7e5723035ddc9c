"""From a goal to settings: which mode, and how Spark, Kafka's clients and Java are set for it, each with its reason.

Pure: a flow in, choices out. What is not said here is left to Spark; what an author sets himself goes over it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from headrace.check.real_time import SHORTEST, in_the_way
from headrace.check.wires import Wires
from headrace.compile.plan import Choice, Query
from headrace.errors import FlowError, Problem
from headrace.goal import called, goal_of
from headrace.model import Flow, Mode
from headrace.options import show_duration

CHECKPOINT = timedelta(minutes=1)
"""Between two checkpoints in real-time mode: at a pause of 0.6 s the 99th percentile does not see it."""
_PAUSE, _PAUSE_PER_TASK = (0.1, 0.5), (0.1, 0.1)
"""Seconds, least and most, that a query stands still at a checkpoint, and those each of its tasks with state adds:
`make bench-pauses` had at most 0.52 s without state and 0.54 s with one such task on two cores, 0.25 and 0.29 s on two
quicker ones."""
_SEEN = 0.01
"""The part of records above which the 99th percentile sees what happens to them."""
_FEW, _MANY = 1_000_000, 5_000_000
"""Records of a source in one batch, and those of all sources where throughput is the goal. A batch is planned, noted
and committed once, so more records share that; its rows pass through, and what sinks share of them may lie on disk."""
_ENOUGH = 16_384
"""Bytes that end a read's wait in real-time mode. Keyed at 10,000 events/s on two cores the 99th percentile was 740 ms
with Kafka's own single byte, and 36 to 40 ms with reads that wait for a millisecond (design 015)."""
_SPARE = 1
"""Slots besides those of the streams, for the jobs that read late records and dead letters again."""
_STORE = "spark.sql.streaming.stateStore"
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
_COLLECTOR = "-XX:+UseParallelGC"
_CLASSES = "-XX:MetaspaceSize=256m"
"""Room for classes. Java begins with 21 MB and collects all garbage whenever it has to make more of it: in real-time
mode twice at the beginning of a run, 0.2 to 0.4 s each (`-Xlog:gc`)."""
_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000 -XX:Tier3DelayOn=0"
)
"""Ten times Java's own thresholds for its second compiler, and no counting by the first while that one is busy. With
Java's own, the second compiler used more of a cold W1 than the tasks did, most of it for code that Spark runs a few
times: `make bench-start` and the cold rate of `make bench-w1` show what it gives. Not in real-time mode: what runs for
long and little at a time is then compiled for minutes, each time in the way of records. Keyed at 1,000 events/s in the
first minute the 99th percentile is 2.4 ms with Java's own thresholds and 3.8 ms with these (design 005)."""
_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")

Settings = dict[str, tuple[str, str]]
"""Value and reason by name."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a flow is driven, and why."""

    mode: Mode
    why: str
    by_author: bool = False
    obstacles: tuple[Problem, ...] = ()
    """What keeps it from real-time mode."""


def way(flow: Flow, found: Wires, asked: Mode | None, *, until_done: bool = False) -> Way:
    """The mode of a flow; raises FlowError if it cannot be what was asked for."""
    goal, said = goal_of(flow), called(flow)
    obstacles = in_the_way(flow, found)
    real = Way(mode=Mode.REAL_TIME, why=f"{said}: {goal}; no micro-batch answers within {show_duration(SHORTEST)}")
    micro = Way(mode=Mode.MICRO_BATCH, why="the default: every operator and sink runs in it", obstacles=obstacles)
    if asked is not None and asked is not Mode.REAL_TIME:
        return Way(mode=asked, why="asked for", by_author=True, obstacles=obstacles)
    wants = asked is Mode.REAL_TIME or (goal is not None and goal.latency is not None and goal.latency < SHORTEST)
    if wants and obstacles:
        raise FlowError(*obstacles)
    if until_done and (wants or (goal is not None and goal.best == "latency")):
        why = "--until-done: in real-time mode there is no end; the answers are the same"
        return Way(mode=Mode.MICRO_BATCH, why=why, obstacles=obstacles)
    if asked is not None:
        return Way(mode=asked, why="asked for", by_author=True)
    if wants:
        return real
    if goal is None:
        return micro
    if goal.best == "latency":
        first = obstacles[0].message if obstacles else ""
        return Way(mode=Mode.MICRO_BATCH, why=first, obstacles=obstacles) if obstacles else real
    keeps = "batches are read and written in one piece" if goal.latency is None else "micro-batches keep it"
    return Way(mode=Mode.MICRO_BATCH, why=f"{said}: {goal}; {keeps}", obstacles=obstacles)


def base(cores: int) -> Settings:
    """How every session is set, whatever it runs."""
    return {
        "spark.sql.shuffle.partitions": (
            str(cores),
            f"one per core ({cores}); 200, Spark's default, costs 4 times the throughput",
        ),
        "spark.sql.adaptive.enabled": ("false", "a streaming plan is the same each batch; re-planning it costs time"),
        "spark.sql.session.timeZone": ("UTC", "the same answer on every machine"),
        "spark.sql.execution.arrow.pyspark.enabled": ("true", "rows go to Python in columns"),
        "spark.sql.execution.arrow.maxRecordsPerBatch": ("20000", "twice Spark's own: fewer hand-overs to Python"),
        "spark.sql.streaming.numRecentProgressUpdates": ("10", "what a batch reports is kept in the run's home"),
        **in_rocksdb((), asked=False),
    }


def in_memory() -> Settings:
    """State on the heap."""
    why = "state: memory, asked for: all state is held on the heap"
    return {f"{_STORE}.providerClass": (f"{_PROVIDERS}.HDFSBackedStateStoreProvider", why)}


def in_rocksdb(stateful: Sequence[str], *, asked: bool) -> Settings:
    """State on disk, with a cache."""
    why = "state: rocksdb, asked for" if asked else f"state of {', '.join(stateful) or 'a step'} may outgrow memory"
    return {
        f"{_STORE}.providerClass": (f"{_PROVIDERS}.RocksDBStateStoreProvider", why),
        f"{_STORE}.rocksdb.changelogCheckpointing.enabled": ("true", "a batch writes what changed, not all of it"),
        f"{_STORE}.rocksdb.boundedMemoryUsage": ("true", "all state of a process shares one cache, not one per part"),
        f"{_STORE}.rocksdb.maxMemoryUsageMB": ("512", "that cache, beside Java's heap; what is more lies on disk"),
    }


def spark(flow: Flow, mode: Mode, stateful: Sequence[str], cores: int, *, local: bool = True) -> Settings:
    """Spark's settings for a flow; `local`: all its tasks live in one process."""
    ours = base(cores)
    timed = [s.name for s in flow.sources if s.time is not None]
    if len(timed) > 1:
        ours["spark.sql.streaming.multipleWatermarkPolicy"] = (
            "min",
            f"the slowest of {', '.join(timed)} leads, so that nothing of it is late; with max the fastest does, "
            "and a source that pauses holds nothing back",
        )
    ours = {name: said for name, said in ours.items() if not name.startswith(_STORE)}
    if stateful:
        ours |= in_memory() if flow.state == "memory" else in_rocksdb(stateful, asked=flow.state is not None)
    if mode is Mode.REAL_TIME:
        few = max(1, cores // 2)
        ours["spark.sql.shuffle.partitions"] = (
            str(few),
            "each is a task that runs all the time, and all of them end and begin anew at a checkpoint",
        )
        ours["spark.sql.streaming.realTimeMode.minBatchDuration"] = (
            "1000",
            "the first checkpoints, which take longest, come every other second, while the run is still catching up",
        )
        if stateful and local:
            ours["spark.shuffle.manager.incremental"] = (
                "headrace.HandOver",
                "all tasks are in one process: a record goes straight to the task of its key, not through a socket",
            )
        elif stateful:
            ours["spark.shuffle.streaming.networkBufferMaxWaitTimeMs"] = (
                "1",
                "how long a record may wait for others on its way to the task of its key; Spark's default is 50",
            )
    return ours


def collector(settings: Mapping[str, str]) -> tuple[str, bool]:
    """How Java is told to collect garbage, and whether an author says so: Java refuses to start with two collectors.

    >>> collector({}), collector({"spark.driver.extraJavaOptions": "-Xss8m -XX:+UseZGC"})
    (('-XX:+UseParallelGC', False), ('-XX:+UseZGC', True))
    """
    said = " ".join(settings.get(name, "") for name in _JAVA_OPTIONS)
    chosen = re.findall(r"-XX:\+Use\w+GC\b", said)
    return (" ".join(dict.fromkeys(chosen)), True) if chosen else (_COLLECTOR, False)


def java(settings: Mapping[str, str], mode: Mode = Mode.MICRO_BATCH) -> tuple[Choice, ...]:
    """What is chosen of Java: how it collects garbage, its room for classes, and when it compiles."""
    value, by_author = collector(settings)
    why = "set by its options" if by_author else "collects garbage with least work; pauses are short on a small heap"
    rare = "what Spark does a few times is not worth its second compiler, which would take half of a cold start"
    compiler = () if mode is Mode.REAL_TIME else (Choice(what="java compiler", value=_COMPILER, why=rare),)
    return (
        Choice(what="java collector", value=value, why=why, by_author=by_author),
        Choice(
            what="java classes", value=_CLASSES, why="all garbage is not collected each time Spark loads more of them"
        ),
        *compiler,
    )


def checkpoint_every(flow: Flow) -> timedelta:
    """How long between two checkpoints in real-time mode."""
    goal = goal_of(flow)
    return goal.checkpoint if goal is not None and goal.checkpoint is not None else CHECKPOINT


def reading(
    flow: Flow, mode: Mode, queries: Sequence[Query], partitions: Mapping[str, int] | None, cores: int
) -> Settings:
    """How Kafka's consumers are set."""
    if mode is Mode.REAL_TIME:
        consumers = sum(partitions.get(source, 1) for query in queries for source in query.sources) if partitions else 1
        return {
            "max.poll.records": ("500", "Kafka's own: records are handed on as they come"),
            **_asking(flow, consumers, cores),
        }
    return {
        "max.poll.records": ("5000", "a fifth faster than Kafka's own 500"),
        "fetch.max.wait.ms": (
            "20",
            "how long a batch waits for more where its topic ends; Kafka's own is 500",
        ),
    }


def _asking(flow: Flow, consumers: int, cores: int) -> Settings:
    """How often Kafka is asked for more in real-time mode."""
    goal = goal_of(flow)
    stated = None if goal is None or goal.latency is None else goal.latency // timedelta(milliseconds=1)
    least, most = (1, 5) if stated is None else (max(1, stated // 10), max(1, stated // 4))
    wait = max(least, math.ceil(consumers / cores))
    if wait > most:
        many = f"{consumers} partitions on {cores} cores: to ask for each every few milliseconds would keep them busy"
        return {"fetch.min.bytes": ("1", f"Kafka's own; {many}")}
    why = "how long Kafka may wait for more before it answers: a busy topic is not asked for every record by itself"
    if wait > least:
        why += f"; a millisecond for each partition that a core reads, here {consumers} on {cores}"
    elif stated is not None:
        why += "; a tenth of the goal"
    return {
        "fetch.max.wait.ms": (str(wait), why),
        "fetch.min.bytes": (str(_ENOUGH), "what ends that wait; with Kafka's own, 1, each record would"),
    }


def per_batch(flow: Flow, mode: Mode) -> tuple[int | None, tuple[Choice, ...]]:
    """Most records in a micro-batch of each Kafka source that leaves it open; and what `explain` says of it."""
    topics = [source for source in flow.sources if source.connector == "kafka" and source.table is None]
    if mode is not Mode.MICRO_BATCH or not topics:
        return None, ()
    goal = goal_of(flow)
    many = goal is not None and goal.best == "throughput"
    most = max(_FEW, _MANY // len(topics)) if many else _FEW
    why = f"goal: {goal}; each batch is planned, noted and committed once" if many else "answers come every few seconds"
    what = "read records per batch"
    ours = Choice(what=what, value=f"{most:,}", why=why)
    authors = tuple(
        Choice(what=f"{what} of {source.name}", value=str(said), why="set in the flow", by_author=True)
        for source in topics
        if (said := source.options.per_batch) is not None
    )
    return most, (*([ours] if len(authors) < len(topics) else []), *authors)


def writing(flow: Flow, mode: Mode) -> Settings:
    """How Kafka's producers are set."""
    if mode is Mode.REAL_TIME:
        return {
            "linger.ms": ("0", "a record is sent at once; each millisecond here is one more for every answer"),
            "compression.type": ("none", "there is nothing to gain in records sent one by one"),
        }
    wait = "twice as fast as Kafka's own settings, with the two below"
    goal = goal_of(flow)
    quick = goal is not None and goal.best != "throughput"
    return {
        "linger.ms": ("5", "goal: a latency; the batch waits for its last record") if quick else ("50", wait),
        "compression.type": ("lz4", "less to send, for little work"),
        "batch.size": ("262144", "records that go to one partition are sent together"),
        "retry.backoff.ms": ("10", "a first transaction waits twice as long as this; Kafka's own is 100"),
    }


def slots(queries: Iterable[Query], partitions: Mapping[str, int], shuffled: int) -> int:
    """How many tasks run at once in real-time mode: all of a stream's stages run all the time."""
    running = 0
    for query in queries:
        running += sum(partitions.get(source, 1) for source in query.sources) + shuffled * len(query.stateful)
    return running + _SPARE


def real_time(
    flow: Flow, queries: Sequence[Query], partitions: Mapping[str, int] | None, shuffled: int
) -> tuple[Choice, ...]:
    """What else is chosen, and is to be expected, in real-time mode."""
    every = checkpoint_every(flow)
    goal = goal_of(flow)
    asked = goal is not None and goal.checkpoint is not None
    stateful = [name for query in queries for name in query.stateful]
    tasks = max((shuffled * len(query.stateful) for query in queries), default=0)
    least, most = (fixed + each * tasks for fixed, each in zip(_PAUSE, _PAUSE_PER_TASK, strict=True))
    pause, share = f"{least:.1f} to {most:.1f} s", most / every.total_seconds()
    enough = show_duration(timedelta(seconds=math.ceil(most / _SEEN)))
    seen = (
        f"so short that up to {share:.0%} of records wait for the pause in it: the 99th percentile shows it; not from "
        f"{enough} on"
        if share > _SEEN
        else f"a pause of {pause} in each is met by at most 1 record in 100"
    )
    said = f"asked for; {seen}" if asked else seen
    more = f"; {tasks} task{'s' if tasks > 1 else ''} with state in a query" if tasks else "; there is no state"
    why = f"the tasks end, state and offsets are made durable, the next batch begins; records wait in Kafka{more}"
    if partitions is None:
        parts = "the partitions of its topics, asked for when it starts"
    else:
        parts = ", ".join(f"{n} of {source}" for source, n in sorted(partitions.items()))
    more = f", {shuffled} for each of {', '.join(stateful)}" if stateful else ""
    number = slots(queries, partitions, shuffled) if partitions is not None else None
    return (
        Choice(what="checkpoint every", value=show_duration(every), why=said, by_author=asked),
        Choice(
            what="pause at a checkpoint",
            value=pause,
            why=why,
        ),
        Choice(
            what="written again after a crash",
            value=f"at most {show_duration(every)} of records",
            why="the run goes on from the last checkpoint",
        ),
        Choice(
            what="slots",
            value="as many as tasks" if number is None else str(number),
            why=f"every stage runs all the time: {parts}{more}, {_SPARE} for late records and dead letters",
        ),
    )


def set_aside(flow: Flow) -> tuple[Choice, ...]:
    """The goals, of the flow and its sinks, that a stricter one overrides."""
    holds, whose = goal_of(flow), called(flow)
    said = [("goal", flow.goal), *((f'goal of sink "{sink.name}"', sink.goal) for sink in flow.sinks)]
    why = f"set aside: all of a run is in one mode, and {whose}, {holds}, is stricter"
    return tuple(Choice(what=name, value=str(goal), why=why) for name, goal in said if goal not in (None, holds))


def slowest(chosen: Way, queries: Sequence[Query], *, local: bool = True) -> tuple[Choice, ...]:
    """What stands in the way of a lower latency."""
    what = "in the way of less latency"
    if chosen.mode is Mode.BATCH:
        return ()
    if chosen.mode is Mode.REAL_TIME:
        shuffles = [name for query in queries for name in query.stateful] if not local else []
        steps = [
            Choice(what=what, value=name, why="records go through a socket to the task of their key: 1 to 2 ms")
            for name in dict.fromkeys(shuffles)
        ]
        return (*steps, Choice(what=what, value="Kafka", why="reading and writing it, acknowledged: about 1 ms"))
    held = [q for q in queries if q.every is not None]
    pauses = [
        Choice(what=what, value=q.name, why=f"answers are held back for {show_duration(q.every)}")
        for q in held
        if q.every
    ]
    if chosen.obstacles:
        return (*pauses, *(Choice(what=what, value=p.step, why=_after(p.message)) for p in chosen.obstacles))
    return (*pauses, Choice(what=what, value="micro-batch", why="nothing else: `goal: latency` runs it in real time"))


def _after(message: str) -> str:
    return message.partition("cannot run in real-time mode: ")[2] or message
