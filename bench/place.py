"""Where a benchmark works: a folder of its own that is a project, a Kafka in it, and nothing left of either."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.log import broker, topics
from headrace.project import Project

TEMPORARY = "headrace-bench-"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A project with a running Kafka."""

    folder: Path
    client: dict[str, str]

    @property
    def bootstrap(self) -> str:
        return self.client["bootstrap.servers"]

    def fresh(self, name: str) -> Path:
        """An empty folder."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def topic(self, name: str, partitions: int = 2) -> None:
        """A topic whose records carry the time at which the broker took them."""
        from confluent_kafka.admin import NewTopic

        from headrace.log import client

        wanted = NewTopic(name, num_partitions=partitions, config={"message.timestamp.type": "LogAppendTime"})
        asking = client.admin(self.client)
        for future in asking.create_topics([wanted]).values():
            client.result(future, self.client, f'topic "{name}"')
        # The cluster agrees first and acts a moment later; whoever asks next must find every partition.
        while len(asking.list_topics(name, timeout=30).topics[name].partitions) < partitions:
            time.sleep(0.05)

    def clear(self, keep: Sequence[str]) -> None:
        """Deletes every topic but some: jobs make topics of their own."""
        gone = [t.name for t in topics.listing(self.client) if t.name not in keep]
        if gone:
            topics.delete(self.client, gone)


@contextmanager
def place() -> Iterator[Place]:
    """A place for as long as it is used; a termination ends it as Ctrl-C does."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))
    folder = Path(tempfile.mkdtemp(prefix=TEMPORARY))
    (folder / "headrace.toml").touch()
    project = Project.find(folder)
    try:
        running = broker.start(project, java_options=broker.LARGE)
        yield Place(folder=folder, client={"bootstrap.servers": running.bootstrap})
    finally:
        broker.stop(project, delete=True)
        shutil.rmtree(folder, ignore_errors=True)
