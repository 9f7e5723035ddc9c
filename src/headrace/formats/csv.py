"""CSV: each record is one line of fields; columns are found by place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field as Option

from headrace.formats.base import Format, format_
from headrace.formats.json import EXACT_TIMES
from headrace.formats.reasons import column, first_reason, no_value, not_text, when
from headrace.model import Schema
from headrace.model.types import STRING, Array, Decimal, Map, Struct
from headrace.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

CORRUPT = "_headrace_corrupt"
_LONGEST = 1000
"""Characters of a number. The bounds are those of `headrace.HugeNumbers`, in Java."""
_NO_NUMBER = r"[\x00-\x20]|[eE][+-]?0*+\p{Nd}{4}"
"""Blanks, which a cast would leave out, and exponents beyond 999."""


class CsvOptions(Options):
    """How CSV is read and written."""

    separator: str = Option(",", min_length=1, description="What stands between fields.", examples=[";", "\t"])
    quote: str = Option('"', min_length=1, max_length=1, description="What encloses a field that has separators in it.")
    header: bool = Option(False, description="Files begin with a line of column names. Messages never do.")
    null: str = Option("", description="What stands for a null.", examples=["NULL"])


@format_("csv", options=CsvOptions, example='format:\n  csv: {separator: ";", header: true}')
class CsvFormat(Format[CsvOptions]):
    """Fields in the order of the schema. A quoted empty field is an empty text, an unquoted one is null.

    Not readable: a record with more or fewer fields than columns, or a value that does not fit its column's
    type. TIMESTAMP takes ISO 8601 text (without a zone: the session's, UTC). Nested columns are written as JSON;
    they cannot be read.
    """

    positional = True

    def decode(self, value: Column, schema: Schema) -> tuple[Column, Column]:
        from pyspark.sql import functions as F

        text = value.cast("string")
        reading = {**self._reading(), "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        read = F.from_csv(text, f"{as_texts(schema).ddl()}, {CORRUPT} STRING", reading)
        fields = len(schema.names)
        # As in JSON: one condition, so that a record is parsed once.
        bad = read[CORRUPT].isNotNull() | read.isNull() | (text == "") | ~F.is_valid_utf8(text)
        numbers = {f.name: as_number(read[f.name], f.type) for f in schema if isinstance(f.type, Decimal)}
        for name, number in numbers.items():
            bad |= read[name].isNotNull() & number.isNull()
        why = first_reason(
            no_value(value),
            not_text(text),
            when(text == "", "the record is empty"),
            F.lit(f"the record does not have {fields} field{'s' * (fields != 1)}, or a value does not fit its column"),
        )
        return F.struct(*(numbers.get(f.name, read[f.name]).alias(f.name) for f in schema)), F.when(bad, why)

    def encode(self, schema: Schema) -> Column:
        from pyspark.sql import functions as F

        row = F.struct(*(_flat(f.name, isinstance(f.type, Array | Map | Struct)) for f in schema))
        written = F.to_csv(row, self._writing())
        if len(schema.names) == 1:  # Spark fails on a null with nothing beside it
            written = F.when(column(schema.names[0]).isNull(), F.lit(self.options.null)).otherwise(written)
        return written.cast("binary")

    def file_options(self, *, writing: bool = False) -> tuple[str, Mapping[str, str]]:
        # A header that names other columns than the schema is an error, not a shift of every value.
        options = self._writing() if writing else {**self._reading(), "enforceSchema": "false"}
        return "csv", {**options, "header": str(self.options.header).lower()}

    def _shape(self) -> dict[str, str]:
        # The quote is its own escape: RFC 4180, and what other programs write.
        given = self.options
        return {"sep": given.separator, "quote": given.quote, "escape": given.quote}

    def _reading(self) -> dict[str, str]:
        # Spark takes the text of a null also for a quoted one; so for the empty text it is told one nobody writes.
        return {**self._shape(), "nullValue": self.options.null or "\0", "emptyValue": ""}

    def _writing(self) -> dict[str, str]:
        return {
            **self._shape(),
            "nullValue": self.options.null,
            "emptyValue": self.options.quote * 2,
            "ignoreLeadingWhiteSpace": "false",  # blanks around a text are the text's
            "ignoreTrailingWhiteSpace": "false",
            **EXACT_TIMES,
        }


def as_texts(schema: Schema) -> Schema:
    """The schema with a STRING for every DECIMAL.

    >>> as_texts(Schema.parse("id BIGINT, amount DECIMAL(10,2)")).ddl()
    'id bigint, amount string'
    """
    return Schema.of((f.name, STRING if isinstance(f.type, Decimal) else f.type) for f in schema)


def as_number(text: Column, kind: Decimal) -> Column:
    """A text as Spark reads it from CSV for a DECIMAL; null if it is no number that fits, or a huge one.

    Spark itself must not be given those: its reader makes all digits of a number before it says whether it fits, so
    that the ten bytes of 1e34567890 keep a task for minutes.
    """
    from pyspark.sql import functions as F

    number = F.translate(text, ",", "")  # as Spark does
    sane = (F.length(number) <= _LONGEST) & ~number.rlike(_NO_NUMBER)
    return F.when(sane, number.try_cast(str(kind)))


def _flat(name: str, nested: bool) -> Column:
    from pyspark.sql import functions as F

    return F.to_json(column(name), EXACT_TIMES).alias(name) if nested else column(name)
