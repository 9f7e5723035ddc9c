package headrace;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.util.Arrays;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.json.StructsToJsonEvaluator;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Map;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Rows as JSON, byte for byte as Spark writes it; a row with a value that is not plain is written by Spark itself.
 */
public final class JsonWriter implements Serializable {

  private static final long serialVersionUID = 1L;
  private static final byte[] NULL = "null".getBytes(StandardCharsets.US_ASCII);
  private static final byte[] TRUE = "true".getBytes(StandardCharsets.US_ASCII);
  private static final byte[] FALSE = "false".getBytes(StandardCharsets.US_ASCII);
  private static final String HEX = "0123456789ABCDEF";
  private static final long SECOND = 1_000_000;
  private static final long DAY = 86_400 * SECOND;

  private final StructType schema;
  private final String zone;
  private final boolean nulls;
  private final Map<String, String> options;

  private transient boolean ready;

  /** What is written here; null: Spark writes all. */
  private transient JsonShape shape;

  private transient StructsToJsonEvaluator spark;
  private transient byte[] made;
  private transient int length;
  private transient long day;
  private transient byte[] date;

  private JsonWriter(StructType schema, String zone, boolean nulls, Map<String, String> options) {
    this.schema = schema;
    this.zone = zone;
    this.nulls = nulls;
    this.options = options;
  }

  /** A column of structs as JSON in bytes. `options` are Spark's; times must be written as {@link #moment} does. */
  public static Column column(Column row, String ddl, String zone, java.util.Map<String, String> options) {
    boolean nulls = !"true".equals(options.get("ignoreNullFields"));
    Map<String, String> given =
        scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options));
    return Calls.of(
        new JsonWriter(StructType.fromDDL(ddl), zone, nulls, given), "write", DataTypes.BinaryType, row);
  }

  @Override
  public String toString() {
    return "json";
  }

  /** The row as JSON. */
  public byte[] write(InternalRow row) {
    if (row == null) {
      return null;
    }
    if (!ready) {
      prepare();
    }
    return shape != null && isPlain(row) ? Arrays.copyOf(made, length) : bySpark(row);
  }

  private void prepare() {
    shape = JsonShape.of(schema, c -> c >= ' ' && c < 0x7f && c != '"' && c != '\\');
    made = new byte[256];
    date = new byte[10];
    day = Long.MIN_VALUE;
    ready = true;
  }

  private byte[] bySpark(InternalRow row) {
    if (spark == null) {
      spark = new StructsToJsonEvaluator(options, schema, Option.apply(zone));
    }
    return ((UTF8String) spark.evaluate(row)).getBytes();
  }

  /** Writes a row from the beginning; false: it has a value that is not plain. */
  private boolean isPlain(InternalRow row) {
    length = 0;
    return struct(row, shape);
  }

  private boolean struct(InternalRow row, JsonShape of) {
    put('{');
    boolean first = true;
    for (int index = 0; index < of.parts.length; index++) {
      if (!nulls && row.isNullAt(index)) {
        continue;
      }
      if (!first) {
        put(',');
      }
      first = false;
      put(of.names[index]);
      if (!value(row, index, of.parts[index])) {
        return false;
      }
    }
    put('}');
    return true;
  }

  private boolean list(ArrayData items, JsonShape item) {
    put('[');
    for (int index = 0; index < items.numElements(); index++) {
      if (index > 0) {
        put(',');
      }
      if (!value(items, index, item)) {
        return false;
      }
    }
    put(']');
    return true;
  }

  private boolean map(MapData map, JsonShape held) {
    ArrayData keys = map.keyArray();
    ArrayData items = map.valueArray();
    put('{');
    for (int index = 0; index < map.numElements(); index++) {
      if (index > 0) {
        put(',');
      }
      if (!text(keys.getUTF8String(index))) {
        return false;
      }
      put(':');
      if (!value(items, index, held)) {
        return false;
      }
    }
    put('}');
    return true;
  }

  private boolean value(SpecializedGetters row, int index, JsonShape of) {
    if (row.isNullAt(index)) {
      put(NULL);
      return true;
    }
    switch (of.kind) {
      case TEXT:
        return text(row.getUTF8String(index));
      case TRUTH:
        put(row.getBoolean(index) ? TRUE : FALSE);
        return true;
      case BYTE:
        whole(row.getByte(index));
        return true;
      case SHORT:
        whole(row.getShort(index));
        return true;
      case INT:
        whole(row.getInt(index));
        return true;
      case LONG:
        whole(row.getLong(index));
        return true;
      case FLOAT:
        float single = row.getFloat(index);
        ascii(Float.toString(single));
        return Float.isFinite(single);
      case DOUBLE:
        double number = row.getDouble(index);
        ascii(Double.toString(number));
        return Double.isFinite(number);
      case DECIMAL:
        ascii(row.getDecimal(index, of.precision, of.scale).toJavaBigDecimal().toString());
        return true;
      case MOMENT:
        return moment(row.getLong(index));
      case STRUCT:
        return struct(row.getStruct(index, of.parts.length), of);
      case LIST:
        return list(row.getArray(index), of.parts[0]);
      case MAP:
        return map(row.getMap(index), of.parts[0]);
      default:
        put('"');
        boolean written = date(row.getInt(index));
        put('"');
        return written;
    }
  }

  private boolean text(UTF8String text) {
    int size = text.numBytes();
    room(size + 2);
    int start = length + 1;
    made[length] = '"';
    text.writeToMemory(made, org.apache.spark.unsafe.Platform.BYTE_ARRAY_OFFSET + start);
    boolean odd = false;
    boolean beyondAscii = false;
    for (int at = start; at < start + size; at++) {
      int c = made[at];
      odd |= c == '"' || c == '\\' || (c >= 0 && c < ' ');
      beyondAscii |= c < 0;
    }
    if (beyondAscii && !text.isValid()) {
      return false;
    }
    length = start + size;
    if (odd) {
      byte[] plainly = Arrays.copyOfRange(made, start, length);
      length = start;
      for (byte c : plainly) {
        escaped(c);
      }
    }
    put('"');
    return true;
  }

  private void escaped(int c) {
    if (c < 0 || (c >= ' ' && c != '"' && c != '\\')) {
      put(c);
      return;
    }
    put('\\');
    switch (c) {
      case '"', '\\' -> put(c);
      case '\b' -> put('b');
      case '\f' -> put('f');
      case '\n' -> put('n');
      case '\r' -> put('r');
      case '\t' -> put('t');
      default -> {
        ascii("u00");
        put(HEX.charAt(c >> 4));
        put(HEX.charAt(c & 15));
      }
    }
  }

  /** As `yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX`, in UTC. */
  private boolean moment(long micros) {
    if (!zone.equals("UTC")) {
      return false;
    }
    long days = Math.floorDiv(micros, DAY);
    long rest = micros - days * DAY;
    put('"');
    if (!date(days)) {
      return false;
    }
    long seconds = rest / SECOND;
    put('T');
    digits(seconds / 3600, 2);
    put(':');
    digits(seconds / 60 % 60, 2);
    put(':');
    digits(seconds % 60, 2);
    put('.');
    digits(rest % SECOND, 6);
    put('Z');
    put('"');
    return true;
  }

  private boolean date(long days) {
    if (days != day) {
      LocalDate shown = LocalDate.ofEpochDay(days);
      if (shown.getYear() < 1 || shown.getYear() > 9999) {
        return false;
      }
      date = shown.toString().getBytes(StandardCharsets.US_ASCII);
      day = days;
    }
    put(date);
    return true;
  }

  private void digits(long number, int count) {
    room(count);
    for (int at = length + count - 1; at >= length; at--) {
      made[at] = (byte) ('0' + number % 10);
      number /= 10;
    }
    length += count;
  }

  private void whole(long number) {
    if (number == Long.MIN_VALUE) {
      ascii(Long.toString(number));
      return;
    }
    if (number < 0) {
      put('-');
      number = -number;
    }
    int count = 1;
    for (long left = number / 10; left > 0; left /= 10) {
      count++;
    }
    digits(number, count);
  }

  private void ascii(String text) {
    int size = text.length();
    room(size);
    for (int at = 0; at < size; at++) {
      made[length++] = (byte) text.charAt(at);
    }
  }

  private void put(byte[] bytes) {
    room(bytes.length);
    System.arraycopy(bytes, 0, made, length, bytes.length);
    length += bytes.length;
  }

  private void put(int c) {
    room(1);
    made[length++] = (byte) c;
  }

  private void room(int more) {
    if (length + more > made.length) {
      made = Arrays.copyOf(made, Math.max(made.length * 2, length + more));
    }
  }
}
