"""JSON: each record is one object; fields are found by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import Field as Option

from headrace.formats.base import Format, format_
from headrace.formats.reasons import column, first_reason, no_value, not_text, when
from headrace.model import Schema
from headrace.model.types import BOOLEAN, DATE, DOUBLE, INTEGERS, STRING, TIMESTAMP, Decimal, Field
from headrace.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

_KNOWN = (STRING, BOOLEAN, *INTEGERS, DOUBLE, TIMESTAMP, DATE)
"""The types that `headrace.JsonReader` and `JsonWriter`, in Java, know; all others are Spark's."""
_DIGITS = 18
"""Decimals of so many digits are read too; none is written."""
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
        return _how(schema, map(_unread, schema))

    def encodes(self, schema: Schema, zone: str) -> str | None:
        return _how(schema, (_unwritten(field, zone) for field in schema))

    def file_options(self, *, writing: bool = False) -> tuple[str, Mapping[str, str]]:
        return "json", self._writing() if writing else {}

    def _writing(self) -> dict[str, str]:
        return {"ignoreNullFields": str(not self.options.nulls).lower(), **EXACT_TIMES}


def _unread(field: Field) -> str | None:
    """Why a column leaves all of its source to Spark; what `JsonReader.prepare` finds, and a test compares the two."""
    small = isinstance(field.type, Decimal) and field.type.precision <= _DIGITS
    if field.type not in _KNOWN and not small:
        return f"is {field.type}"
    return "has a name that JSON escapes" if re.search(r'[\x00-\x1f"\\]', field.name) else None


def _unwritten(field: Field, zone: str) -> str | None:
    """Why a column leaves all of its sink to Spark: `JsonWriter.prepare`, and `moment`, of which no row is plain."""
    if field.type not in _KNOWN:
        return f"is {field.type}"
    if field.type == TIMESTAMP and zone != "UTC":
        return f"is a time in {zone}, not UTC"
    return None if re.fullmatch(r"[ !#-\[\]-~]*", field.name) else "has a name that is not plain ASCII"


def _how(schema: Schema, reasons: Iterable[str | None]) -> str:
    odd = next(((f.name, why) for f, why in zip(schema, reasons, strict=True) if why), None)
    if odd is not None:
        return f'by Spark, because "{odd[0]}" {odd[1]}'
    return f"{', '.join(schema.names)} in one pass over the bytes; by Spark what is not plain"


def _java() -> tuple[Any, str]:
    """Our classes in Java, and the zone of times that are written without one."""
    from pyspark.sql import SparkSession

    session = SparkSession.active()
    java: Any = session._jvm
    return java.headrace, str(session.conf.get("spark.sql.session.timeZone"))
