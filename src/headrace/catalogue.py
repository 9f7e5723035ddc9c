"""Everything a flow can be made of: the explicit, sorted list of operators, connectors and formats."""

from __future__ import annotations

from typing import Any

from headrace.connectors.base import SinkConnector, SourceConnector
from headrace.connectors.console import ConsoleSink
from headrace.connectors.files import FilesSink, FilesSource
from headrace.connectors.generator import GeneratorSource
from headrace.connectors.kafka import KafkaSink, KafkaSource
from headrace.connectors.memory import MemorySink
from headrace.connectors.postgresql import PostgresqlSink
from headrace.connectors.rate import RateSource
from headrace.connectors.socket import SocketSource
from headrace.connectors.sqlite import SqliteSink
from headrace.connectors.values import ValuesSource
from headrace.formats.base import Format
from headrace.formats.csv import CsvFormat
from headrace.formats.json import JsonFormat
from headrace.formats.parquet import ParquetFormat
from headrace.formats.raw import RawFormat
from headrace.formats.text import TextFormat
from headrace.operators.aggregate import Aggregate
from headrace.operators.as_of import AsOf
from headrace.operators.base import Operator
from headrace.operators.distinct import Distinct
from headrace.operators.drop import Drop
from headrace.operators.explode import Explode
from headrace.operators.filter import Filter
from headrace.operators.join import Join
from headrace.operators.limit import Limit
from headrace.operators.lookup import Lookup
from headrace.operators.process import Process
from headrace.operators.records import FlatMap, Map
from headrace.operators.rename import Rename
from headrace.operators.select import Select
from headrace.operators.split import Split
from headrace.operators.union import Union
from headrace.operators.with_ import With

SOURCES: dict[str, type[SourceConnector[Any]]] = {
    c.name: c for c in (FilesSource, GeneratorSource, KafkaSource, RateSource, SocketSource, ValuesSource)
}
SINKS: dict[str, type[SinkConnector[Any]]] = {
    c.name: c for c in (ConsoleSink, FilesSink, KafkaSink, MemorySink, PostgresqlSink, SqliteSink)
}
FORMATS: dict[str, type[Format[Any]]] = {
    f.name: f for f in (CsvFormat, JsonFormat, ParquetFormat, RawFormat, TextFormat)
}
OPERATORS: dict[str, type[Operator]] = {
    o.name: o
    for o in (
        Aggregate,
        AsOf,
        Distinct,
        Drop,
        Explode,
        Filter,
        FlatMap,
        Join,
        Limit,
        Lookup,
        Map,
        Process,
        Rename,
        Select,
        Split,
        Union,
        With,
    )
}
