"""Two frames compared row by row, however many rows there are: which are missing, repeated, unexpected or different.

Rows become text that is the same for equal values: doubles to twelve digits, since a sum depends on the order of
its addends, times to the microsecond, maps sorted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}
KINDS = ("missing", "repeated", "unexpected", "different")
_BESIDES = ("unexpected", "repeated")
"""Rows that are there and should not be."""
_ROW, _KEY, _WANTED, _HELD, _TIMES_WANTED, _TIMES_HELD = "row", "key", "wanted", "held", "n_wanted", "n_held"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One row that is not as it should be."""

    kind: str
    """missing, repeated, unexpected or different."""
    expected: dict[str, Any] | None
    found: dict[str, Any] | None
    times: int = 1


@dataclass(frozen=True, kw_only=True)
class Differences:
    """How many rows differ, and the first of them."""

    rows: int
    """Rows that should be there."""
    missing: int = 0
    repeated: int = 0
    """Rows that should be there, but not so often."""
    unexpected: int = 0
    different: int = 0
    shown: tuple[Difference, ...] = ()

    def counts(self, allowed: str | None = None) -> dict[str, int]:
        """How many rows differ by kind, but for a kind that may."""
        return {kind: n for kind in KINDS if kind != allowed and (n := getattr(self, kind))}


def compare(
    expected: DataFrame,
    may: DataFrame,
    held: DataFrame,
    *,
    key: Sequence[str] = (),
    newest_by: str | None = None,
    before: int = 0,
    all_of_it: bool = True,
    limit: int = 20,
) -> Differences:
    """What tells the held rows from those expected.

    `may` are rows that may be there already, since their batch is under way: at least `expected`. `before` so many
    rows may be there besides. With a key, rows are compared by it, and of several expected ones any may hold that no
    other is newer than. Unless `all_of_it` was expected, nothing is said about rows that were not.
    """
    if key:
        found = _by_key(_newest(expected, key, newest_by), _newest(may, key, newest_by), held, key)
    else:
        found = _as_bags(expected, may, held)
    from pyspark.sql import functions as F

    found = found.persist()
    try:
        counted = {row["kind"]: int(row["n"]) for row in found.groupBy("kind").agg(F.sum("times").alias("n")).collect()}
        if not all_of_it:
            counted = {kind: n for kind, n in counted.items() if kind not in _BESIDES}
        for kind in _BESIDES:
            theirs = min(before, counted.get(kind, 0))
            counted[kind], before = counted.get(kind, 0) - theirs, before - theirs
        wanted = [kind for kind, n in counted.items() if n]
        rows = (
            found.where(F.col("kind").isin(wanted))
            .orderBy(F.col("kind") == "repeated", "kind", _KEY, _WANTED, _HELD)
            .limit(limit)
            .collect()
        )
    finally:
        found.unpersist()
    return Differences(
        rows=expected.count(),
        **{kind: counted.get(kind, 0) for kind in KINDS},
        shown=tuple(
            Difference(
                kind=row["kind"],
                expected=json.loads(row[_WANTED]) if row[_WANTED] else None,
                found=json.loads(row[_HELD]) if row[_HELD] else None,
                times=int(row["times"]),
            )
            for row in rows
        ),
    )


def _as_bags(expected: DataFrame, may: DataFrame, held: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    def counted(frame: DataFrame, name: str) -> DataFrame:
        return as_text(frame).groupBy(_ROW).agg(F.count(F.lit(1)).alias(name))

    joined = counted(expected, "at_least").join(counted(may, "at_most"), _ROW, "full_outer")
    joined = joined.join(counted(held, "there"), _ROW, "full_outer").na.fill(0, ["at_least", "at_most", "there"])
    times = F.when(F.col("there") < F.col("at_least"), F.col("at_least") - F.col("there")).otherwise(
        F.col("there") - F.greatest("at_least", "at_most")
    )
    known = F.greatest("at_least", "at_most") > 0
    kind = F.when(F.col("there") < F.col("at_least"), "missing").when(known, "repeated").otherwise("unexpected")
    return joined.select(
        kind.alias("kind"),
        F.lit("").alias(_KEY),
        F.when(kind == "missing", F.col(_ROW)).alias(_WANTED),
        F.when(kind != "missing", F.col(_ROW)).alias(_HELD),
        times.alias("times"),
    ).where("times > 0")


def _by_key(expected: DataFrame, may: DataFrame, held: DataFrame, key: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as F

    def sets(frame: DataFrame, name: str) -> DataFrame:
        return as_text(frame, key).groupBy(_KEY).agg(F.collect_set(_ROW).alias(name))

    there = as_text(held, key).withColumnRenamed(_ROW, _HELD)
    joined = sets(expected, "a").join(sets(may, "b"), _KEY, "full_outer").join(there, _KEY, "full_outer")
    fits = F.coalesce(F.array_contains("a", F.col(_HELD)), F.lit(False)) | F.coalesce(
        F.array_contains("b", F.col(_HELD)), F.lit(False)
    )
    kind = (
        F.when(F.col(_HELD).isNull() & F.col("a").isNotNull(), "missing")
        .when(F.col("a").isNull() & F.col("b").isNull(), "unexpected")
        .when(F.col(_HELD).isNotNull() & ~fits, "different")
    )
    wanted = F.coalesce("a", "b")
    return joined.select(
        kind.alias("kind"), _KEY, F.sort_array(wanted)[0].alias(_WANTED), _HELD, F.lit(1).alias("times")
    ).where("kind IS NOT NULL")


def _newest(frame: DataFrame, key: Sequence[str], by: str | None) -> DataFrame:
    """Of the rows with one key those that no other is newer than."""
    if by is None:
        return frame
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    over = Window.partitionBy(*(f"`{k}`" for k in key)).orderBy(F.col(f"`{by}`").desc_nulls_last())
    return frame.withColumn("_headrace_rank", F.rank().over(over)).where("_headrace_rank = 1").drop("_headrace_rank")


def as_text(frame: DataFrame, key: Sequence[str] = ()) -> DataFrame:
    """The rows as text, and the text of their keys."""
    from pyspark.sql import functions as F

    same = {f.name.lower(): _same(F.col(f"`{f.name}`"), f.dataType).alias(f.name) for f in frame.schema.fields}
    keyed = F.to_json(F.struct(*(same[k.lower()] for k in key)), _TIMES) if key else F.lit("")
    return frame.select(F.to_json(F.struct(*same.values()), _TIMES).alias(_ROW), keyed.alias(_KEY))


def _same(column: Column, kind: DataType) -> Column:
    """A value of which equal ones have the same text."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as s

    match kind:
        case s.DoubleType():
            return F.format_string("%.11e", column).try_cast("double")  # of a null it makes the text "null"
        case s.FloatType():
            return F.format_string("%.5e", column.cast("double")).try_cast("double")
        case s.MapType():
            return F.array_sort(F.map_entries(column))
        case s.ArrayType(elementType=s.DoubleType()):
            return F.transform(column, lambda item: _same(item, s.DoubleType()))
        case s.StructType(fields=fields):
            inner = F.struct(*(_same(column[f.name], f.dataType).alias(f.name) for f in fields))
            return F.when(column.isNotNull(), inner)
    return column
