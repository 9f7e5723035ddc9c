"""A real Kafka for tests, as an ordinary process in a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.log import broker
from headrace.log.state import BrokerInfo
from headrace.project import Project

OUTAGE = float(os.environ.get("HEADRACE_OUTAGE", "2"))
"""Seconds for which the tests of outages keep something away; `make outages` takes a minute."""


@contextmanager
def running_cluster(folder: Path, brokers: int = 1) -> Iterator[BrokerInfo]:
    """A local cluster on free ports, stopped and gone afterwards."""
    project = Project(root=folder)
    try:
        yield broker.start(project, brokers)
    finally:
        broker.stop(project, delete=True)


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """One broker; gives its bootstrap address."""
    with running_cluster(folder) as info:
        yield info.bootstrap
