package headrace;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.json.CreateJacksonParser;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Finds numbers in JSON that Spark must not be given for a DECIMAL: it makes every digit of one before it says whether
 * it fits, so that the ten bytes of 1e34567890 keep a task for minutes.
 *
 * <p>Only values at the place of a DECIMAL count: a hash such as 12e45678 in a text is none. They are found by the
 * tokens of Spark's own parser, and only in records whose bytes could have one. `formats/csv.py` has the same bounds.
 */
final class HugeNumbers {

  /** Characters; Spark takes no longer number from JSON, but any from a text in it. */
  private static final int LONGEST = 1000;

  /** Of the exponent; a DOUBLE that is written out has up to three. */
  private static final int MOST_DIGITS = 3;

  private static final int LARGEST = 999;

  private final StructType schema;
  private final JsonFactory factory;

  /** For records of a schema, as they are given to Spark. */
  HugeNumbers(StructType schema, JSONOptions options) {
    this.schema = schema;
    this.factory = options.buildJsonFactory();
  }

  /** Whether a type has a DECIMAL in it. */
  static boolean concern(DataType type) {
    if (type instanceof StructType struct) {
      return Arrays.stream(struct.fields()).anyMatch(field -> concern(field.dataType()));
    }
    if (type instanceof MapType map) {
      return concern(map.valueType());
    }
    return type instanceof ArrayType list ? concern(list.elementType()) : type instanceof DecimalType;
  }

  /** Whether a record has such a number where the schema has a DECIMAL. */
  boolean areIn(byte[] record) {
    if (!mayBeIn(record)) {
      return false;
    }
    try (JsonParser parser = CreateJacksonParser.utf8String(factory, UTF8String.fromBytes(record))) {
      return parser.nextToken() != null && areIn(parser, schema);
    } catch (IOException notJson) {
      return false; // Spark comes no further either, and says so
    }
  }

  /** Whether the value at which the parser is has one; it is then at the value's end. */
  private static boolean areIn(JsonParser parser, DataType type) throws IOException {
    JsonToken token = parser.currentToken();
    if (token == JsonToken.START_OBJECT && (type instanceof StructType || type instanceof MapType)) {
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        DataType inside = type instanceof MapType map ? map.valueType() : field((StructType) type, parser.currentName());
        parser.nextToken();
        if (areIn(parser, inside)) {
          return true;
        }
      }
    } else if (token == JsonToken.START_ARRAY && type instanceof ArrayType list) {
      for (JsonToken item = parser.nextToken(); item != null && item != JsonToken.END_ARRAY; item = parser.nextToken()) {
        if (areIn(parser, list.elementType())) {
          return true;
        }
      }
    } else if (token != null && token.isScalarValue()) {
      return type instanceof DecimalType && isHuge(parser.getText());
    } else {
      parser.skipChildren();
    }
    return false;
  }

  private static DataType field(StructType struct, String name) {
    for (StructField field : struct.fields()) {
      if (field.name().equals(name)) {
        return field.dataType();
      }
    }
    return null;
  }

  /** Whether a text is such a number; a text that is no number at all is not looked at closely. */
  static boolean isHuge(String text) {
    String number = text.replace(",", ""); // as Spark does with numbers in quotes
    if (number.length() > LONGEST) {
      return true;
    }
    int at = Math.max(number.lastIndexOf('e'), number.lastIndexOf('E'));
    if (at < 0) {
      return false;
    }
    try {
      return Math.abs(Long.parseLong(number, at + 1, number.length(), 10)) > LARGEST;
    } catch (NumberFormatException none) {
      return false; // and not for Spark either: Java has no exponent of more than ten digits
    }
  }

  /** Whether there may be one, by the bytes alone: many digits behind an e, or very many of them; escaped or not. */
  private static boolean mayBeIn(byte[] b) {
    int power = -1; // digits behind the last e, if nothing else came in between
    int length = 0;
    for (int at = 0; at < b.length; at++) {
      int c = b[at];
      if (c == '\\' && at + 1 < b.length && b[at + 1] == 'u') {
        int code = JsonReader.code(b, at + 2);
        if (code >= ' ' && code < 0x80) {
          return true; // nobody need escape these
        }
        if (code >= 0) {
          c = -1;
          at += 5;
        }
      }
      if (c < 0 || (c >= '0' && c <= '9')) { // Java knows digits beyond ASCII too
        power = power < 0 ? power : power + 1;
        length++;
      } else if (c == 'e' || c == 'E') {
        power = 0;
        length++;
      } else if (c >= '+' && c <= '.') { // + , - .
        length++;
      } else {
        power = -1;
        length = 0;
      }
      if (power > MOST_DIGITS || length > LONGEST) {
        return true;
      }
    }
    return false;
  }
}
