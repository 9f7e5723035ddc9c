"""Kafka: records read from topics, and written to one.

Delivery, as a source: exactly once; offsets are kept in the checkpoint and the same range is read again after a
crash. As a sink: exactly once, by transactions; see `kafka_transactions.py` for how.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import Field as Option
from pydantic import PositiveInt

from headrace.connectors.base import (
    ORIGIN,
    Batch,
    Between,
    Holding,
    Place,
    Reading,
    ReplayableSource,
    TransactionalSink,
    Written,
    connector,
)
from headrace.connectors.before import note_before, noted_before
from headrace.connectors.folder import Folder
from headrace.connectors.identity import known_writer, writer
from headrace.connectors.kafka_client import (
    bounds_of,
    client_settings,
    ends_of,
    java_settings,
    partitions_of,
    require_topic,
    trouble,
)
from headrace.connectors.kafka_offsets import Position, offsets_in, parse_position
from headrace.connectors.kafka_properties import ReadProperties, WriteProperties
from headrace.connectors.kafka_transactions import newest_mark, write_once
from headrace.connectors.row_count import RowCount
from headrace.connectors.time import ARRIVAL
from headrace.formats.reasons import column
from headrace.model import Delivery, Schema
from headrace.options import Options, Topic, Topics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

Metadata = Literal["key", "topic", "partition", "offset", "timestamp", "headers"]
_METADATA = {
    "key": ("kafka_key STRING", "CAST(key AS STRING)"),
    "topic": ("kafka_topic STRING", "topic"),
    "partition": ("kafka_partition INT", "partition"),
    "offset": ("kafka_offset BIGINT", "offset"),
    "timestamp": ("kafka_timestamp TIMESTAMP", "timestamp"),
    "headers": ("kafka_headers ARRAY<STRUCT<key: STRING, value: BINARY>>", "headers"),
}


class KafkaSourceOptions(Options):
    """What to read from Kafka."""

    shorthand = "topic"

    topic: Topics = Option(min_length=1, description="Topic to read, or several.", examples=["orders"])
    bootstrap: str | None = Option(
        None,
        description="Address of another cluster than the project's; the project's client settings are then not used.",
        examples=["broker:9092"],
    )
    start: Literal["earliest", "latest"] = Option(
        "earliest", description="Where a run begins that has no checkpoint: at the oldest record, or at the next one."
    )
    per_batch: PositiveInt | Literal["all"] | None = Option(
        None,
        description="Most records in one batch, or `all` there are. Unset: 1,000,000; with `goal: throughput` "
        "5,000,000, shared by the flow's topics.",
        examples=[100_000],
    )
    on_lost: Literal["stop", "continue"] = Option(
        "stop",
        description="What to do when records were deleted before they were read, as by retention: stop the run, or go "
        "on behind them. Either way it is said which, and the ledger counts them as lost upstream.",
    )
    metadata: tuple[Metadata, ...] = Option(
        (),
        description="What to add behind the record's columns, each as kafka_<name>.",
        examples=[["key", "offset", "timestamp"]],
    )
    client: ReadProperties = Option(
        {},
        description="Properties of Kafka's own consumer, by its names, over those the plan chooses; none on which "
        "guarantees or secrets hang.",
        examples=[{"fetch.max.bytes": "104857600"}],
    )


class KafkaSinkOptions(Options):
    """What to write to Kafka."""

    shorthand = "topic"

    topic: Topic = Option(description="Topic to write to.", examples=["totals"])
    key: str | None = Option(
        None,
        description="Column that becomes the record's key: rows of one key stay in order, in one partition.",
        examples=["user"],
    )
    bootstrap: str | None = Option(
        None,
        description="Address of another cluster than the project's; the project's client settings are then not used.",
        examples=["broker:9092"],
    )
    partitions: int | None = Option(
        None,
        ge=1,
        le=100_000,
        description="Create the topic with so many partitions if it is not there; unset: it must be.",
    )
    headers: dict[str, str] = Option(
        {}, description="Headers of each record, name to text.", examples=[{"origin": "headrace"}]
    )
    client: WriteProperties = Option(
        {},
        description="Properties of Kafka's own producer, by its names, over those the plan chooses; none on which "
        "guarantees or secrets hang.",
        examples=[{"linger.ms": "100"}],
    )


@connector(
    "kafka",
    options=KafkaSourceOptions,
    example="""
orders:
  kafka: {topic: orders, metadata: [timestamp]}
  format: json
  schema: id BIGINT, amount DECIMAL(10,2), at TIMESTAMP
""",
)
class KafkaSource(ReplayableSource[KafkaSourceOptions]):
    """Records of one or more topics, each once, in order within a partition.

    Only records of committed transactions are read. If records were deleted before they were read (retention),
    the run says which, and stops unless `on_lost` tells it to go on. `--from` and `--to` take an offset for all
    partitions ("1500"), one for each ("0:1500,1:1720"), or an ISO 8601 time; `--to` is not included.
    """

    carries = "bytes"
    in_real_time = True
    arrival = "kafka_timestamp"

    def metadata(self) -> Schema:
        return Schema.parse(", ".join(_METADATA[name][0] for name in self.options.metadata))

    def read(self, reading: Reading) -> DataFrame:
        client = client_settings(self.options.bootstrap, reading.place.kafka, reading.place.step)
        partitions = partitions_of(client, self.options.topic, reading.place.step)
        start, stop = parse_position(reading.start, "--from"), parse_position(reading.stop, "--to")
        if reading.between is not None:
            return self._shaped(self._again(reading, client, reading.between, stop, partitions), reading)
        if reading.pinned:
            frame = self._again(reading, client, self._there(reading.place, client), stop, partitions, start)
            return self._shaped(_without_deleted(frame) if reading.table else frame, reading)
        reader = reading.session.readStream if reading.streaming else reading.session.read
        frame = (
            reader.format("kafka")
            .options(**java_settings(client))
            .options(**self._settings(reading, partitions, start, stop))
            .load()
        )
        if reading.streaming and stop is not None:  # a stream has no end of its own: what lies behind it is left out
            frame = frame.where(_before(stop, partitions))
        return self._shaped(_without_deleted(frame) if reading.table else frame, reading)

    def _shaped(self, frame: DataFrame, reading: Reading) -> DataFrame:
        from pyspark.sql import functions as F

        arrived = [F.col("timestamp").alias(ARRIVAL)] if reading.arrival else []
        if reading.origin:
            arrived.append(F.struct("value", "key", "topic", "partition", "offset", "timestamp").alias(ORIGIN))
        return frame.select(
            "value", *(F.expr(_METADATA[name][1]).alias(f"kafka_{name}") for name in self.options.metadata), *arrived
        )

    def _there(self, place: Place, client: Mapping[str, str]) -> Between:
        """All that is in the topics when this is first asked; the same when it is asked again, in the same place."""
        note_before(place, lambda: {t: bounds_of(client, t, place.step) for t in self.options.topic})
        noted: dict[str, dict[str, tuple[int, int]]] = noted_before(place)
        start, end = (json.dumps({t: {p: b[n] for p, b in ps.items()} for t, ps in noted.items()}) for n in (0, 1))
        return Between(start=start, end=end)

    def _again(
        self,
        reading: Reading,
        client: Mapping[str, str],
        between: Between,
        stop: Position | None,
        partitions: Mapping[str, int],
        start: Position | None = None,
    ) -> DataFrame:
        """The records between two offsets, partition by partition; from `start` on, if it is given."""
        first = between.start
        if first is None and between.kept is not None and between.end is not None:
            first = Folder(reading.session, between.kept).read(f"{between.kept}/0")
        starts, ends = (offsets_in(text) for text in (first, between.end))
        spans = {
            "assign": json.dumps({topic: sorted(map(int, parts)) for topic, parts in ends.items()}),
            # A partition that was added while the run went on was read from its oldest record.
            "startingOffsets": json.dumps({t: {p: starts.get(t, {}).get(p, -2) for p in ps} for t, ps in ends.items()}),
            "endingOffsets": json.dumps(ends),
        }
        settings = self._settings(reading, partitions, None, None)
        if ends:
            settings = {k: v for k, v in settings.items() if k != "subscribe"} | spans
        if start is not None:
            settings |= start.starting({topic: len(parts) for topic, parts in ends.items()})
        frame = reading.session.read.format("kafka").options(**java_settings(client)).options(**settings).load()
        if not ends:
            return frame.where("false")
        return frame if stop is None else frame.where(_before(stop, partitions))

    def _settings(
        self, reading: Reading, partitions: Mapping[str, int], start: Position | None, stop: Position | None
    ) -> dict[str, str]:
        given = self.options
        settings = {
            "subscribe": ",".join(given.topic),
            "failOnDataLoss": str(given.on_lost == "stop").lower(),
            "groupIdPrefix": f"headrace-{reading.place.flow}-{reading.place.step}",
            "includeHeaders": str("headers" in given.metadata).lower(),
            "kafka.isolation.level": "read_committed",
            **{f"kafka.{name}": value for name, value in {**reading.tuned, **given.client}.items()},
        }
        settings |= start.starting(partitions) if start else {"startingOffsets": self._first(reading.streaming)}
        if not reading.streaming:
            settings |= stop.ending(partitions) if stop else {"endingOffsets": "latest"}
        elif not reading.real_time and (most := given.per_batch or reading.per_batch or "all") != "all":
            settings["maxOffsetsPerTrigger"] = str(most)
        return settings

    def _first(self, streaming: bool) -> str:
        # A batch over the records that have yet to come would always be empty.
        return self.options.start if streaming else "earliest"


@connector(
    "kafka",
    options=KafkaSinkOptions,
    example="""
totals:
  from: per_user
  kafka: {topic: totals, key: user}
  format: json
""",
)
class KafkaSink(TransactionalSink[KafkaSinkOptions]):
    """One record per row. With a `key`, new values for a key can be sent: the last record of a key holds.

    A row that is taken back becomes a record without a value, by which a compacted topic forgets the key.

    Exactly-once, and at-most-once, is by transactions: consumers that read only committed records (`read_committed`)
    see each record once. `delivery: at-least-once` writes without them, through Spark's own writer.
    """

    carries = "bytes"
    in_real_time = True
    default_format = "json"
    task_by_task = True
    keeps_all = True

    def takes_updates(self) -> bool:
        return self.options.key is not None

    def key(self) -> tuple[str, ...]:
        return (self.options.key,) if self.options.key else ()

    def begins(self, place: Place) -> None:
        client = client_settings(self.options.bootstrap, place.kafka, place.step)
        note_before(place, lambda: ends_of(client, self.options.topic, place.step))

    def newest(self, session: SparkSession, place: Place) -> int | None:
        name = known_writer(place)
        if name is None:
            return None
        return newest_mark(client_settings(self.options.bootstrap, place.kafka, place.step), name, place.step)

    def holds(self, holding: Holding) -> DataFrame | None:
        """The records from where the topic ended when the run began; of those with one key, the last."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        assert holding.format is not None
        client = client_settings(self.options.bootstrap, holding.place.kafka, holding.place.step)
        known = partitions_of(client, (self.options.topic,), holding.place.step)[self.options.topic]
        before: dict[str, int] = noted_before(holding.place) or {}
        start = {self.options.topic: {str(n): before.get(str(n), -2) for n in range(known)}}
        settings = {
            "subscribe": self.options.topic,
            "startingOffsets": json.dumps(start),
            "endingOffsets": "latest",
            "kafka.isolation.level": "read_committed",
        }
        records = holding.session.read.format("kafka").options(**java_settings(client)).options(**settings).load()
        if self.options.key is not None:
            newest = Window.partitionBy("partition", "key").orderBy(F.desc("offset"))
            records = records.withColumn("_rank", F.row_number().over(newest)).where("_rank = 1 AND value IS NOT NULL")
        row, _ = holding.format.decode(F.col("value"), holding.schema)
        return records.select(row.alias("_row")).select("_row.*")

    def write(self, frame: DataFrame, batch: Batch) -> Written:
        client = client_settings(self.options.bootstrap, batch.place.kafka, batch.place.step)
        require_topic(client, self.options.topic, self.options.partitions, batch.place.step)
        records = self._records(frame)
        with trouble(client, self.options.topic, batch.place.step):
            if batch.delivery is not Delivery.AT_LEAST_ONCE:  # Spark's own writer sends again when it repeats a task
                tuned = {**batch.tuned, **self.options.client}
                return write_once(records, client, self.options.topic, batch.id, writer(batch), batch.place.step, tuned)
            counted = RowCount(records)
            options = {**java_settings(client), **self._writing(batch)}
            counted.frame.write.format("kafka").options(**options).save()
            return Written(written=counted.rows())

    def stream(self, frame: DataFrame, batch: Batch) -> DataStreamWriter:
        client = client_settings(self.options.bootstrap, batch.place.kafka, batch.place.step)
        require_topic(client, self.options.topic, self.options.partitions, batch.place.step)
        options = {**java_settings(client), **self._writing(batch)}
        return self._records(frame).writeStream.format("kafka").options(**options)

    def _writing(self, batch: Batch) -> dict[str, str]:
        return {
            "topic": self.options.topic,
            "includeHeaders": str(bool(self.options.headers)).lower(),
            "kafka.acks": "all",
            **{f"kafka.{name}": value for name, value in {**batch.tuned, **self.options.client}.items()},
        }

    def _records(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        columns: list[Column] = [F.col("value")]
        if self.options.key is not None:
            columns.append(column(self.options.key).cast("string").alias("key"))
        if self.options.headers:
            pairs = [
                F.struct(F.lit(name).alias("key"), F.lit(text).cast("binary").alias("value"))
                for name, text in self.options.headers.items()
            ]
            columns.append(F.array(*pairs).alias("headers"))
        return frame.select(*columns)


def _without_deleted(frame: DataFrame) -> DataFrame:
    """The records of a topic that no later one without a value, of the same key, says to be deleted."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    deletes = F.col("value").isNull() & F.col("key").isNotNull()
    last = F.max(F.when(deletes, F.col("offset"))).over(Window.partitionBy("topic", "partition", "key"))
    gone = F.coalesce(last, F.lit(-1))
    return frame.withColumn("_gone", gone).where("offset > _gone").drop("_gone")


def _before(stop: Position, partitions: Mapping[str, int]) -> Column:
    from pyspark.sql import functions as F

    if stop.time is not None:
        return F.col("timestamp") < F.lit(stop.time)
    inside = F.lit(False)
    for topic, count in partitions.items():
        for number in range(count):
            end = stop.offset(number)
            here = (F.col("topic") == topic) & (F.col("partition") == number)
            inside = inside | (here if end is None else here & (F.col("offset") < end))
    return inside
