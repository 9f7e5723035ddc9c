"""The vectorised stage on Spark: where it stands in a frame, and how what it hands on becomes columns again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.catalogue import SOURCES
from headrace.compile.stage import SWITCH, ZONE, Stage
from headrace.compile.stage_work import LEFT, SPILLED, VALUE, Believed, Work, work
from headrace.connectors.time import ARRIVAL, EPOCH, Time
from headrace.model import OUT, Port, Schema, Source
from headrace.operators.base import left_out

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.formats.base import Format


TELLING = "telling"


@dataclass(frozen=True, kw_only=True)
class Left:
    """What one filter left out in a stage, before Spark could count it."""

    source: str
    field: str
    """As which of the numbers that are told at the source."""
    wires: tuple[str, ...]
    """The wires those records would have passed on their way to the filter."""
    filter: str
    """The name under which the filter counts what it leaves out."""


def left(stage: Stage) -> tuple[Left, ...]:
    """What is to be added to the counts of Spark."""
    wires, found = [str(Port(stage.source))], list[Left]()
    for link in stage.links:
        if link.keeps is not None:
            filter_ = left_out(link.step, OUT)
            found.append(Left(source=stage.source, field=f"left_{len(found)}", wires=tuple(wires), filter=filter_))
        wires.append(str(Port(link.step)))
    return tuple(found)


def is_on(session: SparkSession) -> bool:
    """Whether the session's settings let the stage be used."""
    return str(session.conf.get(SWITCH, "true")).lower() != "false" and session.conf.get(ZONE) == "UTC"


def staged(frame: DataFrame, source: Source, stage: Stage, parsed: Schema) -> DataFrame:
    """Bytes as columns where that is sure; where not, the bytes are still there."""
    from pyspark.sql import types as s
    from pyspark.sql.pandas.types import to_arrow_schema

    from headrace.expressions.spark import spark_type

    carried = [f for f in frame.schema.fields if f.name != VALUE]
    kinds = [s.StructField(f.name, spark_type(f.type)) for f in parsed]
    filters = [s.StructField(f"{LEFT}{i}", s.LongType()) for i in range(len(stage.drops))]
    marks = [s.StructField(VALUE, s.BinaryType()), s.StructField(SPILLED, s.BooleanType())]
    free = [s.StructField(f.name, f.dataType) for f in carried]
    schema = s.StructType([*kinds, *marks, *free, *filters])
    todo = Work(
        columns=tuple((f.name, str(f.type)) for f in parsed),
        carried=tuple(f.name for f in carried),
        links=tuple((link.made, link.keeps) for link in stage.links),
        believed=_believed(source) if filters else None,
        newest=_newest(source),
    )
    return frame.mapInArrow(work(todo, to_arrow_schema(schema, timezone="UTC")), schema)


def _newest(source: Source) -> str | None:
    if source.time is None:
        return None
    name: str | None = source.time.column if source.time.kind == "event" else ARRIVAL
    return name


def _believed(source: Source) -> Believed | None:
    time: Time | None = source.time
    if time is None or time.kind != "event" or time.column is None:
        return None
    bound = time.bound(SOURCES[source.connector].arrival is not None)
    return Believed(
        column=time.column,
        microseconds=EPOCH[time.format] if time.format is not None else None,
        arrival=ARRIVAL if bound is not None else None,
        ahead=round(bound.total_seconds() * 1_000_000) if bound is not None else 0,
        before=round(time.last.timestamp() * 1_000_000) if time.last is not None else None,
    )


def decoded(form: Format[Any], parsed: Schema) -> tuple[list[Column], Column]:
    """The columns of a staged frame, those of spilled rows decoded by Spark; and the reason where that failed.

    Of rows that were decoded the bytes are null, and Spark makes short work of them. What it decodes stands first in
    each expression, and so is computed once for all of them.
    """
    from pyspark.sql import functions as F

    struct, reason = form.decode(F.col(VALUE), parsed)
    columns = [F.coalesce(struct.getField(f.name), F.col(f"`{f.name}`")).alias(f.name) for f in parsed]
    return columns, F.when(reason.isNotNull() & F.col(SPILLED), reason)


def tells(frame: DataFrame) -> list[str]:
    """The columns that tell what was left out, if the frame has any."""
    return [name for name in frame.columns if name.startswith(LEFT)]


def numbers(frame: DataFrame) -> list[Column]:
    """What was left out, by filter, to be observed; and how many rows tell of it."""
    from pyspark.sql import functions as F

    names = tells(frame)
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(f"left_{i}") for i, name in enumerate(names)]
    return [*sums, F.count(names[0]).alias(TELLING)]


def told(frame: DataFrame) -> DataFrame:
    """The frame without the rows that only tell what was left out."""
    from pyspark.sql import functions as F

    names = tells(frame)
    if not names:
        return frame
    # Spark moves a condition below the watermark, which those rows are to move, unless it is not deterministic.
    is_record = F.when(F.spark_partition_id() >= 0, F.col(names[0]).isNull())
    return frame.where(is_record).drop(*names)
