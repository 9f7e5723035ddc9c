package headrace;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/** The types that JSON is read into and written from without Spark's own functions. */
enum JsonKind {
  TEXT,
  TRUTH,
  BYTE,
  SHORT,
  INT,
  LONG,
  FLOAT,
  DOUBLE,
  DECIMAL,
  MOMENT,
  DATE,
  STRUCT,
  LIST,
  MAP;

  /** The kind of a type; null: it is Spark's. */
  static JsonKind of(DataType type) {
    if (type instanceof DecimalType) {
      return DECIMAL;
    } else if (type instanceof StructType) {
      return STRUCT;
    } else if (type instanceof ArrayType) {
      return LIST;
    } else if (type instanceof MapType map) {
      return map.keyType().equals(DataTypes.StringType) ? MAP : null;
    }
    return switch (type.sql()) {
      case "STRING" -> TEXT;
      case "BOOLEAN" -> TRUTH;
      case "TINYINT" -> BYTE;
      case "SMALLINT" -> SHORT;
      case "INT" -> INT;
      case "BIGINT" -> LONG;
      case "FLOAT" -> FLOAT;
      case "DOUBLE" -> DOUBLE;
      case "TIMESTAMP" -> MOMENT;
      case "DATE" -> DATE;
      default -> null;
    };
  }
}
