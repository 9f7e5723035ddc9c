"""Text: each record is one line, taken as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.formats.base import Format, format_
from headrace.formats.reasons import column, first_reason, no_value, not_text
from headrace.model import Schema
from headrace.options import Options

if TYPE_CHECKING:
    from pyspark.sql import Column


class TextOptions(Options):
    """Text has no options."""


@format_("text", options=TextOptions, example="format: text")
class TextFormat(Format[TextOptions]):
    """One column, `value STRING`; in files, one record per line.

    An empty line is a record. A record that is not UTF-8 is not readable. To write text, hand over exactly
    one column; what is not a string is written as Spark shows it.
    """

    own_schema = Schema.parse("value STRING")

    def decode(self, value: Column, schema: Schema) -> tuple[Column, Column]:
        from pyspark.sql import functions as F

        text = value.cast("string")
        return F.struct(*(text.alias(f.name) for f in schema)), first_reason(no_value(value), not_text(text))

    def encode(self, schema: Schema) -> Column:
        if len(schema.names) != 1:
            raise ValueError(f"text takes exactly one column, not {len(schema.names)}: {', '.join(schema.names)}")
        return column(schema.names[0]).cast("string").cast("binary")
