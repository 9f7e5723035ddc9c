"""The works as an expert would write them in PySpark, with Spark's defaults or with the settings of ours.

W1 and W2 also in the quickest form that we know of which Spark alone can run: fields by `json_tuple`, casts of only
those, and a window that is one number.

`python -m bench.by_hand` runs the job that `BENCH_JOB` holds, as a rival does; the guard in the tests and
bench/overhead.py take the frames from here.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

PER_BATCH = {"maxOffsetsPerTrigger": "1000000"}
"""As many records in a batch as our Kafka source takes."""
READING = {"kafka.max.poll.records": "5000", **PER_BATCH}
"""What ours tells the Kafka source in micro-batches."""
_WINDOW = 10_000_000
"""Microseconds of W1's windows."""


def events(
    session: SparkSession, bootstrap: str, topic: str, schema: str, options: dict[str, str], *, best: bool = False
) -> DataFrame:
    """The records of a topic as columns."""
    from pyspark.sql import functions as F

    reader = session.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    text = F.col("value").cast("string")
    raw = reader.option("startingOffsets", "earliest").options(**options).load()
    if not best:
        return raw.select(F.from_json(text, schema).alias("r")).select("r.*")
    kinds = dict(part.split() for part in schema.split(", "))
    fields = raw.select(F.json_tuple(text, *kinds).alias(*kinds))
    return fields.select(*(F.col(name).cast(kind).alias(name) for name, kind in kinds.items()))


def windows(given: DataFrame) -> DataFrame:
    """W1: ten-second counts and sums per page, without views."""
    from pyspark.sql import functions as F

    return (
        given.withWatermark("ts", "5 seconds")
        .filter("type <> 'view'")
        .groupBy(F.window("ts", "10 seconds"), "page")
        .agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
        .select(
            F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), "page", "n", "total"
        )
    )


def windows_by_end(given: DataFrame) -> DataFrame:
    """The same, with the end of a window reckoned as a number and marked as an event time for Spark."""
    from pyspark.sql import functions as F

    at = F.unix_micros("ts")
    end = F.timestamp_micros(at - F.pmod(at, F.lit(_WINDOW)) + F.lit(_WINDOW))
    return (
        given.withWatermark("ts", "5 seconds")
        .filter("type <> 'view'")
        .select("page", "amount", end.alias("window_end", metadata={"spark.watermarkDelayMs": 0}))
        .groupBy("window_end", "page")
        .agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
        .select(
            F.timestamp_micros(F.unix_micros("window_end") - F.lit(_WINDOW)).alias("window_start"),
            "window_end",
            "page",
            "n",
            "total",
        )
    )


SCHEMAS = {
    "w1": "page STRING, type STRING, amount DOUBLE, ts TIMESTAMP",
    "w2": "user STRING, page STRING, type STRING, amount DOUBLE",
    "stateless": "k STRING, type STRING, x BIGINT, t DOUBLE",
    "keyed": "k STRING, t DOUBLE",
    "keys": "user STRING, amount DOUBLE",
}


def result(given: DataFrame, work: str, *, best: bool = False) -> DataFrame:
    """What a work makes of its events."""
    from pyspark.sql import functions as F

    if work == "w1":
        return windows_by_end(given) if best else windows(given)
    if work == "w2":
        return given.filter("type = 'buy'").select("user", "page", "amount")
    if work == "stateless":
        return given.filter("type = 'buy'").select("k", "x", "t")
    if work == "keyed":
        return given.groupBy("k").agg(F.count("*").alias("n"), F.max("t").alias("t"))
    held = given.groupBy("user").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
    return held.filter("n > 1000000000")


KEYS = {"w1": "page", "w2": "user", "stateless": "k", "keyed": "k", "keys": "user"}


def to_kafka(frame: DataFrame, work: str, bootstrap: str, topic: str, checkpoint: Path) -> DataStreamWriter:
    """The frame on its way to a topic as JSON; only the trigger is missing."""
    from pyspark.sql import functions as F

    rows = frame.select(F.col(KEYS[work]).alias("key"), F.to_json(F.struct("*")).alias("value"))
    writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
    mode = "append" if work in ("w1", "w2") else "update"
    return writer.outputMode(mode).option("checkpointLocation", str(checkpoint))


def _session(job: dict[str, Any]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(f"by hand {job['work']}")
    for name, value in job["spark"].items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _timed(query: StreamingQuery) -> tuple[float, float, int]:
    """From the start of the first batch to the end of the query, and how many records that were."""
    from datetime import datetime

    query.awaitTermination()
    last = time.time()
    batches = [p for p in query.recentProgress if p["numInputRows"] > 0]
    first = datetime.fromisoformat(batches[0]["timestamp"].replace("Z", "+00:00")).timestamp()
    held = [o["numRowsTotal"] for p in query.recentProgress[-1:] for o in p["stateOperators"]]
    if held:
        print(f"STATE {sum(held)}", flush=True)
    return first, last, sum(p["numInputRows"] for p in batches)


def main() -> None:
    """Runs the job that the environment holds."""
    from bench.rivals.job import BOOTSTRAP, FOLDER, JOB, LIVE, OUT, ROUNDS, TOPIC, WORK, say

    session = _session(JOB)
    options, writing, best = JOB["reading"], JOB["writing"], JOB.get("best", False)
    for number in range(ROUNDS):
        given = events(session, BOOTSTRAP, TOPIC, SCHEMAS[WORK], options, best=best)
        checkpoint = Path(FOLDER, f"checkpoint-{number}")
        made = result(given, WORK, best=best)
        writer = to_kafka(made, WORK, BOOTSTRAP, f"{OUT}-{number}", checkpoint).options(**writing)
        if LIVE:
            trigger = {"realTime": JOB["real_time"]} if JOB.get("real_time") else {"processingTime": "0 seconds"}
            writer.trigger(**trigger).start().awaitTermination()
            return
        say(*_timed(writer.trigger(availableNow=True).start()), number)
    session.stop()


if __name__ == "__main__":
    main()
