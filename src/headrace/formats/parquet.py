"""Parquet: columns in files, with their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field as Option

from headrace.formats.base import Format, format_
from headrace.model import Schema
from headrace.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column


class ParquetOptions(Options):
    """How Parquet is written."""

    compression: Literal["snappy", "zstd", "gzip", "lz4", "none"] = Option(
        "zstd", description="How pages are compressed when written."
    )


@format_("parquet", options=ParquetOptions, example="format: parquet")
class ParquetFormat(Format[ParquetOptions]):
    """Files only: a Parquet record cannot be read without its file, so it cannot be a message."""

    in_messages = False
    whole_files = True

    def decode(self, value: Column, schema: Schema) -> tuple[Column, Column]:
        raise NotImplementedError("parquet is read from files only; checks refuse it elsewhere")

    def encode(self, schema: Schema) -> Column:
        raise NotImplementedError("parquet is written to files only; checks refuse it elsewhere")

    def file_options(self, *, writing: bool = False) -> tuple[str, Mapping[str, str]]:
        return "parquet", {"compression": self.options.compression} if writing else {}
