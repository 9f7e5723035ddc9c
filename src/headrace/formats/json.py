"""JSON: each record is one object; fields are found by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pydantic import Field as Option

from headrace.formats.base import Format, format_
from headrace.formats.reasons import column, first_reason, no_value, not_text, when
from headrace.model import Schema
from headrace.model.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGERS,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Map,
    Struct,
)
from headrace.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

_KNOWN = (STRING, BOOLEAN, *INTEGERS, FLOAT, DOUBLE, TIMESTAMP, DATE)
"""The types that `headrace.JsonReader` and `JsonWriter`, in Java, know, beside decimals and what is made of parts; all
others are Spark's."""
EXACT_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}
"""For whatever Spark writes as JSON or CSV: its own formats cut off the microseconds."""


class JsonOptions(Options):
    """How JSON is read and written."""

    nulls: bool = Option(True, description="Write fields that are null; false leaves them out.", examples=[False])


@format_("json", options=JsonOptions, example="format: json")
class JsonFormat(Format[JsonOptions]):
    """One object per record; in files, one per line. Fields that are missing are null, others are ignored.

    Not readable: what is not a JSON object, and a value that does not fit its column's type (`"abc"` or 1.5 for
    BIGINT). Text columns take any value as its JSON text. TIMESTAMP takes ISO 8601 text (without a zone: the
    session's, UTC) or a number of seconds since 1970; BINARY is base64.
    """

    def decode(self, value: Column, schema: Schema) -> tuple[Column, Column]:
        from pyspark.sql import Column
        from pyspark.sql import functions as F

        java, zone = _java()
        read = Column(java.JsonReader.column(value._jc, schema.ddl(), zone))
        text = value.cast("string")
        why = first_reason(
            no_value(value),
            not_text(text),
            when(~text.rlike(r"^\s*\{[\s\S]*\}\s*$"), "the record is not a JSON object"),
            F.lit("the record is not one JSON object, or a value does not fit its column"),
        )
        return read["row"], F.when(read["bad"], why)

    def encode(self, schema: Schema) -> Column:
        from pyspark.sql import Column
        from pyspark.sql import functions as F

        row = F.struct(*(column(name) for name in schema.names))
        java, zone = _java()
        return Column(java.JsonWriter.column(row._jc, schema.ddl(), zone, self._writing()))

    def decodes(self, schema: Schema, zone: str) -> str | None:
        return _how(schema, _unread)

    def encodes(self, schema: Schema, zone: str) -> str | None:
        return _how(schema, lambda part: _unwritten(part, zone))

    def file_options(self, *, writing: bool = False) -> tuple[str, Mapping[str, str]]:
        return "json", self._writing() if writing else {}

    def _writing(self) -> dict[str, str]:
        return {"ignoreNullFields": str(not self.options.nulls).lower(), **EXACT_TIMES}


def _unread(part: Field) -> str | None:
    """Why a part of a column leaves all of its source to Spark; what `JsonShape` finds, and a test compares the two."""
    return _unknown(part) or ("has a name that JSON escapes" if re.search(r'[\x00-\x1f"\\]', part.name) else None)


def _unwritten(part: Field, zone: str) -> str | None:
    """Why a part of a column leaves all of its sink to Spark: `JsonShape`, and `moment`, by which no row is plain."""
    if part.type == TIMESTAMP and zone != "UTC":
        return f"is a time in {zone}, not UTC"
    plain = re.fullmatch(r"[ !#-\[\]-~]*", part.name)
    return _unknown(part) or (None if plain else "has a name that is not plain ASCII")


def _unknown(part: Field) -> str | None:
    kind = part.type
    made = isinstance(kind, Decimal | Array | Struct) or (isinstance(kind, Map) and kind.key == STRING)
    return None if made or kind in _KNOWN else f"is {kind}"


def _parts(field: Field) -> Iterator[Field]:
    """A column and all that is in it; items have no name."""
    yield field
    inside: Iterable[Field] = ()
    match field.type:
        case Struct(fields):
            inside = fields
        case Array(item) | Map(_, item):
            inside = (Field("", item),)
    for part in inside:
        yield from _parts(part)


def _how(schema: Schema, odd: Callable[[Field], str | None]) -> str:
    for field in schema:
        for part in _parts(field):
            if why := odd(part):
                where = "" if part is field else "has a part that "
                return f'by Spark, because "{field.name}" {where}{why}'
    return f"{', '.join(schema.names)} in one pass over the bytes; by Spark what is not plain"


def _java() -> tuple[Any, str]:
    """Our classes in Java, and the zone of times that are written without one."""
    from pyspark.sql import SparkSession

    session = SparkSession.active()
    java: Any = session._jvm
    return java.headrace, str(session.conf.get("spark.sql.session.timeZone"))
