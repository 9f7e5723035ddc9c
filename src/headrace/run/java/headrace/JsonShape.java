package headrace;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.function.IntPredicate;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** A type as it is read and written: its kind, what it is made of, and in which order an object's fields last came. */
final class JsonShape {

  private static final int MOST_LEARNT = 64;

  final JsonKind kind;

  /** The digits of a DECIMAL, and how many of them are behind the point. */
  final int precision;

  final int scale;

  /** The fields of a struct; the items of a list; the values of a map. */
  final JsonShape[] parts;

  /** The names of a struct's fields as JSON writes them: in quotes, and with the colon. */
  final byte[][] names;

  /** The names of the last object in their order, each with its closing quote. */
  private byte[][] order = {};

  /** Which fields these are. */
  private int[] fields = {};

  private JsonShape(JsonKind kind, DataType type, byte[][] names, JsonShape... parts) {
    this.kind = kind;
    this.precision = type instanceof DecimalType decimal ? decimal.precision() : 0;
    this.scale = type instanceof DecimalType decimal ? decimal.scale() : 0;
    this.names = names;
    this.parts = parts;
  }

  /** The shape of a type; null: it is Spark's, or a part of it is, or a name in it has a character that is not plain. */
  static JsonShape of(DataType type, IntPredicate plain) {
    JsonKind kind = JsonKind.of(type);
    if (kind == null) {
      return null;
    }
    byte[][] names = {};
    JsonShape[] parts = {};
    if (type instanceof StructType struct) {
      StructField[] fields = struct.fields();
      if (!Arrays.stream(fields).allMatch(field -> field.name().chars().allMatch(plain))) {
        return null;
      }
      names = Arrays.stream(fields).map(field -> written(field.name())).toArray(byte[][]::new);
      parts = Arrays.stream(fields).map(field -> of(field.dataType(), plain)).toArray(JsonShape[]::new);
    } else if (type instanceof ArrayType list) {
      parts = new JsonShape[] {of(list.elementType(), plain)};
    } else if (type instanceof MapType map) {
      parts = new JsonShape[] {of(map.valueType(), plain)};
    }
    return Arrays.asList(parts).contains(null) ? null : new JsonShape(kind, type, names, parts);
  }

  private static byte[] written(String name) {
    return ("\"" + name + "\":").getBytes(StandardCharsets.UTF_8);
  }

  /** How long the name is, with its closing quote, that is expected at a position; 0: another one is there. */
  int expected(byte[] b, int at, int position) {
    if (position >= order.length) {
      return 0;
    }
    byte[] name = order[position];
    int end = at + name.length;
    return end <= b.length && Arrays.equals(b, at, end, name, 0, name.length) ? name.length : 0;
  }

  /** Which field was expected at a position; negative: none that anybody asked for. */
  int field(int position) {
    return fields[position];
  }

  /** Which field a name is, from behind its opening quote to behind its closing one; expected there from now on. */
  int learn(byte[] b, int start, int end, int position, boolean ascii) {
    int found = names.length - 1;
    while (found >= 0 && !isName(names[found], b, start, end)) {
      found--;
    }
    if (position < MOST_LEARNT && ascii) {
      for (int known = order.length; known <= position; known++) {
        order = Arrays.copyOf(order, known + 1);
        fields = Arrays.copyOf(fields, known + 1);
        order[known] = new byte[0];
      }
      order[position] = Arrays.copyOfRange(b, start, end);
      fields[position] = found;
    }
    return found;
  }

  private static boolean isName(byte[] name, byte[] b, int start, int end) {
    return name.length == end - start + 2 && Arrays.equals(name, 1, name.length - 1, b, start, end);
  }
}
