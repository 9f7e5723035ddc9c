"""What is known about a project's local broker, as kept in `.headrace/broker/broker.json`."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.log.processes import Process


@dataclass(frozen=True, kw_only=True)
class Node:
    """One broker of the local cluster."""

    id: int
    port: int
    controller_port: int
    process: Process | None = None

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"127.0.0.1:{self.port}"

    def alive(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.alive()


@dataclass(frozen=True, kw_only=True)
class BrokerInfo:
    """The local cluster: its nodes, how many copies topics have, and where it keeps them."""

    folder: Path
    replication: int
    nodes: tuple[Node, ...]
    already: bool = False
    """Whether it ran before it was asked to start."""

    @property
    def bootstrap(self) -> str:
        """The address clients begin with; every node is in it, so that any one may be away."""
        return ",".join(node.address for node in self.nodes)

    @property
    def running(self) -> bool:
        """Whether at least one node runs."""
        return any(node.alive() for node in self.nodes)

    def node_folder(self, node: Node) -> Path:
        """A node's settings, logs and data."""
        return self.folder / f"node-{node.id}"

    def as_dict(self) -> dict[str, object]:
        """The cluster as plain data, for `--json`."""
        return {
            "running": self.running,
            "bootstrap": self.bootstrap,
            "replication": self.replication,
            "folder": str(self.folder),
            "nodes": [
                {
                    "id": n.id,
                    "address": n.address,
                    "running": n.alive(),
                    "pid": n.process.pid if n.process and n.alive() else None,
                    "log": str(self.node_folder(n) / "server.log"),
                }
                for n in self.nodes
            ],
        }


def broker_folder(home: Path) -> Path:
    """Where a project's local broker lives."""
    return home / "broker"


def read(home: Path) -> BrokerInfo | None:
    """The local cluster last started from a project, running or not; None if there never was one."""
    folder = broker_folder(home)
    try:
        found = json.loads((folder / "broker.json").read_text(encoding="utf-8"))
        nodes = tuple(
            Node(**{**node, "process": Process(**node["process"]) if node["process"] else None})
            for node in found["nodes"]
        )
        return BrokerInfo(folder=folder, replication=found["replication"], nodes=nodes)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # never started, or a file of another version: the data is found again by its folders


def write(info: BrokerInfo) -> None:
    """Keeps what is known, whole or not at all."""
    info.folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"replication": info.replication, "nodes": [asdict(node) for node in info.nodes]}, indent=2)
    fresh = info.folder / f"broker.json.{os.getpid()}"
    fresh.write_text(text + "\n", encoding="utf-8")
    fresh.replace(info.folder / "broker.json")
