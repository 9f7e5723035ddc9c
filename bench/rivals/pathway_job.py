"""The works in Pathway, on as many threads as there are cores."""

from __future__ import annotations

import os
import time

from job import BOOTSTRAP, CORES, JOB, LIVE, OUT, TAG, TOPIC, WORK, say

os.environ["PATHWAY_THREADS"] = str(CORES)  # read when it is imported

import pathway as pw

CLIENT = {"bootstrap.servers": BOOTSTRAP}
READER = {**CLIENT, "group.id": f"pathway-{TAG}", "auto.offset.reset": "earliest", "session.timeout.ms": "6000"}
ISO = "%Y-%m-%dT%H:%M:%S%.3fZ"


class Event(pw.Schema):
    """One of bench/events.py."""

    user: str
    page: str
    type: str
    amount: float
    ts: str


class Live(pw.Schema):
    """One of bench/feed.py."""

    k: str
    type: str
    x: int
    t: float


def main() -> None:
    events = pw.io.kafka.read(
        {**READER, "fetch.wait.max.ms": "5"} if LIVE else READER,
        topic=TOPIC,
        schema=Live if LIVE else Event,
        format="json",
        autocommit_duration_ms=5 if LIVE else 1000,
        mode="streaming" if LIVE else "static",
    )
    if WORK == "w1":
        shown = events.filter(pw.this.type != "view").with_columns(
            at=pw.cast(int, pw.this.ts.dt.strptime(ISO).dt.timestamp(unit="ms"))
        )
        result = shown.windowby(
            shown.at,
            window=pw.temporal.tumbling(duration=10_000),
            instance=shown.page,
            # As Bytewax does, it waits for a minute: with the five seconds of the others it left out a tenth of a
            # window, it seems because it reads one partition ahead of the other by more than that.
            behavior=pw.temporal.exactly_once_behavior(shift=60_000),
        ).reduce(
            window_start=pw.this._pw_window_start,
            page=pw.this._pw_instance,
            n=pw.reducers.count(),
            total=pw.reducers.sum(pw.this.amount),
        )
    elif WORK == "w2":
        result = events.filter(pw.this.type == "buy").select(pw.this.user, pw.this.page, pw.this.amount)
    elif WORK == "keyed":
        result = events.groupby(events.k).reduce(events.k, n=pw.reducers.count(), t=pw.reducers.max(events.t))
    else:
        result = events.filter(pw.this.type == "buy").select(pw.this.k, pw.this.x, pw.this.t)
    producer = {"linger.ms": "0"} if LIVE else {"linger.ms": "50", "compression.type": "lz4"}
    key = result[{"w1": "page", "w2": "user"}.get(WORK, "k")]
    pw.io.kafka.write(result, {**CLIENT, **producer}, topic_name=f"{OUT}-0", format="json", key=key)
    begun = time.time()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    say(begun, time.time(), JOB["total"])


if __name__ == "__main__":
    main()
