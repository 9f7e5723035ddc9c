"""The lowering to Spark: expressions as columns, and types and schemas both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.expressions.expression import Expression
from headrace.expressions.literals import INTERVAL_DAY
from headrace.model import Schema
from headrace.model.types import (
    DAY_INTERVAL,
    UNKNOWN,
    VOID,
    YEAR_INTERVAL,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Struct,
    parse_type,
)

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql import types as s


def to_spark(e: Expression) -> Column:
    """The expression as a Spark column."""
    from pyspark.sql import functions as F

    return F.expr(e.sql)


def spark_type(kind: DataType) -> s.DataType:
    """Our type as Spark's; raises ValueError for UNKNOWN."""
    from pyspark.sql import types as s

    match kind:
        case Decimal():
            return s.DecimalType(kind.precision, kind.scale)
        case Array():
            return s.ArrayType(spark_type(kind.item))
        case Map():
            return s.MapType(spark_type(kind.key), spark_type(kind.value))
        case Struct():
            return s.StructType([s.StructField(f.name, spark_type(f.type)) for f in kind.fields])
    if kind == DAY_INTERVAL:
        return s.DayTimeIntervalType()
    if kind == INTERVAL_DAY:
        return s.DayTimeIntervalType(0, 0)
    if kind == YEAR_INTERVAL:
        return s.YearMonthIntervalType()
    atoms: dict[str, s.DataType] = {
        "boolean": s.BooleanType(),
        "tinyint": s.ByteType(),
        "smallint": s.ShortType(),
        "int": s.IntegerType(),
        "bigint": s.LongType(),
        "float": s.FloatType(),
        "double": s.DoubleType(),
        "string": s.StringType(),
        "binary": s.BinaryType(),
        "date": s.DateType(),
        "timestamp": s.TimestampType(),
        "timestamp_ntz": s.TimestampNTZType(),
        "variant": s.VariantType(),
        "void": s.NullType(),
    }
    if str(kind) not in atoms:
        raise ValueError(f"Spark has no type {kind}")
    return atoms[str(kind)]


def spark_schema(schema: Schema) -> s.StructType:
    """Our columns as a Spark schema; all may be null."""
    from pyspark.sql import types as s

    return s.StructType([s.StructField(f.name, spark_type(f.type)) for f in schema])


def from_spark_type(kind: s.DataType) -> DataType:
    """Spark's type as ours; UNKNOWN for the few we have no name for."""
    from pyspark.sql import types as s

    match kind:
        case s.ArrayType():
            return Array(from_spark_type(kind.elementType))
        case s.MapType():
            return Map(from_spark_type(kind.keyType), from_spark_type(kind.valueType))
        case s.StructType():
            return Struct(tuple(Field(f.name, from_spark_type(f.dataType)) for f in kind.fields))
        case s.DecimalType():
            return Decimal(kind.precision, kind.scale)
        case s.DayTimeIntervalType():
            return DAY_INTERVAL
        case s.YearMonthIntervalType():
            return YEAR_INTERVAL
        case s.NullType():
            return VOID
    try:
        return parse_type(kind.simpleString())
    except ValueError:
        return UNKNOWN


def from_spark_schema(schema: s.StructType) -> Schema:
    """A Spark schema as ours."""
    return Schema(tuple(Field(f.name, from_spark_type(f.dataType)) for f in schema.fields))
