"""JSON: each record is one object; fields are found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field as Option

from headrace.formats.base import Format, format_
from headrace.formats.reasons import column, first_reason, no_value, not_text, when
from headrace.model import Schema
from headrace.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

CORRUPT = "_headrace_corrupt"


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
        from pyspark.sql import functions as F

        text = value.cast("string")
        # Spark's parser stops at the end of the first value, so two objects in one record would pass for one. As
        # the only item of a list, everything in the record is parsed, and what is not one object shows.
        read = F.from_json(
            F.concat(F.lit('{"r":['), text, F.lit("]}")),
            f"r ARRAY<STRUCT<{schema.ddl()}>>, {CORRUPT} STRING",
            {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT},
        )
        row = F.get(read["r"], F.lit(0))
        # All that needs the parsed record stands in this one condition: in a branch that is not always taken, Spark
        # would parse the record a second time.
        bad = read[CORRUPT].isNotNull() | row.isNull() | (F.size(read["r"]) != 1) | ~F.is_valid_utf8(text)
        why = first_reason(
            no_value(value),
            not_text(text),
            when(~text.rlike(r"^\s*\{[\s\S]*\}\s*$"), "the record is not a JSON object"),
            F.lit("the record is not one JSON object, or a value does not fit its column"),
        )
        return row, F.when(bad, why)

    def encode(self, schema: Schema) -> Column:
        from pyspark.sql import functions as F

        row = F.struct(*(column(name) for name in schema.names))
        return F.to_json(row, self._writing()).cast("binary")

    def file_options(self, *, writing: bool = False) -> tuple[str, Mapping[str, str]]:
        return "json", self._writing() if writing else {}

    def _writing(self) -> dict[str, str]:
        return {
            "ignoreNullFields": str(not self.options.nulls).lower(),
            "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",  # Spark's own cuts off the microseconds
            "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
        }
