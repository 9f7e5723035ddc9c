"""Real-time mode goes on after an attempt that was cut short: what that has answered already is not late now.

A micro-batch is planned on disk before it runs, and repeated as it was. A batch in real-time mode ends when its time is
over, so a repeated one ends elsewhere: a record of the first attempt may come into the batch behind it, be held there
against a later watermark and be late, while a row that counts it is in the sink. So until a query has read all that was
there when it went on, its watermark stays the one by which the first attempt held records to be late, and then is what
it would be had all of that been one batch (`headrace.HeldWatermark`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.compile.plan import Plan, Query
from headrace.connectors.kafka_client import client_settings, ends_of
from headrace.model import Source
from headrace.run.checkpoint import hold_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


def going_on(
    session: SparkSession,
    plan: Plan,
    query: Query,
    checkpoint: Path,
    kafka: Mapping[str, str],
    begin: Callable[[], StreamingQuery],
) -> StreamingQuery:
    """Begins a query whose checkpoint may be that of an attempt that was cut short."""
    if not (checkpoint / "metadata").exists():
        return begin()
    ends: dict[str, dict[str, int]] = {}
    for source in (plan.flow[name] for name in query.sources):
        if isinstance(source, Source) and source.table is None and source.connector == "kafka":
            client = client_settings(source.options.bootstrap, kafka, source.name)
            ends |= {topic: ends_of(client, topic, source.name) for topic in source.options.topic}
    at, before = hold_back(checkpoint)
    begun = begin()
    java: Any = session._jvm
    java.headrace.HeldWatermark.hold(begun._jsq, json.dumps(ends), at, before)
    return begun
