"""Spout: records that a class of the author's hands over, one after another, landed before they are used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field as Option
from pydantic import model_validator

from headrace.author.callables import ClassOption, travel_by_value
from headrace.author.topology import Spout
from headrace.connectors.arrow import arrow_schema, fit_row
from headrace.connectors.base import Reading, ReplayableSource, connector
from headrace.connectors.indexed import BEHIND, FIRST, rows_of
from headrace.connectors.landing import ID, Landing
from headrace.errors import FlowError, Problem
from headrace.model import Delivery, Schema
from headrace.model.types import TypeSyntaxError
from headrace.options import Options, refuse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_ROWS_PER_TASK = 20_000
_REMEMBERED = 100_000
"""Acknowledged ids that are still recognised: an outside that was slow to hear of it may give a record again."""


class SpoutOptions(Options):
    """Which class, and what it is made with."""

    shorthand = "python"

    python: ClassOption = Option(description="A Spout class, `module:Class`.")
    arguments: dict[str, Any] = Option({}, description="What the class is made with, by name.")
    per_batch: int = Option(10_000, ge=1, description="Most records in one batch.", examples=[1000])

    @model_validator(mode="after")
    def _is_one(self) -> SpoutOptions:
        made = self.python.made
        if not (isinstance(made, type) and issubclass(made, Spout)):
            raise refuse("bad-function", f"{self.python} is not a Spout", "derive it from headrace.Spout")
        try:
            if not Schema.parse(made.returns).fields:
                raise refuse("missing-option", f"{self.python} does not say its columns", 'returns = "name TYPE, …"')
        except TypeSyntaxError as error:
            raise refuse("bad-schema", f"the columns of {self.python}: {error}") from None
        return self


@connector(
    "spout",
    options=SpoutOptions,
    example="""
numbers:
  spout: {python: "headrace.connectors.spout:Numbers", arguments: {up_to: 100}}
""",
)
class SpoutSource(ReplayableSource[SpoutOptions]):
    """Records of a `headrace.Spout` class, each on disk in the run's home before a batch has it.

    So a batch is repeated with the same records, whatever the spout would give by then. `ack(id)` is called when every
    query that reads a record has committed it; then it is removed from disk. In batch mode it is asked until it has
    nothing, and nothing is acknowledged. The spout lives in one process beside the driver; `open` is called in each new
    one, and `seek` behind it with how many records are landed.
    """

    def __init__(self, options: SpoutOptions) -> None:
        super().__init__(options)
        self.strongest, self.weakness = promise(options.python.made)  # type: ignore[misc]

    def columns(self) -> Schema:
        return Schema.parse(self.options.python.made.returns)

    def read(self, reading: Reading) -> DataFrame:
        travel_by_value(self.options.python.made)
        kind = _data_source(self.options, self.columns(), reading)
        reading.session.dataSource.register(kind)
        reader = reading.session.readStream if reading.streaming else reading.session.read
        reader = reader.format(kind.name()).schema(self.columns().ddl())
        if reading.between is not None:
            first, behind = rows_of(reading.between)
            self._must_have(first, behind, reading)
            reader = reader.option(FIRST, first).option(BEHIND, behind)
        return reader.load()

    def _must_have(self, first: int, behind: int, reading: Reading) -> None:
        landing = Landing(reading.place.home / "landed", ())
        if sum(batch.num_rows for batch in landing.read(first, behind)) < behind - first:
            message = f'source "{reading.place.step}" (spout) no longer has all records from {first} to {behind}'
            hint = "what is acknowledged is removed; write it to a topic first to read it again later"
            raise FlowError(Problem(code="unsupported", message=message, step=reading.place.step, hint=hint))


def promise(made: type[Spout]) -> tuple[Delivery, str]:
    """What can be promised of a spout, by what it can do, and why not more."""
    if made.seek is not Spout.seek:
        return Delivery.EXACTLY_ONCE, ""
    if made.ack is not Spout.ack:
        return (
            Delivery.AT_LEAST_ONCE,
            "it cannot be told where to go on (no seek), so what was not acknowledged may come twice",
        )
    return Delivery.AT_MOST_ONCE, "it has neither seek nor ack, so what was taken and not yet landed is lost in a crash"


class Numbers(Spout):
    """A spout as an example: the numbers below one, from wherever it is told to go on."""

    returns = "n BIGINT"

    def __init__(self, up_to: int = 10) -> None:
        self.up_to, self.at = up_to, 0

    def seek(self, position: int) -> None:
        self.at = position

    def next(self) -> dict[str, Any]:
        if self.at >= self.up_to:
            raise StopIteration
        self.at += 1
        return {"n": self.at - 1}


class Asking:
    """A spout being asked, by one process at a time, and what it gave being landed and acknowledged."""

    def __init__(self, spout: Spout, schema: Schema, landing: Landing) -> None:
        self._spout, self._schema, self._landing = spout, schema, landing
        self._open = self._over = False
        self._known: dict[str, None] = {}
        """Ids that are recognised if they come again: open ones, and those acknowledged of late, the oldest first."""

    def advance(self, most: int) -> None:
        """Tells the spout what is done, asks it, and lands what it gives; nothing if another process does."""
        if not self._landing.take():
            return
        if not self._open:
            self._begin()
        self._acknowledge()
        records = self._ask(most)
        if records:
            try:
                self._landing.land(self._batch(records))
            except Exception:
                for _, id_ in records:
                    if id_ is not None:
                        self._spout.fail(json.loads(id_))
                raise
            self._remember(id_ for _, id_ in records if id_ is not None)

    def _begin(self) -> None:
        self._spout.open()
        end = self._landing.end()
        if end:
            self._spout.seek(end)
        self._remember(_key(id_) for id_ in self._landing.ids(self._landing.acknowledged(), end))
        for id_ in self._landing.ids(max(self._landing.done(), self._landing.acknowledged()), end):
            self._spout.fail(id_)
        self._open = True

    def _acknowledge(self) -> None:
        before, done = self._landing.acknowledged(), self._landing.done()
        if done > before:
            for id_ in self._landing.ids(before, done):
                self._spout.ack(id_)
            self._landing.acknowledge(done)

    def _ask(self, most: int) -> list[tuple[dict[str, Any], str | None]]:
        found: list[tuple[dict[str, Any], str | None]] = []
        new: set[str | None] = set()
        while len(found) < most and not self._over:
            try:
                given = self._spout.next()
            except StopIteration:
                self._over = True
                break
            if given is None:
                break
            record, id_ = given if isinstance(given, tuple) else (given, None)
            key = None if id_ is None else _key(id_)
            if key is None or (key not in self._known and key not in new):
                found.append((dict(record), key))
                new.add(key)
        return found

    def _remember(self, ids: Iterable[str]) -> None:
        self._known |= dict.fromkeys(ids)
        done = len(self._known) - _REMEMBERED - (self._landing.end() - self._landing.acknowledged())
        for id_ in list(self._known)[: max(0, done)]:
            del self._known[id_]

    def _batch(self, records: list[tuple[dict[str, Any], str | None]]) -> pa.RecordBatch:
        import pyarrow as pa

        schema = arrow_schema(self._schema)
        rows = [fit_row(record, self._schema) for record, _ in records]
        columns = [pa.array([row[f.name] for row in rows], type=f.type) for f in schema]
        ids = pa.array([id_ for _, id_ in records], type=pa.string())
        return pa.RecordBatch.from_arrays([*columns, ids], schema=schema.append(pa.field(ID, pa.string())))

    def close(self) -> None:
        """Ends the asking."""
        if self._open:
            self._spout.close()
            self._open = False
        self._landing.release()


def _key(id_: Any) -> str:
    return json.dumps(id_, sort_keys=True)


def _name(reading: Reading) -> str:
    """What the source is called in Spark's registry of data sources."""
    return "_".join(("headrace", *(re.sub(r"\W", "_", name) for name in (reading.place.flow, reading.place.step))))


def _data_source(options: SpoutOptions, schema: Schema, reading: Reading) -> Any:
    """A class for Spark's Python data source API; made here so that pyspark is imported only when it is needed."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

    kind, made, arguments = _name(reading), options.python.made, options.arguments
    folder, query, readers = reading.place.home / "landed", reading.query, reading.readers or (reading.query,)
    most, names = options.per_batch, list(schema.names)

    def landing() -> Landing:
        return Landing(folder, readers)

    def pieces(start: int, end: int) -> list[InputPartition]:
        return [
            InputPartition(_packed(landing(), first, min(first + _ROWS_PER_TASK, end)))
            for first in range(start, end, _ROWS_PER_TASK)
        ]

    def rows(partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if partition.value:
            with pa.ipc.open_stream(partition.value) as reader:
                for batch in reader:
                    yield batch.select(names)

    class BatchReader(DataSourceReader):
        def __init__(self, between: tuple[int, int] | None) -> None:
            self.between = between

        def partitions(self) -> Sequence[InputPartition]:
            if self.between is not None:
                return pieces(*self.between) or [InputPartition(b"")]
            asking = Asking(made(**arguments), schema, landing())
            before = -1
            while landing().end() > before:
                before = landing().end()
                asking.advance(most)
            asking.close()
            return pieces(0, landing().end()) or [InputPartition(b"")]  # Spark asks for one even if it is empty

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return rows(partition)

    class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        def __init__(self) -> None:
            self._asking: Asking | None = None

        def initialOffset(self) -> dict[str, int]:  # noqa: N802
            return {"row": 0}

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            return ReadMaxRows(most)

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            return

        def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
            # All batches before this one are committed: Spark plans the next one only then.
            here = landing()
            here.commit(query, start["row"])
            if self._asking is None:
                self._asking = Asking(made(**arguments), schema, here)
            if here.end() - start["row"] < most:
                self._asking.advance(most)
            return {"row": min(here.end(), start["row"] + most)}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
            return pieces(start["row"], end["row"])

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return rows(partition)

        def stop(self) -> None:
            if self._asking is not None:
                self._asking.close()

    class Landed(DataSource):
        @classmethod
        def name(cls) -> str:
            return kind

        def schema(self) -> str:
            return schema.ddl()

        def reader(self, schema: Any) -> DataSourceReader:
            given = self.options
            return BatchReader((int(given[FIRST]), int(given[BEHIND])) if FIRST in given else None)

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
            return StreamReader()

    return Landed


def _packed(landing: Landing, start: int, end: int) -> bytes:
    """The records of a range as they travel to whoever computes with them: it need not see the run's home."""
    import pyarrow as pa

    batches = list(landing.read(start, end))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
