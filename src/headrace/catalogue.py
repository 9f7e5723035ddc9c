"""Everything a flow can be made of: the explicit, sorted list of operators, connectors and formats.

An entry is loaded when it is first asked for: a check of one flow need not pay for what the flow does not use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar

from headrace.connectors.base import SinkConnector, SourceConnector
from headrace.formats.base import Format
from headrace.operators.base import Operator

T = TypeVar("T")


class Catalogue(Mapping[str, T], Generic[T]):
    """Classes by the name authors use; `entries` says where each is, as "module:Class" within a room."""

    def __init__(self, room: str, **entries: str) -> None:
        self._room, self._entries = room, entries
        self._loaded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            module, _, cls = self._entries[name].partition(":")
            self._loaded[name] = getattr(import_module(f"headrace.{self._room}.{module}"), cls)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


SOURCES: Catalogue[type[SourceConnector[Any]]] = Catalogue(
    "connectors",
    files="files:FilesSource",
    generator="generator:GeneratorSource",
    kafka="kafka:KafkaSource",
    postgresql="relations:PostgresqlSource",
    rate="rate:RateSource",
    socket="socket:SocketSource",
    spout="spout:SpoutSource",
    sqlite="relations:SqliteSource",
    values="values:ValuesSource",
)
SINKS: Catalogue[type[SinkConnector[Any]]] = Catalogue(
    "connectors",
    console="console:ConsoleSink",
    delta="delta:DeltaSink",
    files="files:FilesSink",
    kafka="kafka:KafkaSink",
    memory="memory:MemorySink",
    postgresql="postgresql:PostgresqlSink",
    sqlite="sqlite:SqliteSink",
)
FORMATS: Catalogue[type[Format[Any]]] = Catalogue(
    "formats",
    csv="csv:CsvFormat",
    json="json:JsonFormat",
    parquet="parquet:ParquetFormat",
    raw="raw:RawFormat",
    text="text:TextFormat",
)
OPERATORS: Catalogue[type[Operator]] = Catalogue(
    "operators",
    aggregate="aggregate:Aggregate",
    as_of="as_of:AsOf",
    bolt="bolt:BoltStep",
    distinct="distinct:Distinct",
    drop="drop:Drop",
    explode="explode:Explode",
    filter="filter:Filter",
    flat_map="records:FlatMap",
    join="join:Join",
    limit="limit:Limit",
    lookup="lookup:Lookup",
    map="records:Map",
    map_batches="batches:MapBatches",
    process="process:Process",
    rename="rename:Rename",
    select="select:Select",
    split="split:Split",
    union="union:Union",
    **{"with": "with_:With"},
)
