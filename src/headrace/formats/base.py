"""What every format is built from: how records become bytes and back, and how they lie in files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from headrace.model import Schema
from headrace.options import Options

if TYPE_CHECKING:
    from pyspark.sql import Column

O = TypeVar("O", bound=Options)  # noqa: E741
F = TypeVar("F", bound="type[Format[Any]]")


class Format(ABC, Generic[O]):
    """One way to write records down; an instance has its options."""

    name: ClassVar[str]
    options_model: ClassVar[type[Options]]
    example: ClassVar[str]
    in_messages: ClassVar[bool] = True
    """Whether a single record can be one message (Kafka, socket)."""
    in_files: ClassVar[bool] = True
    """Whether Spark reads and writes files of it."""
    whole_files: ClassVar[bool] = False
    """Whether a file of it is taken whole or not at all: where a part of it is damaged no record can be told."""
    own_schema: ClassVar[Schema | None] = None
    """The columns of a format that has always the same, such as text; else the author states them."""
    positional: ClassVar[bool] = False
    """Columns are found by place, not by name: `decode` must be given all of them, in order, wanted or not."""

    def __init__(self, options: O) -> None:
        self.options: O = options

    @abstractmethod
    def decode(self, value: Column, schema: Schema) -> tuple[Column, Column]:
        """From a BINARY column: a struct of the schema's columns, and a reason (STRING), null where it was readable.

        Only the columns of `schema` are parsed; a record that is not readable has a reason and any struct.
        """

    @abstractmethod
    def encode(self, schema: Schema) -> Column:
        """A BINARY column made from the columns of a frame that has this schema."""

    def decodes(self, schema: Schema, zone: str) -> str | None:
        """How `decode` reads these columns in a session of this zone, for `explain`; None: there is nothing to say."""
        return None

    def encodes(self, schema: Schema, zone: str) -> str | None:
        """How `encode` writes them."""
        return None

    def file_options(self, *, writing: bool = False) -> tuple[str, Mapping[str, str]]:
        """Spark's name for the format, and the options of its reader, or of its writer."""
        return self.name, {}


def format_(name: str, *, options: type[Options], example: str) -> Callable[[F], F]:
    """Names a format class and its options, for the catalogue."""

    def mark(cls: F) -> F:
        cls.name, cls.options_model, cls.example = name, options, example.strip("\n")
        return cls

    return mark
