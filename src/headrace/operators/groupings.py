"""Groupings: which of a bolt's tasks a record goes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from headrace.errors import nearest
from headrace.options import refuse

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KINDS = ("shuffle", "fields", "all", "global")
TASK = "_task"


@dataclass(frozen=True)
class Grouping:
    """How the records of one input are shared out among the tasks."""

    kind: str
    fields: tuple[str, ...] = ()

    def plain(self) -> str | dict[str, Any]:
        """The flow-file form."""
        if self.kind != "fields":
            return self.kind
        return {"fields": self.fields[0] if len(self.fields) == 1 else list(self.fields)}

    def __str__(self) -> str:
        return f"by {', '.join(self.fields)}" if self.kind == "fields" else self.kind

    def numbered(self, frame: DataFrame, tasks: int) -> DataFrame:
        """The frame with the number of each record's task; a record that goes to all is there once for each.

        By a hash, never by chance: a repeated batch sends every record where it went before.
        """
        from pyspark.sql import functions as F

        def share(names: Sequence[str]) -> Column:
            return F.pmod(F.xxhash64(*(F.col(f"`{name}`") for name in names)), F.lit(tasks)).cast("int")

        if self.kind == "all":
            return frame.withColumn(TASK, F.explode(F.sequence(F.lit(0), F.lit(tasks - 1))))
        number = {"global": lambda: F.lit(0), "fields": lambda: share(self.fields)}
        return frame.withColumn(TASK, number.get(self.kind, lambda: share(_hashed(frame)))())


def _hashed(frame: DataFrame) -> list[str]:
    """The columns that have a hash; maps have none."""
    return [f.name for f in frame.schema.fields if "map<" not in f.dataType.simpleString()]


def parse_grouping(given: object) -> Grouping:
    """A grouping from `shuffle`, `all`, `global` or `{fields: …}`; raises as validators do."""
    if isinstance(given, Grouping):
        return given
    if isinstance(given, str) and given in KINDS and given != "fields":
        return Grouping(given)
    if isinstance(given, Mapping) and set(given) == {"fields"}:
        fields = given["fields"]
        names = (fields,) if isinstance(fields, str) else tuple(fields) if isinstance(fields, list | tuple) else ()
        if names and all(isinstance(name, str) for name in names):
            return Grouping("fields", names)
    hint = nearest(str(given), ("shuffle", "all", "global", "{fields: COLUMN}"))
    raise refuse("bad-option", f"{given!r} is not a grouping", hint)


def _parse(given: object) -> tuple[Grouping, ...]:
    return tuple(parse_grouping(one) for one in (given if isinstance(given, list | tuple) else [given]))


def _show(groupings: tuple[Grouping, ...]) -> Any:
    plain = [grouping.plain() for grouping in groupings]
    return plain[0] if len(plain) == 1 else plain


Groupings = Annotated[
    tuple[Grouping, ...],
    BeforeValidator(_parse),
    PlainSerializer(_show),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["shuffle", "all", "global"]},
                {"type": "object", "properties": {"fields": {"type": "array", "items": {"type": "string"}}}},
                {"type": "array"},
            ]
        }
    ),
]
