"""Offsets that hold no record: the ends of transactions, records of undone ones, and what compaction has removed.

Where a batch read fewer records than it went on by offsets, a client of our own reads the same offsets and counts:
a count apart from Spark's, so that a record Spark lost is not taken for a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.compile.plan import Plan
from headrace.errors import EndpointError
from headrace.model import Source
from headrace.run.home import Home
from headrace.run.journal import Journal
from headrace.run.ledger import Entry, Ledger, Lost
from headrace.run.lost import client_of
from headrace.run.spans import Span, spans

_PATIENCE = 30.0


@dataclass(frozen=True, kw_only=True)
class Short:
    """A batch that read fewer records of a source than it went on by offsets, less what is known to be lost."""

    query: str
    batch: int
    source: str


def short(entries: Iterable[Entry], lost: Iterable[Lost]) -> list[Short]:
    """The batches in which something is missing at a source."""
    gone: dict[tuple[str, int | None, str], int] = {}
    for one in lost:
        key = (one.query, one.batch, one.source)
        gone[key] = gone.get(key, 0) + one.records
    return [
        Short(query=entry.query, batch=entry.batch, source=line.part)
        for entry in entries
        for line in entry.lines
        if line.balance == "source"
        and line.numbers.get("offsets", 0)
        - line.numbers.get("read", 0)
        - gone.get((entry.query, entry.batch, line.part), 0)
        > 0
    ]


def count_gaps(home: Home, plan: Plan, wanted: Iterable[Short], kafka: Mapping[str, str], stop: str | None) -> None:
    """Counts the gaps of these batches and notes them in the ledger; those whose records are gone stay unknown."""
    ledger = Ledger(home.ledger)
    lost = ledger.lost()
    for one in wanted:
        journal = Journal(home.journal(one.query)).entries()
        if one.batch not in journal or (one.batch > 0 and one.batch - 1 not in journal):
            continue
        before = journal.get(one.batch - 1)
        went = spans(plan, before, journal[one.batch], home.checkpoint(one.query), stop)[one.source]
        source = plan.flow[one.source]
        assert isinstance(source, Source)
        behind = {(g.topic, g.partition): g.end for g in lost if (g.query, g.batch) == (one.query, one.batch)}
        there = [Span(s.topic, s.partition, max(s.start, behind.get((s.topic, s.partition), 0)), s.end) for s in went]
        empty = [_empty(client_of(source, kafka), span) for span in there if span.offsets]
        if None not in empty:
            ledger.know(one.query, one.batch, one.source, sum(n for n in empty if n is not None))


def _empty(client: Mapping[str, str], span: Span) -> int | None:
    """How many offsets of a span hold no committed record; None if its beginning is not there any more."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    settings = {
        "group.id": "headrace-audit",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "log_level": 0,
    }
    consumer = Consumer({**client, **settings})
    try:
        low, _ = consumer.get_watermark_offsets(TopicPartition(span.topic, span.partition), timeout=_PATIENCE)
        if low > span.start:
            return None
        consumer.assign([TopicPartition(span.topic, span.partition, span.start)])
        records = 0
        while True:
            message = consumer.poll(_PATIENCE)
            if message is None:
                raise EndpointError(f'topic "{span.topic}", partition {span.partition} could not be read for the audit')
            trouble = message.error()
            if trouble is not None and trouble.name() != "_PARTITION_EOF":
                raise KafkaException(trouble)
            if trouble is not None or (message.offset() or 0) >= span.end:
                return span.offsets - records
            records += 1
            if (message.offset() or 0) == span.end - 1:
                return span.offsets - records
    finally:
        consumer.close()
