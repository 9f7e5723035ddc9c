"""Kafka: records read from topics, and written to one.

Delivery, as a source: exactly once; offsets are kept in the checkpoint and the same range is read again after a
crash. As a sink: at least once; a batch repeated after a crash is written again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import Field as Option

from headrace.connectors.base import AppendSink, Batch, Reading, ReplayableSource, connector
from headrace.connectors.kafka_offsets import Position, parse_position
from headrace.errors import EndpointError, FlowError, Problem
from headrace.formats.reasons import column
from headrace.model import Schema
from headrace.options import Names, Options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Metadata = Literal["key", "topic", "partition", "offset", "timestamp", "headers"]
_METADATA = {
    "key": ("kafka_key STRING", "CAST(key AS STRING)"),
    "topic": ("kafka_topic STRING", "topic"),
    "partition": ("kafka_partition INT", "partition"),
    "offset": ("kafka_offset BIGINT", "offset"),
    "timestamp": ("kafka_timestamp TIMESTAMP", "timestamp"),
    "headers": ("kafka_headers ARRAY<STRUCT<key: STRING, value: BINARY>>", "headers"),
}
_ANSWER_SECONDS = 15.0


class KafkaSourceOptions(Options):
    """What to read from Kafka."""

    shorthand = "topic"

    topic: Names = Option(min_length=1, description="Topic to read, or several.", examples=["orders"])
    bootstrap: str | None = Option(
        None,
        description="Address of another cluster than the project's; the project's client settings are then not used.",
        examples=["broker:9092"],
    )
    start: Literal["earliest", "latest"] = Option(
        "earliest", description="Where a run begins that has no checkpoint: at the oldest record, or at the next one."
    )
    per_batch: int | None = Option(
        1_000_000, ge=1, description="Most records in one batch; null: all there are.", examples=[100_000]
    )
    metadata: tuple[Metadata, ...] = Option(
        (),
        description="What to add behind the record's columns, each as kafka_<name>.",
        examples=[["key", "offset", "timestamp"]],
    )


class KafkaSinkOptions(Options):
    """What to write to Kafka."""

    shorthand = "topic"

    topic: str = Option(description="Topic to write to.", examples=["totals"])
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
    headers: dict[str, str] = Option(
        {}, description="Headers of each record, name to text.", examples=[{"origin": "headrace"}]
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
    the run fails and says so, rather than leave them out. `--from` and `--to` take an offset for all partitions
    ("1500"), one for each ("0:1500,1:1720"), or an ISO 8601 time; `--to` is not included.
    """

    carries = "bytes"

    def metadata(self) -> Schema:
        return Schema.parse(", ".join(_METADATA[name][0] for name in self.options.metadata))

    def read(self, reading: Reading) -> DataFrame:
        from pyspark.sql import functions as F

        client = _client(self.options.bootstrap, reading.place.kafka, reading.place.step)
        partitions = _partitions(client, self.options.topic, reading.place.step)
        start, stop = parse_position(reading.start, "--from"), parse_position(reading.stop, "--to")
        reader = reading.session.readStream if reading.streaming else reading.session.read
        frame = (
            reader.format("kafka")
            .options(**_java(client))
            .options(**self._settings(reading, partitions, start, stop))
            .load()
        )
        if reading.streaming and stop is not None:  # a stream has no end of its own: what lies behind it is left out
            frame = frame.where(_before(stop, partitions))
        return frame.select(
            "value", *(F.expr(_METADATA[name][1]).alias(f"kafka_{name}") for name in self.options.metadata)
        )

    def _settings(
        self, reading: Reading, partitions: Mapping[str, int], start: Position | None, stop: Position | None
    ) -> dict[str, str]:
        given = self.options
        settings = {
            "subscribe": ",".join(given.topic),
            "failOnDataLoss": "true",
            "groupIdPrefix": f"headrace-{reading.place.flow}-{reading.place.step}",
            "includeHeaders": str("headers" in given.metadata).lower(),
            "kafka.isolation.level": "read_committed",
            "kafka.max.poll.records": "5000",  # a fifth faster than the default of 500
        }
        settings |= start.starting(partitions) if start else {"startingOffsets": self._first(reading.streaming)}
        if not reading.streaming:
            settings |= stop.ending(partitions) if stop else {"endingOffsets": "latest"}
        elif given.per_batch is not None:
            settings["maxOffsetsPerTrigger"] = str(given.per_batch)
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
class KafkaSink(AppendSink[KafkaSinkOptions]):
    """One record per row. With a `key`, new values for a key can be sent: the last record of a key holds."""

    carries = "bytes"
    default_format = "json"

    def takes_updates(self) -> bool:
        return self.options.key is not None

    def key(self) -> tuple[str, ...]:
        return (self.options.key,) if self.options.key else ()

    def write(self, frame: DataFrame, batch: Batch) -> None:
        from pyspark.sql import functions as F

        client = _client(self.options.bootstrap, batch.place.kafka, batch.place.step)
        columns: list[Column] = [F.col("value")]
        if self.options.key is not None:
            columns.append(column(self.options.key).cast("string").alias("key"))
        if self.options.headers:
            pairs = [
                F.struct(F.lit(name).alias("key"), F.lit(text).cast("binary").alias("value"))
                for name, text in self.options.headers.items()
            ]
            columns.append(F.array(*pairs).alias("headers"))
        writer = frame.select(*columns).write.format("kafka").options(**_java(client))
        writer.options(
            **{
                "topic": self.options.topic,
                "includeHeaders": str(bool(self.options.headers)).lower(),
                "kafka.acks": "all",
                "kafka.linger.ms": "50",  # with the next two, twice as fast as the producer's defaults
                "kafka.compression.type": "lz4",
                "kafka.batch.size": "262144",
            }
        ).save()


def _client(bootstrap: str | None, project: Mapping[str, str], step: str) -> dict[str, str]:
    """Client settings; those of the project (and its credentials) are never sent to another cluster."""
    client = {"bootstrap.servers": bootstrap} if bootstrap else dict(project)
    if "bootstrap.servers" not in client:
        raise FlowError(
            Problem(
                code="missing-option",
                message=f'"{step}" (kafka) is not told the address of a Kafka cluster',
                step=step,
                hint="start one with `headrace broker start`, or set kafka.bootstrap in headrace.toml",
            )
        )
    return client


def _java(client: Mapping[str, str]) -> dict[str, str]:
    from headrace.kafka_settings import spark_kafka_options

    return dict(spark_kafka_options(client))


def _partitions(client: Mapping[str, str], topics: tuple[str, ...], step: str) -> dict[str, int]:
    """How many partitions each topic has; asks the broker, so what is not there is said in plain words."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        known = AdminClient({**client, "log_level": "0"}).list_topics(timeout=_ANSWER_SECONDS).topics
    except KafkaException as error:
        raise EndpointError(
            f'could not reach "{client["bootstrap.servers"]}" for source "{step}"',
            detail=str(error.args[0].str()),
            hint="`headrace broker status` says whether the local one runs",
        ) from None
    for topic in topics:
        if topic not in known:
            raise EndpointError(
                f'topic "{topic}", which source "{step}" reads, does not exist on "{client["bootstrap.servers"]}"',
                hint=f"headrace topic create {topic}",
            )
    return {topic: len(known[topic].partitions) for topic in topics}


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
