"""Raw: the bytes of a record, untouched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.formats.base import Format, format_
from headrace.formats.reasons import column, no_value
from headrace.model import Schema
from headrace.options import Options

if TYPE_CHECKING:
    from pyspark.sql import Column


class RawOptions(Options):
    """Raw has no options."""


@format_("raw", options=RawOptions, example="format: raw")
class RawFormat(Format[RawOptions]):
    """One column, `value BINARY`. A record without a value (a tombstone) is not readable.

    To write raw, hand over exactly one column of bytes or text.
    """

    in_files = False
    own_schema = Schema.parse("value BINARY")

    def decode(self, value: Column, schema: Schema) -> tuple[Column, Column]:
        from pyspark.sql import functions as F

        return F.struct(*(value.alias(f.name) for f in schema)), no_value(value)

    def encode(self, schema: Schema) -> Column:
        if len(schema.names) != 1:
            raise ValueError(f"raw takes exactly one column, not {len(schema.names)}: {', '.join(schema.names)}")
        return column(schema.names[0]).cast("binary")
