"""The works in Bytewax: `python -m bytewax.run bytewax_job:flow`, in as many processes as there are cores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
import orjson
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from job import BOOTSTRAP, LIVE, OUT, TOPIC, WORK, seen

WAIT = timedelta(seconds=60)
"""Its watermark also moves with the clock on the wall; with the 5 seconds of the others a replay split windows."""
SEEN = seen()


def parse(message: Any) -> Any:
    SEEN.record()
    return orjson.loads(message.value)


def message(key: str, value: dict[str, Any]) -> KafkaSinkMessage:
    return KafkaSinkMessage(key.encode(), orjson.dumps(value))


def add(held: tuple[int, float], event: tuple[datetime, float]) -> tuple[int, float]:
    SEEN.done()
    return held[0] + 1, held[1] + event[1]


def windows(records: Any) -> Any:
    shown = op.filter("shown", records, lambda e: e["type"] != "view")
    keyed = op.map("key", shown, lambda e: (e["page"], (datetime.fromisoformat(e["ts"]), e["amount"])))
    clock = win.EventClock(lambda e: e[0], wait_for_system_duration=WAIT)
    begin = datetime(2023, 1, 1, tzinfo=UTC)
    kind = win.TumblingWindower(length=timedelta(seconds=10), align_to=begin)
    counted = win.fold_window(
        "count", keyed, clock, kind, lambda: (0, 0.0), add, lambda a, b: (a[0] + b[0], a[1] + b[1]), ordered=False
    )

    def shape(found: Any) -> KafkaSinkMessage:
        page, (number, (n, total)) = found
        start = (begin + number * timedelta(seconds=10)).isoformat()
        return message(page, {"window_start": start, "page": page, "n": n, "total": total})

    return op.map("message", counted.down, shape)


def counted(records: Any) -> Any:
    keyed = op.map("key", records, lambda e: (e["k"], e["t"]))
    numbered = op.stateful_map("count", keyed, lambda n, t: ((n or 0) + 1, ((n or 0) + 1, t)))
    return op.map("message", numbered, lambda f: message(f[0], {"k": f[0], "n": f[1][0], "t": f[1][1]}))


def kept(records: Any, key: str, *columns: str) -> Any:
    bought = op.filter("bought", records, lambda e: e["type"] == "buy")
    return op.map("message", bought, lambda e: message(e[key], {c: e[c] for c in columns}))


def flow() -> Dataflow:
    made = Dataflow(f"bench-{WORK}")
    settings = {"fetch.wait.max.ms": "5"} if LIVE else {"queued.min.messages": "200000"}
    source = KafkaSource([BOOTSTRAP], [TOPIC], tail=LIVE, batch_size=1000 if LIVE else 5000, add_config=settings)
    records = op.map("parse", op.input("in", made, source), parse)
    if WORK == "w1":
        result = windows(records)
    elif WORK == "w2":
        result = kept(records, "user", "user", "page", "amount")
    elif WORK == "keyed":
        result = counted(records)
    else:
        result = kept(records, "k", "k", "x", "t")
    many = {"linger.ms": "50", "compression.type": "lz4", "queue.buffering.max.messages": "1000000"}
    producer = {"linger.ms": "0"} if LIVE else many
    op.output("out", result, KafkaSink([BOOTSTRAP], f"{OUT}-0", add_config=producer))
    return made
