"""The works in Quix Streams, in as many processes as there are cores, which share a consumer group."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from job import BOOTSTRAP, FOLDER, LIVE, OUT, TAG, TOPIC, WORK, seen
from quixstreams import Application
from quixstreams.dataframe.windows import Count, Sum

SEEN = seen()
QUIET = 10.0
"""Seconds without a record after which all is read; not counted as time at work."""


def parse(value: bytes) -> Any:
    SEEN.record()
    return orjson.loads(value)


def moment(value: Any, *_: Any) -> int:
    SEEN.done()
    return int(value["ts"])


def narrow(event: Any) -> dict[str, Any]:
    at = round(datetime.fromisoformat(event["ts"]).timestamp() * 1000)
    return {"page": event["page"], "amount": event["amount"], "ts": at}


def count(event: Any, state: Any) -> bytes:
    n = state.get("n", 0) + 1
    state.set("n", n)
    return orjson.dumps({"k": event["k"], "n": n, "t": event["t"]})


def shape(value: Any, key: Any, *_: Any) -> bytes:
    page = key.decode() if isinstance(key, bytes) else key
    found = {"window_start": value["start"], "page": page, "n": value["n"], "total": value["total"]}
    return orjson.dumps(found)


def kept(frame: Any, *columns: str) -> Any:
    return frame[frame["type"] == "buy"].apply(lambda e: orjson.dumps({c: e[c] for c in columns}))


def main() -> None:
    many = {"linger.ms": 50, "compression.type": "lz4", "queue.buffering.max.messages": 1_000_000}
    producer = {"linger.ms": 0} if LIVE else many
    app = Application(
        BOOTSTRAP,
        consumer_group=f"quix-{TAG}",
        auto_offset_reset="earliest",
        state_dir=Path(FOLDER, f"state-{os.getpid()}"),
        loglevel="WARNING",
        producer_extra_config=producer,
        consumer_extra_config={"fetch.wait.max.ms": 5} if LIVE else {"queued.min.messages": 200_000},
        commit_interval=1.0 if LIVE else 5.0,
    )
    frame = app.dataframe(app.topic(TOPIC, value_deserializer="bytes")).apply(parse)
    if WORK == "w1":
        frame = frame[frame["type"] != "view"].apply(narrow).group_by("page").set_timestamp(moment)
        frame = frame.tumbling_window(10_000, grace_ms=5_000).agg(n=Count(), total=Sum("amount")).final()
        frame = frame.apply(shape, metadata=True)
    elif WORK == "w2":
        frame = kept(frame, "user", "page", "amount")
    elif WORK == "keyed":
        frame = frame.apply(count, stateful=True)
    else:
        frame = kept(frame, "k", "x", "t")
    frame.to_topic(app.topic(f"{OUT}-0", value_serializer="bytes"))
    app.run(timeout=0 if LIVE else QUIET)


if __name__ == "__main__":
    main()
