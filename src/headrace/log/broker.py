"""A real Kafka for one project, started with one command: `headrace broker start`.

KRaft, no ZooKeeper; loopback only; one node, or three that copy everything three times. Data is kept over
stops and crashes. Nodes outlive the command that started them; `stop` leaves no process behind.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from headrace.errors import EndpointError, UsageError
from headrace.log import jars, state
from headrace.log.folders import locked
from headrace.log.java import Java, find_java
from headrace.log.processes import spawn, stop_all
from headrace.log.state import BrokerInfo, Node

Progress = Callable[[str], None]


class Owner(Protocol):
    """What a broker must know of the project it belongs to."""

    @property
    def home(self) -> Path: ...
    @property
    def java_home(self) -> str | None: ...
    def make_home(self) -> Path: ...


CLUSTER_ID = "headraceLocalCluster00"
"""Any 16 bytes in base64 do; a fixed one, since a random one may begin with a dash and is then read as an option."""

_PORTS = range(20_000, 32_000)
READY_SECONDS = 60.0
STOP_SECONDS = 20.0

SMALL = ("-Xms96m", "-Xmn64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For a quick start and little memory; a local broker needs no peak throughput."""
LARGE = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
"""As Kafka's own start script has it, for a broker that is not to be what is measured."""
_JVM = ("-Xshare:auto", "-XX:-UsePerfData", "-Dlog4j2.disableJmx=true")


def start(
    project: Owner,
    brokers: int | None = None,
    port: int | None = None,
    replication: int | None = None,
    progress: Progress | None = None,
    java_options: Sequence[str] = SMALL,
) -> BrokerInfo:
    """Starts the project's broker, or the nodes of it that do not run, and waits until it answers.

    Without a number it has as many nodes as before, else one. Ports stay the same as long as they are free.
    """
    tell = progress or (lambda _: None)
    folder = state.broker_folder(project.make_home())
    with locked(folder / "lock"):
        known = state.read(project.home)
        info = _plan(known, folder, brokers, port, replication)
        missing = [node for node in info.nodes if not node.alive()]
        if not missing:
            return replace(info, already=True)
        java = find_java(project.java_home)
        classpath = os.pathsep.join(str(jar) for jar in jars.ensure("broker", progress, java))
        tell(f"starting Kafka ({len(missing)} {'node' if len(missing) == 1 else 'nodes'})")
        for node in missing:
            _configure(info, node)
        _format([info.node_folder(node) for node in missing], java, classpath)
        launched: dict[int, Node] = {}
        try:
            for node in missing:
                launched[node.id] = _launch(info, node, java, classpath, java_options)
            info = replace(info, nodes=tuple(launched.get(node.id, node) for node in info.nodes))
            state.write(info)
            _await(info)
        except BaseException:
            # Half a cluster helps nobody, and Ctrl-C must leave no process behind.
            stop_all((n.process for n in launched.values() if n.process), STOP_SECONDS)
            raise
        return info


def stop(project: Owner, delete: bool = False) -> BrokerInfo | None:
    """Stops every node and waits until they are gone; with `delete` the data goes too. None if there was no broker."""
    folder = state.broker_folder(project.home)
    if not folder.exists():
        return None
    with locked(folder / "lock"):
        info = state.read(project.home)
        if info is None:
            return None
        stop_all((node.process for node in info.nodes if node.process), STOP_SECONDS)
        stopped = replace(info, nodes=tuple(replace(node, process=None) for node in info.nodes))
        state.write(stopped)
        if delete:
            shutil.rmtree(folder)
        return info


def status(project: Owner) -> BrokerInfo | None:
    """The project's broker and which of its nodes run; None if there never was one."""
    return state.read(project.home)


def _plan(
    known: BrokerInfo | None, folder: Path, brokers: int | None, port: int | None, replication: int | None
) -> BrokerInfo:
    """The cluster to have: the one that is known, or a new one on free ports."""
    kept = len(known.nodes) if known else len(list(folder.glob("node-*/data/meta.properties")))
    count = brokers or kept or 1
    if count not in (1, 2, 3, 4, 5):
        raise UsageError(f"a local cluster of {count} brokers is not to be had", hint="1 to 5; 3 shows replication")
    if kept and count != kept:
        raise UsageError(
            f"the local broker has {kept} {'node' if kept == 1 else 'nodes'} and data, and cannot become {count}",
            hint=f"headrace broker stop --delete removes the data; then headrace broker start --brokers {count}",
        )
    copies = replication or (known.replication if known else min(count, 3))
    if not 1 <= copies <= count:
        raise UsageError(f"{copies} copies need {copies} brokers, and there are {count}", hint=f"--brokers {copies}")
    running = bool(known and known.running)
    if known and running and port is not None and port != known.nodes[0].port:
        raise UsageError(f"the broker runs already, on port {known.nodes[0].port}", hint="headrace broker stop")
    if port is not None and not running and not _free(port):
        raise UsageError(f"port {port} is taken by another program", hint="leave --port out, and a free one is found")
    old = known.nodes if known else ()
    if old and (
        running or (port in (None, old[0].port) and all(_free(p) for n in old for p in (n.port, n.controller_port)))
    ):
        nodes = old
    else:
        found = _free_ports(2 * count)
        ports, controllers = found[:count], found[count:]
        if port is not None:
            ports = (port, *ports[1:])
        pairs = zip(ports, controllers, strict=True)
        nodes = tuple(Node(id=i, port=p, controller_port=c) for i, (p, c) in enumerate(pairs, 1))
    return BrokerInfo(folder=folder, replication=copies, nodes=nodes)


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _free_ports(count: int) -> tuple[int, ...]:
    """Ports nobody listens on, below those a system hands out by itself.

    A port of that range is soon the near end of somebody's connection, often of a client that looks for the very
    broker that was stopped; the broker could then not come back where its clients expect it.
    """
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if _free(port):
            found.append(port)
        if len(found) == count:
            return tuple(found)
    raise EndpointError(f"no {count} free ports between {_PORTS[0]} and {_PORTS[-1]}", hint="--port chooses one")


def server_properties(info: BrokerInfo, node: Node) -> str:
    """A node's settings. Voters are stated, not learnt, so that ports may change between starts."""
    voters = ",".join(f"{n.id}@127.0.0.1:{n.controller_port}" for n in info.nodes)
    in_sync = max(1, info.replication - 1)
    settings = {
        "process.roles": "broker,controller",
        "node.id": node.id,
        "listeners": f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{node.port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
        "log.dirs": info.node_folder(node) / "data",
        "default.replication.factor": info.replication,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": info.replication,
        "transaction.state.log.replication.factor": info.replication,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": info.replication,
        "share.coordinator.state.topic.min.isr": in_sync,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,
        "auto.create.topics.enable": "false",  # a mistyped name must not become a topic
        "num.network.threads": 2,
        "num.io.threads": 4,
        "num.recovery.threads.per.data.dir": 1,
        "broker.session.timeout.ms": 6000,  # a killed node is noticed in seconds, as one trying it out expects
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


_LOG4J = """status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %m (%c{{1}})%n%ex
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
logger.settings.name = org.apache.kafka.common.config
logger.settings.level = warn
"""


def _configure(info: BrokerInfo, node: Node) -> None:
    folder = info.node_folder(node)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "server.properties").write_text(server_properties(info, node), encoding="utf-8")
    (folder / "log4j2.properties").write_text(_LOG4J.format(log=folder / "server.log"), encoding="utf-8")


def _java(folder: Path, java: Java, classpath: str, options: Sequence[str], *arguments: str) -> list[str]:
    logging = f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}"
    return [str(java.executable), *options, *_JVM, logging, "-cp", classpath, *arguments]


def _format(folders: Iterable[Path], java: Java, classpath: str) -> None:
    """Prepares the data folders that are new, all at once."""
    fresh = [folder for folder in folders if not (folder / "data" / "meta.properties").exists()]
    tools: list[tuple[Path, subprocess.Popen[str]]] = []
    for folder in fresh:
        arguments = ("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(folder / "server.properties"))
        command = _java(folder, java, classpath, SMALL, *arguments)
        tools.append(
            (
                folder,
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                ),
            )
        )
    try:
        for folder, tool in tools:
            said, _ = tool.communicate()
            if tool.returncode:
                raise EndpointError(f'Kafka could not prepare "{folder}"', detail=said.strip()[-2000:])
    finally:
        for _, tool in tools:  # those that one's failure, or a Ctrl-C, left at work
            if tool.poll() is None:
                tool.kill()
                tool.communicate()


def _launch(info: BrokerInfo, node: Node, java: Java, classpath: str, options: Sequence[str]) -> Node:
    folder = info.node_folder(node)
    (folder / "server.log").unlink(missing_ok=True)  # the tail shown on failure must be of this start
    command = _java(folder, java, classpath, options, "kafka.Kafka", str(folder / "server.properties"))
    return replace(node, process=spawn(command, output=folder / "console.log", environment={"LOG_DIR": str(folder)}))


def _await(info: BrokerInfo) -> None:
    """Waits until every node is known to every other, by real requests for metadata."""
    from confluent_kafka import KafkaException

    from headrace.log.client import Watch, admin

    deadline = time.monotonic() + READY_SECONDS
    for node in info.nodes:
        while not _listens(node.port):
            _still_well(info, deadline)
            time.sleep(0.02)
    asking = admin({"bootstrap.servers": info.bootstrap, "reconnect.backoff.max.ms": "200"}, Watch())
    while True:
        try:
            answer = asking.list_topics(timeout=2)
            if len(answer.brokers) == len(info.nodes) and answer.controller_id >= 0:
                return
        except KafkaException:
            pass  # not yet; the deadline decides
        _still_well(info, deadline)
        time.sleep(0.05)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _still_well(info: BrokerInfo, deadline: float) -> None:
    ended = next((node for node in info.nodes if not node.alive()), None)
    if ended is None and time.monotonic() < deadline:
        return
    node = ended or info.nodes[0]
    what = "ended while it started" if ended else f"did not answer in {READY_SECONDS:.0f} seconds"
    raise EndpointError(
        f"the local Kafka (node {node.id}, port {node.port}) {what}",
        detail=log_tail(info, node),
        hint=f'its log is "{info.node_folder(node) / "server.log"}"; headrace broker stop --delete begins anew',
    )


def log_tail(info: BrokerInfo, node: Node, lines: int = 12) -> str:
    """The last lines a node wrote, errors first if there are any."""
    said: list[str] = []
    for name in ("server.log", "console.log"):
        path = info.node_folder(node) / name
        if path.exists():
            said += path.read_text(encoding="utf-8", errors="replace").splitlines()
    telling = [line for line in said if " ERROR " in line or " FATAL " in line or "Exception" in line]
    return "\n    ".join((telling or said)[-lines:])
