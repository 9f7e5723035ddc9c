package headrace;

import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import org.apache.spark.unsafe.types.UTF8String;

/** Finds where values in JSON end, byte by byte, and says what the one that was looked at last is. */
abstract class JsonScanner {

  /** Where a value ends that is not plain. */
  static final int ODD = -1;

  static final long[] WHOLE_TENS = new long[19];

  private static final int DEEPEST = 16;

  static {
    for (int power = 0; power < WHOLE_TENS.length; power++) {
      WHOLE_TENS[power] = Math.round(Math.pow(10, power));
    }
  }

  /** Whether a time without a zone is one in UTC. */
  transient boolean utc;

  /** Whether what was looked at last was the end of an object or a list. */
  transient boolean over;

  /** Whether there was a byte beyond ASCII in the record so far. */
  transient boolean beyondAscii;

  // What the value that was looked at last is.
  transient boolean escaped;
  transient boolean negative;
  transient long digits;
  transient int whole;
  transient int fraction;
  transient int power;
  transient boolean integer;

  /** Microseconds since 1970. */
  transient long time;

  /** Days since 1970. */
  transient long day;

  /** The day as a number of eight digits. */
  private transient int date;

  /** The byte at a place; behind the end, zero, which is nowhere plain. */
  static int byteAt(byte[] b, int at) {
    return at < b.length ? b[at] : 0;
  }

  static int space(byte[] b, int at) {
    while (at < b.length && b[at] <= ' ' && (b[at] == ' ' || b[at] == '\n' || b[at] == '\t' || b[at] == '\r')) {
      at++;
    }
    return at;
  }

  /** The first item behind an opening mark; behind the closing one if there is none. */
  final int first(byte[] b, int at, int closing) {
    at = space(b, at);
    over = byteAt(b, at) == closing;
    return over ? at + 1 : at;
  }

  /** The next item behind one; behind the closing mark if there is none. */
  final int next(byte[] b, int at, int closing) {
    if (at == ODD) {
      return ODD;
    }
    at = space(b, at);
    int mark = byteAt(b, at);
    over = mark == closing;
    return over ? at + 1 : mark == ',' ? space(b, at + 1) : ODD;
  }

  /** The value behind the name that ends at a place. */
  static int colon(byte[] b, int at) {
    if (at == ODD) {
      return ODD;
    }
    at = space(b, at);
    return byteAt(b, at) == ':' ? space(b, at + 1) : ODD;
  }

  /** Behind the closing quote of a name; names with escapes are not plain. */
  final int name(byte[] b, int at) {
    int end = text(b, at);
    return end == ODD || escaped ? ODD : end;
  }

  /** Behind the closing quote of a text, whose first byte is at a place. */
  final int text(byte[] b, int at) {
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

  static UTF8String unescaped(byte[] b, int start, int end) {
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

  /** Behind a number; its parts are noted. Up to 18 digits before the point, 17 behind it, two of an exponent. */
  final int number(byte[] b, int at) {
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

  static int word(byte[] b, int at, String word) {
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
  final int day(byte[] b, int at) {
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
  final int moment(byte[] b, int at) {
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
    } else if (!utc) {
      return ODD;
    }
    time = (day * 86_400 + hour * 3600L + minute * 60L + second - shift) * 1_000_000 + micros;
    return at;
  }

  /** Behind a value that nobody asked for. */
  final int skip(byte[] b, int at, int depth) {
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
    at = first(b, at, closing);
    while (!over) {
      if (closing == '}') {
        at = colon(b, byteAt(b, at) == '"' ? name(b, at + 1) : ODD);
        if (at == ODD) {
          return ODD;
        }
      }
      at = next(b, skip(b, at, depth + 1), closing);
      if (at == ODD) {
        return ODD;
      }
    }
    return at;
  }
}
