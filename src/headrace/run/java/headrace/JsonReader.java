package headrace;

import java.io.Serializable;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.json.JsonToStructsEvaluator;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/**
 * JSON records as rows: what is plain is read here, in one pass over its bytes, and everything else by Spark.
 *
 * <p>JSON leaves much open (two fields of one name, numbers in quotes, numbers too large, odd escapes), and each parser
 * has its own answer. Plain is a record about which all must agree: one object; each wanted field, and each key of a map,
 * at most once, with a value that plainly is of its type; nothing unusual elsewhere. Any other is Spark's, whose answer
 * counts.
 */
public final class JsonReader extends JsonScanner implements Serializable {

  private static final long serialVersionUID = 1L;

  /** Bytes; Spark's parser has limits of its own for what is longer, such as the name of a field. */
  private static final int LONGEST = 40_000;

  /** Digits of a DECIMAL that Spark keeps as a whole number. */
  private static final int SHORT = 18;

  private static final String CORRUPT = "_headrace_corrupt";
  private static final byte[] BEFORE = "{\"r\":[".getBytes(StandardCharsets.US_ASCII);
  private static final byte[] BEHIND = "]}".getBytes(StandardCharsets.US_ASCII);
  private static final Object ABSENT = new Object();
  private static final double[] TENS = new double[23];

  static {
    for (int power = 0; power < TENS.length; power++) {
      TENS[power] = Double.parseDouble("1e" + power);
    }
  }

  private final StructType schema;
  private final String zone;

  private transient boolean ready;

  /** What is read here; null: Spark reads all. */
  private transient JsonShape shape;

  private transient JsonToStructsEvaluator spark;

  /** What Spark must not be given; null: nothing. */
  private transient HugeNumbers huge;

  private transient byte[] last;
  private transient InternalRow answer;

  private JsonReader(StructType schema, String zone) {
    this.schema = schema;
    this.zone = zone;
  }

  /** A column of records as one of `struct<row, bad>`; `row` is null where the record is none. */
  public static Column column(Column value, String ddl, String zone) {
    StructType row = StructType.fromDDL(ddl);
    StructType gives = new StructType().add("row", row).add("bad", DataTypes.BooleanType);
    return Calls.of(new JsonReader(row, zone), "read", gives, value);
  }

  /** Whether a record is read without Spark's parser. */
  public static boolean isPlain(byte[] record, String ddl, String zone) {
    JsonReader reader = new JsonReader(StructType.fromDDL(ddl), zone);
    reader.prepare();
    return reader.shape != null && reader.plain(record) != null;
  }

  @Override
  public String toString() {
    return "json";
  }

  /** The record as a row, and whether it is bad. The same record asked for again is not read again. */
  public InternalRow read(byte[] record) {
    if (record == last && record != null) {
      return answer;
    }
    if (!ready) {
      prepare();
    }
    InternalRow row = shape != null && record != null && record.length <= LONGEST ? plain(record) : null;
    last = record;
    answer = row != null ? new GenericInternalRow(new Object[] {row, Boolean.FALSE}) : bySpark(record);
    return answer;
  }

  private void prepare() {
    shape = JsonShape.of(schema, c -> c >= ' ' && c != '"' && c != '\\');
    utc = zone.equals("UTC");
    ready = true;
  }

  /**
   * What Spark makes of a record. Its parser stops at the end of the first value, so two objects in one record would
   * pass for one; as the only item of a list everything is parsed, and what is not one object shows.
   */
  private InternalRow bySpark(byte[] record) {
    if (record == null) {
      return new GenericInternalRow(new Object[] {null, Boolean.TRUE});
    }
    if (spark == null) {
      StructType listed =
          new StructType().add("r", DataTypes.createArrayType(schema)).add(CORRUPT, DataTypes.StringType);
      scala.collection.immutable.Map<String, String> options =
          scala.collection.immutable.Map$.MODULE$.from(
              scala.jdk.javaapi.CollectionConverters.asScala(
                  Map.of("mode", "PERMISSIVE", "columnNameOfCorruptRecord", CORRUPT)));
      huge = HugeNumbers.concern(schema) ? new HugeNumbers(listed, new JSONOptions(options, zone, CORRUPT)) : null;
      spark = new JsonToStructsEvaluator(options, listed, CORRUPT, Option.apply(zone), false);
    }
    byte[] text = new byte[BEFORE.length + record.length + BEHIND.length];
    System.arraycopy(BEFORE, 0, text, 0, BEFORE.length);
    System.arraycopy(record, 0, text, BEFORE.length, record.length);
    System.arraycopy(BEHIND, 0, text, BEFORE.length + record.length, BEHIND.length);
    if (huge != null && huge.areIn(text)) {
      return new GenericInternalRow(new Object[] {null, Boolean.TRUE});
    }
    InternalRow read = (InternalRow) spark.evaluate(UTF8String.fromBytes(text));
    ArrayData items = read == null || read.isNullAt(0) ? null : read.getArray(0);
    boolean one = items != null && items.numElements() > 0 && !items.isNullAt(0);
    InternalRow row = one ? items.getStruct(0, schema.length()) : null;
    boolean bad =
        row == null || items.numElements() != 1 || !read.isNullAt(1) || !UTF8String.fromBytes(record).isValid();
    return new GenericInternalRow(new Object[] {row, bad});
  }

  /** A record as a row; null: it is not plain. */
  private InternalRow plain(byte[] b) {
    beyondAscii = false;
    Object[] values = new Object[shape.parts.length];
    int at = space(b, 0);
    at = byteAt(b, at) == '{' ? object(b, at + 1, shape, values) : ODD;
    if (at == ODD || space(b, at) != b.length || (beyondAscii && !UTF8String.fromBytes(b).isValid())) {
      return null;
    }
    return new GenericInternalRow(values);
  }

  /** Reads an object, from behind its brace on, into the values of a struct's fields; behind it, or ODD. */
  private int object(byte[] b, int at, JsonShape struct, Object[] values) {
    Arrays.fill(values, ABSENT);
    at = first(b, at, '}');
    for (int position = 0; !over; position++) {
      if (byteAt(b, at) != '"') {
        return ODD;
      }
      int end = at + 1 + struct.expected(b, at + 1, position);
      int field;
      if (end > at + 1) {
        field = struct.field(position);
      } else {
        end = name(b, at + 1);
        if (end == ODD) {
          return ODD;
        }
        field = struct.learn(b, at + 1, end, position, !beyondAscii);
      }
      at = colon(b, end);
      if (at == ODD || (field >= 0 && values[field] != ABSENT)) {
        return ODD;
      }
      at = next(b, field < 0 ? skip(b, at, 0) : value(b, at, struct.parts[field], values, field), '}');
      if (at == ODD) {
        return ODD;
      }
    }
    for (int index = 0; index < values.length; index++) {
      if (values[index] == ABSENT) {
        values[index] = null;
      }
    }
    return at;
  }

  /** Reads a list, from behind its bracket on, as one of the values; behind it, or ODD. */
  private int list(byte[] b, int at, JsonShape item, Object[] values, int index) {
    Object[] items = new Object[4];
    int count = 0;
    at = first(b, at, ']');
    while (!over) {
      if (count == items.length) {
        items = Arrays.copyOf(items, 2 * count);
      }
      at = next(b, value(b, at, item, items, count++), ']');
      if (at == ODD) {
        return ODD;
      }
    }
    values[index] = new GenericArrayData(Arrays.copyOf(items, count));
    return at;
  }

  /** Reads an object, from behind its brace on, as a map; behind it, or ODD, also if a key comes twice. */
  private int map(byte[] b, int at, JsonShape held, Object[] values, int index) {
    Object[] keys = new Object[4];
    Object[] items = new Object[4];
    int count = 0;
    at = first(b, at, '}');
    while (!over) {
      if (count == items.length) {
        keys = Arrays.copyOf(keys, 2 * count);
        items = Arrays.copyOf(items, 2 * count);
      }
      int end = byteAt(b, at) == '"' ? name(b, at + 1) : ODD;
      if (end == ODD) {
        return ODD;
      }
      keys[count] = UTF8String.fromBytes(b, at + 1, end - at - 2);
      at = colon(b, end);
      if (at == ODD) {
        return ODD;
      }
      at = next(b, value(b, at, held, items, count++), '}');
      if (at == ODD) {
        return ODD;
      }
    }
    keys = Arrays.copyOf(keys, count);
    if (new HashSet<>(Arrays.asList(keys)).size() < count) {
      return ODD;
    }
    values[index] = new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(Arrays.copyOf(items, count)));
    return at;
  }

  /** Reads a value as one of the values; behind it, or ODD. */
  private int value(byte[] b, int at, JsonShape of, Object[] values, int index) {
    int first = byteAt(b, at);
    if (first == 'n') {
      values[index] = null;
      return word(b, at, "null");
    }
    int end;
    switch (of.kind) {
      case TEXT:
        if (first != '"' || (end = text(b, at + 1)) == ODD) {
          return ODD;
        }
        values[index] = escaped ? unescaped(b, at + 1, end - 1) : UTF8String.fromBytes(b, at + 1, end - at - 2);
        return end;
      case TRUTH:
        values[index] = first == 't';
        return word(b, at, first == 't' ? "true" : "false");
      case MOMENT:
        if (first != '"' || (end = moment(b, at + 1)) == ODD || byteAt(b, end) != '"') {
          return ODD;
        }
        values[index] = time;
        return end + 1;
      case DATE:
        if (first != '"' || (end = day(b, at + 1)) == ODD || byteAt(b, end) != '"') {
          return ODD;
        }
        values[index] = (int) day;
        return end + 1;
      case STRUCT:
        Object[] inside = new Object[of.parts.length];
        values[index] = new GenericInternalRow(inside);
        return first == '{' ? object(b, at + 1, of, inside) : ODD;
      case LIST:
        return first == '[' ? list(b, at + 1, of.parts[0], values, index) : ODD;
      case MAP:
        return first == '{' ? map(b, at + 1, of.parts[0], values, index) : ODD;
      default:
        end = number(b, at);
        Object made = end == ODD ? null : made(b, at, end, of);
        values[index] = made;
        return made == null ? ODD : end;
    }
  }

  /** The number that was looked at last as what it is to be; null: it does not plainly fit. */
  private Object made(byte[] b, int start, int end, JsonShape of) {
    long signed = negative ? -digits : digits;
    switch (of.kind) {
      case BYTE:
        return integer && whole <= 2 ? (Object) (byte) signed : null;
      case SHORT:
        return integer && whole <= 4 ? (Object) (short) signed : null;
      case INT:
        return integer && whole <= 9 ? (Object) (int) signed : null;
      case LONG:
        return integer ? (Object) signed : null;
      case DECIMAL:
        return exact(b[negative ? start + 1 : start] == '0' ? 0 : whole, signed, of);
      case FLOAT:
        return single(b, start, end, signed);
      default:
        return real(b, start, end);
    }
  }

  private Object exact(int before, long signed, JsonShape of) {
    int missing = of.scale - fraction;
    if (power != 0 || whole + fraction > SHORT || missing < 0 || before + of.scale > of.precision) {
      return null;
    }
    return of.precision <= SHORT
        ? Decimal.createUnsafe(signed * WHOLE_TENS[missing], of.precision, of.scale)
        : Decimal.apply(BigDecimal.valueOf(signed, fraction).setScale(of.scale), of.precision, of.scale);
  }

  private Object single(byte[] b, int start, int end, long signed) {
    if (integer) {
      return negative && digits == 0 ? null : (Object) (float) signed;
    }
    return Float.parseFloat(new String(b, start, end - start, StandardCharsets.US_ASCII));
  }

  private Object real(byte[] b, int start, int end) {
    int tens = power - fraction;
    if (whole + fraction > 18 || digits > 1L << 53 || tens > 22 || tens < -22) {
      return Double.parseDouble(new String(b, start, end - start, StandardCharsets.US_ASCII));
    }
    if (integer && negative && digits == 0) {
      return null; // for Spark a whole number, which has no negative zero
    }
    // Both are exact, so that the one operation rounds as it should.
    double size = tens < 0 ? digits / TENS[-tens] : digits * TENS[tens];
    return negative ? -size : size;
  }
}
