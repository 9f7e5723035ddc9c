"""Generator: realistic records, made up from a seed; see `generators.py` for the kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from pydantic import Field as Option

from headrace.connectors.base import Reading, ReplayableSource, connector
from headrace.connectors.generators import START, make
from headrace.connectors.indexed import Numbered, read_numbers
from headrace.errors import FlowError, Problem
from headrace.model import Schema
from headrace.options import Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_PER_BATCH = 100_000


class GeneratorOptions(Options):
    """Which records, how fast and how many."""

    shorthand = "kind"

    kind: Literal["card_payments", "clicks", "orders", "sensors", "tweets"] = Option(
        description="What the records are about.", examples=["orders"]
    )
    rate: float = Option(
        10.0, gt=0, le=10**9, description="Records per second, also by their event times.", examples=[1000]
    )
    seed: int = Option(0, description="Another seed gives other records; the same one the same.", examples=[42])
    limit: int | None = Option(
        None, ge=1, description="Records in all, then it is finished; needed in batch mode.", examples=[10_000]
    )
    start: datetime = Option(START, description="Event time of the first record.", examples=["2026-01-01T00:00:00Z"])


@connector(
    "generator",
    options=GeneratorOptions,
    example="""
orders:
  generator: {kind: orders, rate: 100, limit: 10000}
""",
)
class GeneratorSource(ReplayableSource[GeneratorOptions]):
    """Made-up records at a steady pace; one in twenty comes a few seconds late.

    With a `limit`, `--until-done` and batch mode give all of them at once, without waiting.
    """

    def columns(self) -> Schema:
        return make(self.options.kind).schema

    def read(self, reading: Reading) -> DataFrame:
        if not reading.streaming and reading.between is None and self.options.limit is None:
            raise FlowError(
                Problem(
                    code="missing-option",
                    message=f'source "{reading.place.step}" (generator) never ends, so it cannot be read as a batch',
                    step=reading.place.step,
                    hint="say how many records with `limit`",
                )
            )
        given, schema = self.options, self.columns()
        kind, seed, rate = given.kind, given.seed, given.rate
        start = given.start if given.start.tzinfo else given.start.replace(tzinfo=UTC)

        def rows(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            from headrace.connectors.arrow import arrow_schema

            one = make(kind).record
            for some in numbers:
                yield pa.RecordBatch.from_pylist(
                    [one(seed, number, start, rate) for number in some.column(0).to_pylist()],
                    schema=arrow_schema(schema),
                )

        numbered = Numbered(total=given.limit, per_second=rate, per_batch=_PER_BATCH)
        return read_numbers(numbered, reading).mapInArrow(rows, schema.ddl())
