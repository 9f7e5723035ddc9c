package headrace;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.json.JsonToStructsEvaluator;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/**
 * JSON records as rows: what is plain is read here, in one pass over its bytes, and everything else by Spark.
 *
 * <p>JSON leaves much open (two fields of one name, numbers in quotes, numbers too large, odd escapes), and each parser
 * has its own answer. Plain is a record about which all must agree: one object; each wanted field at most once, with a
 * value that plainly is of its column's type; nothing unusual elsewhere. Any other is Spark's, whose answer counts.
 */
public final class JsonReader implements Serializable {

  private static final long serialVersionUID = 1L;

  /** Bytes; Spark's parser has limits of its own for what is longer, such as the name of a field. */
  private static final int LONGEST = 40_000;

  private static final int DEEPEST = 16;
  private static final String CORRUPT = "_headrace_corrupt";
  private static final byte[] BEFORE = "{\"r\":[".getBytes(StandardCharsets.US_ASCII);
  private static final byte[] BEHIND = "]}".getBytes(StandardCharsets.US_ASCII);
  private static final Object ABSENT = new Object();

  /** Where a value ends that is not plain. */
  private static final int ODD = -1;

  private static final double[] TENS = new double[23];
  private static final long[] WHOLE_TENS = new long[19];

  static {
    for (int power = 0; power < TENS.length; power++) {
      TENS[power] = Double.parseDouble("1e" + power);
    }
    for (int power = 0; power < WHOLE_TENS.length; power++) {
      WHOLE_TENS[power] = Math.round(Math.pow(10, power));
    }
  }

  private final StructType schema;
  private final String zone;

  private transient boolean ready;
  private transient boolean plain;
  private transient byte[][] names;
  private transient JsonKind[] kinds;
  private transient int[] precisions;
  private transient int[] scales;
  private transient JsonToStructsEvaluator spark;

  /** What Spark must not be given; null: nothing. */
  private transient HugeNumbers huge;

  /** The names of the last record in their order, each with its closing quote, and which columns they are. */
  private transient byte[][] order;

  private transient int[] columns;

  private transient byte[] last;
  private transient InternalRow answer;

  // What the value that was looked at last is.
  private transient boolean escaped;
  private transient boolean beyondAscii;
  private transient boolean negative;
  private transient long digits;
  private transient int whole;
  private transient int fraction;
  private transient int power;
  private transient boolean integer;
  private transient long number;
  private transient int date;
  private transient long day;

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
    return reader.plain && reader.isPlain(record, new Object[reader.names.length]);
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
    InternalRow found = null;
    if (plain && record != null && record.length <= LONGEST) {
      Object[] values = new Object[names.length];
      if (isPlain(record, values)) {
        found = new GenericInternalRow(new Object[] {new GenericInternalRow(values), Boolean.FALSE});
      }
    }
    last = record;
    answer = found != null ? found : bySpark(record);
    return answer;
  }

  private void prepare() {
    int count = schema.length();
    names = new byte[count][];
    kinds = new JsonKind[count];
    precisions = new int[count];
    scales = new int[count];
    order = new byte[0][];
    columns = new int[0];
    plain = true;
    for (int index = 0; index < count; index++) {
      String name = schema.fields()[index].name();
      names[index] = name.getBytes(StandardCharsets.UTF_8);
      kinds[index] = kind(schema.fields()[index].dataType(), index);
      plain &= kinds[index] != null && name.chars().noneMatch(c -> c < ' ' || c == '"' || c == '\\');
    }
    ready = true;
  }

  private JsonKind kind(DataType type, int index) {
    if (type instanceof DecimalType decimal) {
      precisions[index] = decimal.precision();
      scales[index] = decimal.scale();
      return decimal.precision() <= 18 ? JsonKind.DECIMAL : null;
    }
    return JsonKind.of(type);
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

  /** Reads a record into the values; false: it is not plain. */
  private boolean isPlain(byte[] b, Object[] values) {
    Arrays.fill(values, ABSENT);
    beyondAscii = false;
    int at = space(b, 0);
    if (byteAt(b, at) != '{') {
      return false;
    }
    at = space(b, at + 1);
    if (byteAt(b, at) == '}') {
      at++;
    } else {
      for (int position = 0; ; position++) {
        if (byteAt(b, at) != '"') {
          return false;
        }
        int column;
        if (position < order.length && startsWith(b, at + 1, order[position])) {
          column = columns[position];
          at += 1 + order[position].length;
        } else {
          int end = name(b, at + 1);
          if (end == ODD) {
            return false;
          }
          column = learn(b, at + 1, end, position);
          at = end;
        }
        at = space(b, at);
        if (byteAt(b, at) != ':') {
          return false;
        }
        at = space(b, at + 1);
        if (column < 0) {
          at = skip(b, at, 0);
        } else if (values[column] != ABSENT) {
          return false;
        } else {
          at = value(b, at, column, values);
        }
        if (at == ODD) {
          return false;
        }
        at = space(b, at);
        int next = byteAt(b, at++);
        if (next == '}') {
          break;
        }
        if (next != ',') {
          return false;
        }
        at = space(b, at);
      }
    }
    if (space(b, at) != b.length || (beyondAscii && !UTF8String.fromBytes(b).isValid())) {
      return false;
    }
    for (int index = 0; index < values.length; index++) {
      if (values[index] == ABSENT) {
        values[index] = null;
      }
    }
    return true;
  }

  /** Which column a name is, noted for the next record; a name with bytes beyond ASCII is looked at each time. */
  private int learn(byte[] b, int start, int end, int position) {
    int length = end - 1 - start;
    int found = -1;
    for (int index = 0; index < names.length && found < 0; index++) {
      if (names[index].length == length && Arrays.equals(names[index], 0, length, b, start, end - 1)) {
        found = index;
      }
    }
    if (position < 64 && !beyondAscii) {
      if (position >= order.length) {
        order = Arrays.copyOf(order, position + 1);
        columns = Arrays.copyOf(columns, position + 1);
      }
      for (int other = 0; other < order.length; other++) {
        if (order[other] == null) {
          order[other] = new byte[0];
        }
      }
      order[position] = Arrays.copyOfRange(b, start, end);
      columns[position] = found;
    }
    return found;
  }

  private static boolean startsWith(byte[] b, int at, byte[] text) {
    return text.length > 0 && at + text.length <= b.length && Arrays.equals(b, at, at + text.length, text, 0, text.length);
  }

  /** The byte at a place; behind the end, zero, which is nowhere plain. */
  private static int byteAt(byte[] b, int at) {
    return at < b.length ? b[at] : 0;
  }

  private static int space(byte[] b, int at) {
    while (at < b.length && b[at] <= ' ' && (b[at] == ' ' || b[at] == '\n' || b[at] == '\t' || b[at] == '\r')) {
      at++;
    }
    return at;
  }

  /** Behind the closing quote of a name; names with escapes are not plain. */
  private int name(byte[] b, int at) {
    int end = text(b, at);
    return end == ODD || escaped ? ODD : end;
  }

  /** Behind the closing quote of a text, whose first byte is at a place. */
  private int text(byte[] b, int at) {
    escaped = false;
    while (at < b.length) {
      int c = b[at++];
      if (c == '"') {
        return at;
      } else if (c == '\\') {
        escaped = true;
        at = escape(b, at);
        if (at == ODD) {
          return ODD;
        }
      } else if (c < ' ') {
        if (c >= 0) {
          return ODD;
        }
        beyondAscii = true;
      }
    }
    return ODD;
  }

  /** Behind an escape, whose letter is at a place. Halves of a surrogate pair are not plain. */
  private static int escape(byte[] b, int at) {
    switch (byteAt(b, at)) {
      case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
        return at + 1;
      case 'u':
        int code = code(b, at + 1);
        return code < 0 || (code >= 0xD800 && code < 0xE000) ? ODD : at + 5;
      default:
        return ODD;
    }
  }

  /** The code of an escape, whose four digits are at a place, or ODD. */
  static int code(byte[] b, int at) {
    int code = 0;
    for (int place = at; place < at + 4; place++) {
      int digit = Character.digit(byteAt(b, place), 16);
      if (digit < 0) {
        return ODD;
      }
      code = code * 16 + digit;
    }
    return code;
  }

  private static UTF8String unescaped(byte[] b, int start, int end) {
    byte[] made = new byte[end - start];
    int length = 0;
    for (int at = start; at < end; ) {
      int c = b[at++];
      if (c != '\\') {
        made[length++] = (byte) c;
        continue;
      }
      c = b[at++];
      switch (c) {
        case 'b' -> made[length++] = '\b';
        case 'f' -> made[length++] = '\f';
        case 'n' -> made[length++] = '\n';
        case 'r' -> made[length++] = '\r';
        case 't' -> made[length++] = '\t';
        case 'u' -> {
          byte[] encoded = String.valueOf((char) code(b, at)).getBytes(StandardCharsets.UTF_8);
          System.arraycopy(encoded, 0, made, length, encoded.length);
          length += encoded.length;
          at += 4;
        }
        default -> made[length++] = (byte) c;
      }
    }
    return UTF8String.fromBytes(made, 0, length);
  }

  /** Reads the value of a column; behind it, or ODD. */
  private int value(byte[] b, int at, int column, Object[] values) {
    int first = byteAt(b, at);
    if (first == 'n') {
      values[column] = null;
      return word(b, at, "null");
    }
    int end;
    switch (kinds[column]) {
      case TEXT:
        if (first != '"' || (end = text(b, at + 1)) == ODD) {
          return ODD;
        }
        values[column] = escaped ? unescaped(b, at + 1, end - 1) : UTF8String.fromBytes(b, at + 1, end - at - 2);
        return end;
      case TRUTH:
        values[column] = first == 't';
        return word(b, at, first == 't' ? "true" : "false");
      case MOMENT:
        if (first != '"' || (end = moment(b, at + 1)) == ODD || byteAt(b, end) != '"') {
          return ODD;
        }
        values[column] = number;
        return end + 1;
      case DATE:
        if (first != '"' || (end = day(b, at + 1)) == ODD || byteAt(b, end) != '"') {
          return ODD;
        }
        values[column] = (int) day;
        return end + 1;
      default:
        end = number(b, at);
        if (end == ODD) {
          return ODD;
        }
        Object made = made(b, at, end, column);
        values[column] = made;
        return made == null ? ODD : end;
    }
  }

  /** The number that was looked at last as its column's; null: it does not plainly fit. */
  private Object made(byte[] b, int start, int end, int column) {
    long signed = negative ? -digits : digits;
    switch (kinds[column]) {
      case BYTE:
        return integer && whole <= 2 ? (Object) (byte) signed : null;
      case SHORT:
        return integer && whole <= 4 ? (Object) (short) signed : null;
      case INT:
        return integer && whole <= 9 ? (Object) (int) signed : null;
      case LONG:
        return integer ? (Object) signed : null;
      case DECIMAL:
        int missing = scales[column] - fraction;
        boolean fits = power == 0 && whole + fraction <= 18 && missing >= 0;
        int before = b[negative ? start + 1 : start] == '0' ? 0 : whole;
        if (!fits || before + scales[column] > precisions[column]) {
          return null;
        }
        return Decimal.createUnsafe(signed * WHOLE_TENS[missing], precisions[column], scales[column]);
      default:
        return real(b, start, end);
    }
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

  /** Behind a number; its parts are noted. Up to 18 digits before the point, 17 behind it, two of an exponent. */
  private int number(byte[] b, int at) {
    negative = byteAt(b, at) == '-';
    if (negative) {
      at++;
    }
    int start = at;
    int c = byteAt(b, at);
    long sum = 0;
    while (c >= '0' && c <= '9') {
      sum = sum * 10 + (c - '0');
      c = byteAt(b, ++at);
    }
    whole = at - start;
    fraction = 0;
    power = 0;
    integer = true;
    if (whole == 0 || whole > 18 || (whole > 1 && b[start] == '0')) {
      return ODD;
    }
    if (c == '.') {
      integer = false;
      int point = ++at;
      c = byteAt(b, at);
      while (c >= '0' && c <= '9') {
        sum = sum * 10 + (c - '0'); // too many digits overflow here, and are not used
        c = byteAt(b, ++at);
      }
      fraction = at - point;
      if (fraction == 0 || fraction > 17) {
        return ODD;
      }
    }
    digits = sum;
    return c == 'e' || c == 'E' ? exponent(b, at + 1) : at;
  }

  private int exponent(byte[] b, int at) {
    integer = false;
    int sign = byteAt(b, at);
    if (sign == '-' || sign == '+') {
      at++;
    }
    int start = at;
    for (int c = byteAt(b, at); c >= '0' && c <= '9' && at - start < 3; c = byteAt(b, ++at)) {
      power = power * 10 + (c - '0');
    }
    if (at == start || at - start > 2) {
      return ODD;
    }
    power = sign == '-' ? -power : power;
    return at;
  }

  private static int word(byte[] b, int at, String word) {
    for (int index = 0; index < word.length(); index++) {
      if (byteAt(b, at + index) != word.charAt(index)) {
        return ODD;
      }
    }
    return at + word.length();
  }

  /** So many digits as a number, or a negative one. */
  private static int two(byte[] b, int at) {
    int tens = byteAt(b, at) - '0';
    int ones = byteAt(b, at + 1) - '0';
    return tens < 0 || tens > 9 || ones < 0 || ones > 9 ? -10_000 : tens * 10 + ones;
  }

  /** Behind a day of the years 1900 to 2199, as the days since 1970. */
  private int day(byte[] b, int at) {
    int century = two(b, at);
    int year = century * 100 + two(b, at + 2);
    int month = two(b, at + 5);
    int ofMonth = two(b, at + 8);
    if (year < 1900 || year > 2199 || byteAt(b, at + 4) != '-' || byteAt(b, at + 7) != '-') {
      return ODD;
    }
    if (month < 1 || month > 12 || ofMonth < 1 || ofMonth > 31) {
      return ODD;
    }
    int known = (year * 100 + month) * 100 + ofMonth;
    if (known != date) {
      if (ofMonth > LocalDate.of(year, month, 1).lengthOfMonth()) {
        return ODD;
      }
      date = known;
      day = LocalDate.of(year, month, ofMonth).toEpochDay();
    }
    return at + 10;
  }

  /** Behind a moment, as microseconds since 1970. */
  private int moment(byte[] b, int at) {
    at = day(b, at);
    if (at == ODD || (byteAt(b, at) != 'T' && byteAt(b, at) != ' ')) {
      return ODD;
    }
    int hour = two(b, at + 1);
    int minute = two(b, at + 4);
    int second = two(b, at + 7);
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) {
      return ODD;
    }
    if (byteAt(b, at + 3) != ':' || byteAt(b, at + 6) != ':') {
      return ODD;
    }
    at += 9;
    long micros = 0;
    if (byteAt(b, at) == '.') {
      int start = ++at;
      for (int c = byteAt(b, at); c >= '0' && c <= '9' && at - start < 7; c = byteAt(b, ++at)) {
        micros = micros * 10 + (c - '0');
      }
      if (at == start || at - start > 6) {
        return ODD;
      }
      micros *= WHOLE_TENS[6 - (at - start)];
    }
    long shift = 0;
    int mark = byteAt(b, at);
    if (mark == 'Z') {
      at++;
    } else if (mark == '+' || mark == '-') {
      int hours = two(b, at + 1);
      int minutes = two(b, at + 4);
      if (hours < 0 || hours > 13 || minutes < 0 || minutes > 59 || byteAt(b, at + 3) != ':') {
        return ODD;
      }
      shift = (hours * 60L + minutes) * (mark == '+' ? 60 : -60);
      at += 6;
    } else if (!zone.equals("UTC")) {
      return ODD;
    }
    number = (day * 86_400 + hour * 3600L + minute * 60L + second - shift) * 1_000_000 + micros;
    return at;
  }

  /** Behind a value that nobody asked for. */
  private int skip(byte[] b, int at, int depth) {
    switch (byteAt(b, at)) {
      case '"':
        return text(b, at + 1);
      case 't':
        return word(b, at, "true");
      case 'f':
        return word(b, at, "false");
      case 'n':
        return word(b, at, "null");
      case '{':
        return items(b, at + 1, depth, '}');
      case '[':
        return items(b, at + 1, depth, ']');
      default:
        return number(b, at);
    }
  }

  private int items(byte[] b, int at, int depth, int closing) {
    if (depth == DEEPEST) {
      return ODD;
    }
    at = space(b, at);
    if (byteAt(b, at) == closing) {
      return at + 1;
    }
    while (true) {
      if (closing == '}') {
        if (byteAt(b, at) != '"' || (at = name(b, at + 1)) == ODD) {
          return ODD;
        }
        at = space(b, at);
        if (byteAt(b, at) != ':') {
          return ODD;
        }
        at = space(b, at + 1);
      }
      at = skip(b, at, depth + 1);
      if (at == ODD) {
        return ODD;
      }
      at = space(b, at);
      int next = byteAt(b, at++);
      if (next == closing) {
        return at;
      }
      if (next != ',') {
        return ODD;
      }
      at = space(b, at);
    }
  }
}
