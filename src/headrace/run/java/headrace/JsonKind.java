package headrace;

import org.apache.spark.sql.types.DataType;

/** The types of columns that JSON is read into and written from without Spark's own functions. */
enum JsonKind {
  TEXT,
  TRUTH,
  BYTE,
  SHORT,
  INT,
  LONG,
  DOUBLE,
  DECIMAL,
  MOMENT,
  DATE;

  /** The kind of a type; null: it is Spark's, or (decimals) the reader's to look at. */
  static JsonKind of(DataType type) {
    return switch (type.sql()) {
      case "STRING" -> TEXT;
      case "BOOLEAN" -> TRUTH;
      case "TINYINT" -> BYTE;
      case "SMALLINT" -> SHORT;
      case "INT" -> INT;
      case "BIGINT" -> LONG;
      case "DOUBLE" -> DOUBLE;
      case "TIMESTAMP" -> MOMENT;
      case "DATE" -> DATE;
      default -> null;
    };
  }
}
