"""Exactly-once into Kafka: rows and a mark of their batch in one transaction, per task.

Spark's own Kafka writer may write a repeated batch twice. Here each task of a batch writes with a transactional
producer whose id is the writer's name and the task's, and in the same transaction a mark, "batch N is written", to a
compacted topic. A task that finds its mark skips. A micro-batch is repeated with the same rows in tasks of the same
names (`tasks.py`), so the mark means the same rows.

The order makes it safe against a zombie: the producer is initialised first, which ends whatever an older producer
of the same id had open and shuts it out; only then is the mark read. A transaction that an older one could still
commit is therefore seen, and one it could not is undone.

Marks are read only by a task whose producer is new. The driver remembers which worker process last wrote for a
task; a task in that process goes on with the producer it has.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.connectors.base import Written
from headrace.connectors.kafka_client import require_topic
from headrace.connectors.tasks import name_tasks, task_name
from headrace.errors import EndpointError

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Producer
    from pyspark.sql import DataFrame

MARKS = "headrace.marks"
"""The topic of marks: key "writer/task", value the last batch id; compacted."""
_LONGEST = 600_000
"""Milliseconds a transaction may take; the broker ends it then."""
_FEW = 5000
"""Rows handed to the producer at a time."""


@dataclass
class _Open:
    """A producer of this worker process, ready for its next transaction."""

    producer: Producer
    last: int
    """The last batch its task has the mark of."""


_process = uuid.uuid4().hex
_open: dict[tuple[str, str], _Open] = {}
"""In a worker: its producers by writer and task."""
_writers: dict[str, dict[str, str]] = {}
"""In the driver: which worker process wrote for each task last."""


def write_once(
    frame: DataFrame,
    client: Mapping[str, str],
    topic: str,
    batch_id: int,
    who: str,
    step: str,
    tuned: Mapping[str, str] | None = None,
) -> Written:
    """Writes the frame's `key` and `value` columns as one batch, once, however often it is repeated.

    `tuned` is how the producer is set.
    """
    require_topic(client, MARKS, 1, step, compacted=True)
    known = _writers.setdefault(who, {})
    work = _work(dict(client), topic, batch_id, who, dict(known), dict(tuned or {}))
    done = frame.mapInArrow(work, "task STRING, process STRING, written BIGINT, skipped BIGINT")
    name_tasks(done)
    rows = done.collect()
    known |= {row["task"]: row["process"] for row in rows}
    return Written(written=sum(r["written"] for r in rows), skipped=sum(r["skipped"] for r in rows))


def _work(
    client: dict[str, str], topic: str, batch_id: int, who: str, known: dict[str, str], tuned: dict[str, str]
) -> Any:
    """The work of one task, for mapInArrow; runs in a worker."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from headrace.connectors import kafka_transactions as here

        task = task_name()
        result = here.write_part(batches, client, topic, batch_id, who, task, known.get(task), tuned)
        if result is not None:
            columns = {
                "task": pa.array([task]),
                "process": pa.array([here._process]),
                "written": pa.array([result.written], pa.int64()),
                "skipped": pa.array([result.skipped], pa.int64()),
            }
            yield pa.RecordBatch.from_pydict(columns)

    return run


def write_part(
    batches: Iterator[pa.RecordBatch],
    client: Mapping[str, str],
    topic: str,
    batch_id: int,
    who: str,
    task: str,
    last_process: str | None,
    tuned: Mapping[str, str] | None = None,
) -> Written | None:
    """Writes what one task has of a batch in one transaction; None if it has no rows and so needs no mark."""
    first = next((b for b in batches if b.num_rows), None)
    if first is None:
        return None
    opened = _open.get((who, task))
    if opened is None or last_process != _process:
        opened = _initialise(client, who, task, tuned)
        _open[who, task] = opened
    if opened.last >= batch_id:
        return Written(skipped=first.num_rows + sum(b.num_rows for b in batches))
    producer, count = opened.producer, 0
    try:
        producer.begin_transaction()
        for batch in _with_first(first, batches):
            count += batch.num_rows
            _produce(producer, topic, batch)
        producer.produce(MARKS, key=f"{who}/{task}", value=str(batch_id))
        producer.commit_transaction(_LONGEST / 1000)
    except BaseException:
        # The transaction is left to be undone by the next producer of this id; this one must not be used again.
        _open.pop((who, task), None)
        raise
    opened.last = batch_id
    return Written(written=count)


def _with_first(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _initialise(client: Mapping[str, str], who: str, task: str, tuned: Mapping[str, str] | None = None) -> _Open:
    """A producer that has shut out its predecessors, and the last batch that is marked."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            **client,
            "transactional.id": f"{who}/{task}",
            "transaction.timeout.ms": _LONGEST,
            **(tuned or {}),
            "queue.buffering.max.messages": 500_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(60)
    return _Open(producer, last_mark(client, f"{who}/{task}"))


def last_mark(client: Mapping[str, str], key: str) -> int:
    """The last batch id marked under a key; -1 if there is none."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer(
        {
            **client,
            "group.id": "headrace-marks",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    last = -1
    try:
        consumer.assign([TopicPartition(MARKS, 0, 0)])
        while True:
            message = consumer.poll(60)
            if message is None:
                raise EndpointError(f"the marks in topic {MARKS} could not be read within a minute")
            trouble = message.error()
            if trouble is not None:
                if trouble.name() == "_PARTITION_EOF":
                    return last
                raise KafkaException(trouble)
            if message.key() == key.encode():
                last = max(last, int(message.value() or b"-1"))
    finally:
        consumer.close()


def _produce(producer: Producer, topic: str, batch: pa.RecordBatch) -> None:
    """Hands the rows over; waits where the producer's queue is full, so that nothing is dropped."""
    names = batch.schema.names
    values = batch.column(names.index("value")).to_pylist()
    keys = batch.column(names.index("key")).to_pylist() if "key" in names else [None] * len(values)
    headers = batch.column(names.index("headers")).to_pylist() if "headers" in names else None
    for start in range(0, len(values), _FEW):
        for number in range(start, min(start + _FEW, len(values))):
            pairs = [(h["key"], h["value"]) for h in headers[number]] if headers and headers[number] else None
            while True:
                try:
                    producer.produce(topic, value=values[number], key=keys[number], headers=pairs)
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.poll(0)
