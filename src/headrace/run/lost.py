"""Records that Kafka has deleted before a run has read them: which they are, and what to do about it.

Retention moves the oldest offset of a partition. Where it lies behind the offset a run goes on from, the records
in between are lost to the run. They are noted in the ledger; the run stops, or goes on behind them, as the source's
`on_lost` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.compile.plan import Plan, Query
from headrace.connectors.kafka_offsets import offsets_in
from headrace.errors import DataError
from headrace.model import Source
from headrace.run.checkpoint import last_committed, last_planned, planned
from headrace.run.ledger import Lost
from headrace.run.spans import Span

if TYPE_CHECKING:
    from confluent_kafka import Consumer

Oldest = Mapping[tuple[str, int], int]
"""The oldest offset that is there, by topic and partition."""
_PATIENCE = 10.0


def behind(query: str, source: str, spans: Iterable[Span], oldest: Oldest, batch: int | None = None) -> list[Lost]:
    """What of these spans is not there any more.

    >>> [str(lost) for lost in behind("q", "s", [Span("orders", 0, 5, 9)], {("orders", 0): 7})]
    ['orders, partition 0: offsets 5 to 6']
    """
    found = []
    for span in spans:
        end = min(oldest.get((span.topic, span.partition), span.start), span.end)
        if end > span.start:
            found.append(
                Lost(
                    query=query,
                    source=source,
                    topic=span.topic,
                    partition=span.partition,
                    start=span.start,
                    end=end,
                    batch=batch,
                )
            )
    return found


def lost_in(
    plan: Plan, query: Query, source: str, spans: Iterable[Span], missing: int, kafka: Mapping[str, str], batch: int
) -> list[Lost]:
    """What a batch that was short of some records could not read; records deleted after it had read them are not."""
    part = plan.flow[source]
    assert isinstance(part, Source)
    if part.options.on_lost == "stop":  # Spark would have ended the batch
        return []
    wanted = list(spans)
    found = behind(query.name, source, wanted, oldest(client_of(part, kafka), wanted), batch)
    return at_most(found, missing)


def at_most(lost: Iterable[Lost], missing: int) -> list[Lost]:
    """The first so many of the lost; those behind were deleted only after the batch had read them."""
    kept: list[Lost] = []
    for one in lost:
        records = min(one.records, missing)
        missing -= records
        if records:
            kept.append(replace(one, end=one.start + records))
    return kept


def unread(plan: Plan, query: Query, checkpoint: Path, kafka: Mapping[str, str]) -> list[Lost]:
    """What is gone of that which a query would read next."""
    done, begun = last_committed(checkpoint), last_planned(checkpoint)
    if begun is None or done is None:
        return []
    found: list[Lost] = []
    sources = [s for s in plan.flow.sources if s.name in query.sources and s.connector == "kafka"]
    entry = planned(checkpoint, done)
    for source in sources:
        ends = [offsets_in(text) for text in entry.offsets if text.startswith("{")]
        wanted = [
            Span(topic, int(partition), at, 2**63 - 1)
            for offsets in ends
            for topic, partitions in offsets.items()
            if topic in source.options.topic and isinstance(partitions, Mapping)
            for partition, at in partitions.items()
        ]
        found += behind(query.name, source.name, wanted, oldest(client_of(source, kafka), wanted))
    return found


def refuse(plan: Plan, lost: Iterable[Lost]) -> None:
    """Raises DataError for what was lost by sources that stop then."""
    stopping = [one for one in lost if _options(plan, one.source).on_lost == "stop"]
    if stopping:
        records = sum(one.records for one in stopping)
        names = ", ".join(dict.fromkeys(f'"{one.source}"' for one in stopping))
        raise DataError(
            f"Kafka has deleted {records:,} record{'s' if records != 1 else ''} that source {names} had not read yet",
            detail="; ".join(str(one) for one in stopping),
            hint="`on_lost: continue` on the source goes on behind them; --fresh begins anew with what is there",
        )


def _options(plan: Plan, source: str) -> Any:
    part = plan.flow[source]
    assert isinstance(part, Source)
    return part.options


def client_of(source: Source, kafka: Mapping[str, str]) -> Mapping[str, str]:
    """How to reach the Kafka of a source."""
    own = source.options.bootstrap
    return {"bootstrap.servers": own} if own else kafka


def oldest(client: Mapping[str, str], spans: Iterable[Span]) -> dict[tuple[str, int], int]:
    """Asks Kafka for the oldest offset of each partition."""
    from confluent_kafka import Consumer, TopicPartition

    consumer: Consumer = Consumer({**client, "group.id": "headrace-lost", "log_level": 0})
    try:
        return {
            (span.topic, span.partition): consumer.get_watermark_offsets(
                TopicPartition(span.topic, span.partition), timeout=_PATIENCE
            )[0]
            for span in spans
        }
    finally:
        consumer.close()
