"""The driver, `python -m headrace.run.driver HOME [spare]`: a process with a Spark session that runs a flow's queries.

The supervisor starts it and holds its standard input open; when that closes, the supervisor is gone and the
driver stops as if it had been asked to. It reports by events in the run's home and by its exit code, nothing else.
A spare one starts Spark, runs a small job so that Java is warm, and waits for a line that says that its turn has come.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.compile.plan import Plan, Query
from headrace.connectors.kafka_client import client_settings
from headrace.errors import EndpointError, FlowError, HeadraceError, UsageError
from headrace.model import Flow, Mode, Sink, Source
from headrace.observe import events
from headrace.project import Project, kafka_client
from headrace.run import classes
from headrace.run import session as sessions
from headrace.run.ahead import require_behind
from headrace.run.checkpoint import last_committed, last_planned, resume_point, state_format
from headrace.run.expiring import Expiring
from headrace.run.failure import Failure, NotThereError, explain, tells_of_loss
from headrace.run.flush import holds_windows, plan_flush
from headrace.run.home import SPARE, Home, Record
from headrace.run.idle import Idle
from headrace.run.integrity import require_whole
from headrace.run.journal import Journal
from headrace.run.lag import Groups
from headrace.run.ledger import Ledger
from headrace.run.lost import refuse, unread
from headrace.run.prepare import text_hash
from headrace.run.process import watch_input
from headrace.run.queries import Running, Stopping, Watch, observed, run_batch, start_query
from headrace.run.real_time import Settler, settled
from headrace.run.real_time import start_query as start_real_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_WITHIN = 30.0
"""Seconds a batch may take to end by itself once a stop was asked for; after that it is cut off and replayed later."""


def main(arguments: list[str]) -> int:
    """Runs the driver of a home; the exit code says who must act."""
    home = Home(Path(arguments[0]).resolve())
    stopping, turn = Stopping(), threading.Event()
    if SPARE not in arguments:
        turn.set()
    _listen(stopping, turn)
    kafka: dict[str, str] = {}
    try:
        return _drive(home, stopping, turn, kafka)
    except Exception as error:  # noqa: BLE001, whatever it is must be reported in words
        traceback.print_exc()
        if not turn.is_set():
            return 1  # nobody waits for a spare that cannot start
        placed = _placed(home, error) if isinstance(error, FlowError) else error
        failure = explain(placed, query=getattr(error, "headrace_query", ""), kafka=kafka.get("bootstrap.servers", ""))
        if failure.kind == "internal" and not stopping.running:
            failure = replace(failure, retry=False)  # what fails before the first record fails the same way again
        events.append(home.events, "failed", **_at_origin(home, failure).as_dict())
        return failure.exit_code


def _listen(stopping: Stopping, turn: threading.Event) -> None:
    """Takes a signal, or the end of standard input, for a wish to stop; and a line on it for a spare's turn."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.ask("asked to stop"))
    watch_input(lambda: stopping.ask("the supervisor is gone"), turn.set)


def _drive(home: Home, stopping: Stopping, turn: threading.Event, kafka: dict[str, str]) -> int:
    project, plan, master = _planned(home, kafka)
    spare = not turn.is_set()
    scratch = home.scratch / str(os.getpid())
    if not spare:
        _clear(home.scratch)
    session = _session(home, home.read(), project, plan, master, scratch)
    try:
        if spare:
            if sessions.is_local(master):
                classes.small_stream(session, scratch)
            events.append(home.events, "spare")
            while not turn.is_set():
                if stopping.wait(0.02):
                    return 0
            _clear(home.scratch, but=scratch)
            project, plan, _ = _planned(home, kafka)  # the world may have changed meanwhile
        events.append(home.events, "session")
        return _run(home, home.read(), plan, session, stopping, kafka, project.root)
    finally:
        session.stop()


def _planned(home: Home, kafka: dict[str, str]) -> tuple[Project, Plan, str]:
    """The project, the plan of its flow and the master to run it on; fills in how Kafka is reached."""
    from headrace.compile.planner import plan as make_plan

    record = home.read()
    project = Project.find(Path(record.root))
    flow = load_flow(home, record)
    mode = Mode(record.asked.mode) if record.asked.mode else None
    master = sessions.choose_master(record.asked.master, project.settings.spark.master)
    there: There = {}
    kafka |= kafka_of(project, flow, record, there)
    plan = make_plan(
        flow,
        mode=mode,
        cores=sessions.cores(master),
        local=sessions.is_local(master),
        until_done=record.asked.until_done,
        partitions=partitions_of(flow, kafka, there),
        project=project.settings.spark.settings,
    )
    return project, plan, sessions.with_slots(master, plan.slots)


def _clear(folder: Path, but: Path | None = None) -> None:
    """Removes what killed drivers left."""
    for left in folder.iterdir() if folder.exists() else ():
        if left != but:
            shutil.rmtree(left, ignore_errors=True)


def load_flow(home: Home, record: Record) -> Flow:
    """The flow as it was started: from its file, or from the copy if the file was edited since."""
    from headrace.check import load
    from headrace.declare.parameters import Values

    given = Values(asked=record.parameters, strict=False)
    original = Path(record.file)
    unchanged = original.is_file() and text_hash(original.read_bytes()) == record.hash
    return load(original if unchanged else home.text(original.suffix), shown=str(original), given=given)


def _placed(home: Home, error: FlowError) -> FlowError:
    """The same problems, each at the place of its step, where only the step is known: who finds one knows no files."""
    if all(p.location.file or not p.step for p in error.problems):
        return error
    flow = load_flow(home, home.read())
    found = {part.name: part.places.location for part in flow}
    return FlowError(
        *(p if p.location.file else replace(p, location=found.get(p.step, p.location)) for p in error.problems)
    )


def _at_origin(home: Home, failure: Failure) -> Failure:
    """The failure with the author's own file named instead of our copy of it."""
    try:
        original = home.read().file
    except HeadraceError:
        return failure
    copy = str(home.text(Path(original).suffix))
    return replace(failure, message=failure.message.replace(copy, original), file=failure.file.replace(copy, original))


There = dict[frozenset[tuple[str, str]], Mapping[str, Any]]
"""The topics of each cluster, asked for once in a start."""


def kafka_of(project: Project, flow: Flow, record: Record, there: There | None = None) -> Mapping[str, str]:
    """How to reach Kafka, if the flow needs it, somebody answers there and has the topics.

    Asked here because Spark waits a minute before it says that nobody does, and starts before it looks for a topic.
    """
    ends: tuple[Source | Sink, ...] = (*flow.sources, *flow.sinks)
    parts = [p for p in ends if p.connector == "kafka"]
    own = [getattr(p.options, "bootstrap", None) for p in parts]
    needed = any(address is None for address in own)
    client: Mapping[str, str] = {}
    there = {} if there is None else there
    if needed:
        client = kafka_client(project, record.asked.bootstrap)
    for part, address in zip(parts, own, strict=True):
        reach(address or client["bootstrap.servers"], part.name)
        has_topics(client_settings(address, client, part.name), part, there)
    return client


def partitions_of(flow: Flow, client: Mapping[str, str], there: There) -> dict[str, int]:
    """How many partitions each Kafka source reads: in real-time mode each is a task of its own."""
    found = {}
    for source in flow.sources:
        if source.connector == "kafka" and source.table is None:
            topics = _topics(client_settings(source.options.bootstrap, client, source.name), there)
            found[source.name] = sum(len(topics[topic].partitions) for topic in source.options.topic)
    return found


def has_topics(client: Mapping[str, str], part: Source | Sink, there: There) -> None:
    """Raises NotThereError if a topic is not there that a source reads, or a sink writes to and may not create."""
    named = getattr(part.options, "topic", ())
    hint = "headrace topic create {}"
    if isinstance(part, Sink):
        named = () if part.options.partitions is not None else (named,)
        hint += ", or say `partitions` and it is created"
    topics = _topics(client, there) if named else {}
    missing = [topic for topic in named if topic not in topics]
    if missing:
        known = [name for name in topics if not name.startswith("__")]
        close = get_close_matches(missing[0], known, n=1)
        raise NotThereError(
            f'topic "{missing[0]}" does not exist in Kafka at "{client["bootstrap.servers"]}", for "{part.name}"',
            hint=(f'did you mean "{close[0]}"? Else ' if close else "") + hint.format(missing[0]),
        )


def _topics(client: Mapping[str, str], there: There) -> Mapping[str, Any]:
    from headrace.log.client import metadata

    key = frozenset(client.items())
    if key not in there:
        there[key] = metadata(client).topics
    return there[key]


def reach(addresses: str, step: str, seconds: float = 5.0) -> None:
    """Raises EndpointError unless one of these addresses accepts a connection."""
    reasons = []
    for address in addresses.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
            return
        except (OSError, ValueError) as error:
            reasons.append(f"{address.strip()}: {getattr(error, 'strerror', None) or error}")
    raise EndpointError(
        f'could not reach Kafka at "{addresses}" for "{step}"',
        detail="; ".join(reasons),
        hint="headrace broker status, or see [kafka] in headrace.toml",
    )


def _session(home: Home, record: Record, project: Project, plan: Plan, master: str, scratch: Path) -> SparkSession:
    from headrace.log.jars import ensure
    from headrace.log.java import find_java

    java = find_java(project.settings.java.home)
    paths = sessions.python_path(Path(record.file), Path(record.root))
    os.environ.update(sessions.environment(java.home, master, paths))
    sys.path[:0] = [str(p) for p in paths if str(p) not in sys.path]
    log4j = home.path / "log4j2.properties"
    jars = ensure("spark", java=java)
    checkpoints = [home.checkpoint(query.name) for query in plan.queries if query.stateful]
    known = {state_format(checkpoint) for checkpoint in checkpoints if isinstance(checkpoint, Path)}
    # A run that has been in real-time mode goes on with its state as it lies there.
    kept = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"} if 2 in known else {}
    kept["spark.default.parallelism"] = str(_parallelism(home, master))
    wanted = sessions.settings(
        master=master,
        jars=jars,
        scratch=scratch,
        log4j=log4j,
        plan={**plan.spark, **kept},
        project=project.settings.spark.settings,
        flow=dict(plan.flow.spark),
        host=sessions.address_towards(master),
        java=classes.options(java, jars) if sessions.is_local(master) else "",
        mode=plan.mode,
    )
    ship = sessions.shipped(paths, Path(record.root))
    return sessions.start(plan.flow.name, wanted, log4j=log4j, scratch=scratch, ship=ship)


def _parallelism(home: Home, master: str) -> int:
    """How Spark cuts files and made-up records into tasks: as when the run began, whatever machine it is on now.

    A batch that was half written when its driver died is completed task by task, so they must be the same tasks.
    """
    now = sessions.cores(master)
    return home.update(lambda record: replace(record, parallelism=record.parallelism or now)).parallelism or now


def _run(
    home: Home,
    record: Record,
    plan: Plan,
    session: SparkSession,
    stopping: Stopping,
    kafka: Mapping[str, str],
    base: Path,
) -> int:
    from headrace.compile.where import Where

    batch = plan.mode is Mode.BATCH
    where = Where(
        session=session,
        streaming=not batch,
        pinned=batch,
        home=home.batch(record.batch_runs) if batch else home.path,
        base=base,
        kafka=kafka,
        start=record.asked.start,
        stop=record.asked.stop,
    )
    if batch:
        events.append(home.events, "started", mode="batch", queries=[q.name for q in plan.queries])
        for query in plan.queries:
            if stopping.asked:
                break
            run_batch(home, plan, query, where)
        return _ended(home, plan, stopping)
    groups = Groups(plan, kafka)
    idle = Idle(plan, home)
    expiring = Expiring(plan, home, kafka)

    def note(measured: dict[str, Any]) -> None:
        groups.note(measured)
        expiring.note(measured)
        idle.note(measured)

    settlers: dict[str, Settler] = {}

    def heard(query: Query, report: dict[str, Any]) -> None:
        if query.name in settlers:
            counts = settlers[query.name].heard(report)
            report["observedMetrics"] = observed(plan, query, counts)

    watch = Watch(home, plan.queries, note, heard, stopping.tell)
    watch.attach(session)
    running: list[Running] = []
    try:
        until_done = record.asked.until_done
        require_restored(home, record, plan)
        _look_for_lost(home, plan, kafka)
        for query in plan.queries:
            checkpoint = home.checkpoint(query.name)
            require_whole(query.name, checkpoint, Journal(home.journal(query.name)).entries())
            require_behind(plan, query, where, last_planned(checkpoint))
        replaying = _begun(home, plan)
        if plan.mode is Mode.REAL_TIME:
            settlers |= {query.name: settled(home, plan, query, where) for query in plan.queries}
        for query in plan.queries:  # one by one: if the second cannot start, the first must still be stopped
            if query.name in settlers:
                running += [start_real_time(plan, settlers[query.name], stopping)]
            else:
                running += [start_query(home, plan, query, where, stopping, watch, until_done=until_done)]
        names = [q.name for q in plan.queries]
        events.append(home.events, "started", mode=str(plan.mode), queries=names, replaying=replaying)
        stopping.running = True
        _wait(running, stopping, None if until_done else idle)
        if record.asked.until_done and not stopping.asked:
            _drain(home, plan, running, stopping)
    except Exception as error:
        if tells_of_loss(error):  # Spark says that records are gone, but not which
            _look_for_lost(home, plan, kafka)
        raise
    finally:
        _stop(running, STOP_WITHIN if stopping.asked else 0.0)
        watch.settle(running)
        for settler in settlers.values():
            settler.close()
        groups.close()
        expiring.close()
    for settler in settlers.values():  # a batch that is committed just as its query is stopped is not reported
        settler.catch_up()
    return _ended(home, plan, stopping)


def _stop(running: list[Running], within: float) -> None:
    """Stops all queries at once: in real-time mode each may wait for its next checkpoint."""
    if running:
        with ThreadPoolExecutor(len(running)) as pool:
            list(pool.map(lambda one: one.stop(within), running))


def _look_for_lost(home: Home, plan: Plan, kafka: Mapping[str, str]) -> None:
    """Notes what was deleted before it was read; raises DataError unless the run is to go on without."""
    lost = [one for query in plan.queries for one in unread(plan, query, home.checkpoint(query.name), kafka)]
    if lost:
        Ledger(home.ledger).lose(*lost)
        for one in lost:
            events.append(home.events, "lost", records=one.records, what=str(one), source=one.source, query=one.query)
        refuse(plan, lost)


def require_restored(home: Home, record: Record, plan: Plan) -> None:
    """Raises UsageError if a run that is to go on with checkpoints elsewhere finds none there: it would begin anew."""
    checkpoints = [home.checkpoint(query.name) for query in plan.queries]
    if record.restored and all(last_planned(checkpoint) is None for checkpoint in checkpoints):
        root = checkpoints[0].parent
        there = ", ".join(sorted(entry.name for entry in root.iterdir())) if root.is_dir() else ""
        raise UsageError(
            f'there are no checkpoints of this flow at "{root}"',
            detail=f"there is {there}" if there else "",
            hint=f"--fresh --restore with the folder that holds {', '.join(q.name for q in plan.queries)}",
        )


def _begun(home: Home, plan: Plan) -> dict[str, int]:
    """The batches that were begun and are not done: they are done again, with the same records."""
    found = {}
    for query in plan.queries:
        checkpoint = home.checkpoint(query.name)
        last = last_planned(checkpoint)
        if last is not None and last != last_committed(checkpoint):
            found[query.name] = last
    return found


def _wait(running: list[Running], stopping: Stopping, idle: Idle | None = None) -> None:
    """Until every query has ended, one has failed, or a stop is asked for."""
    while sum(one.goes_on() for one in running):  # each is asked: one that has failed is heard of at once
        if idle is not None:
            idle.tend(running, stopping)
        if stopping.wait(0.1):
            return


def _drain(home: Home, plan: Plan, running: list[Running], stopping: Stopping) -> None:
    """Closes the windows that are still open now that the input has ended; see `headrace.run.flush`."""
    held = [one for one in running if holds_windows(one.query, watermarked=one.watermarked)]
    if not held:
        return
    # Noted first: once the flush is planned, whatever comes later is late, even if we die here.
    home.update(lambda record: replace(record, drained=True))
    events.append(home.events, "draining", queries=[one.query.name for one in held])
    again = [one.once_more() for one in held if plan_flush(home.checkpoint(one.query.name)) is not None]
    running += again
    _wait(again, stopping)


def _ended(home: Home, plan: Plan, stopping: Stopping) -> int:
    if stopping.asked:
        points = {q.name: resume_point(home.checkpoint(q.name)) for q in plan.queries}
        events.append(home.events, "stopped", why=stopping.why, resume=points)
    else:
        events.append(home.events, "finished", queries=[q.name for q in plan.queries])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
