package headrace;

import java.io.Serializable;
import java.util.List;

/**
 * Windows that depend on the order of a key's records: by count, sliding with each record, sessions.
 *
 * <p>Over times in microseconds; what else a record holds does not matter here. A window is a stretch of a list of records,
 * not a copy of them: windows that overlap share what they hold.
 *
 * @param kind "count", "sliding" or "session"
 * @param size how many records, or how many microseconds: the length, or the pause that ends a session
 * @param step after how many records a window by count is given
 * @param most how long a session may be; without a limit a record may still put two sessions together
 * @param changing whether a window is given before it is complete, and again when it has changed
 */
record Fold(String kind, long size, int step, long most, boolean changing) implements Serializable {

  /** That there is nothing to wait for. */
  static final long NEVER = Long.MAX_VALUE;

  /** A window: its first and last moment, where its records begin in the list, how many they are, its number by count. */
  record Stretch(long start, long end, int first, int size, long number) {}

  /** Whether windows are by count. */
  boolean counts() {
    return kind.equals("count");
  }

  /** Whether a record may still come before others whose turn has come, as long as it finds an open session. */
  boolean free() {
    return kind.equals("session") && most == NEVER;
  }

  /** What tells a window from the others of its key, however its records change. */
  long identity(Stretch window) {
    return switch (kind) {
      case "count" -> window.number();
      case "sliding" -> window.end();
      default -> window.start();
    };
  }

  /**
   * Adds to `closed` what the next records close, and tells from where on records are still needed.
   *
   * @param times of those kept before, and then of the next ones
   * @param old how many were kept before
   * @param seen how many a key has had in all before these
   * @param until the time up to which nothing else can come
   */
  int over(long[] times, int old, long seen, long until, List<Stretch> closed) {
    return switch (kind) {
      case "count" -> count(times, old, seen, closed);
      case "sliding" -> sliding(times, old, until, closed);
      default -> session(times, old, until, closed);
    };
  }

  private int count(long[] times, int old, long seen, List<Stretch> closed) {
    int last = 0;
    int end = old + step - (int) (seen % step);
    long number = seen / step;
    for (; end <= times.length; end += step) {
      closed.add(stretch(times, (int) Math.max(0, end - size), end, ++number));
      last = end;
    }
    if (changing && times.length > end - step) {
      closed.add(stretch(times, (int) Math.max(0, end - size), times.length, ++number));
    }
    return step == size ? last : (int) Math.max(0, times.length - size + 1);
  }

  private static Stretch stretch(long[] times, int first, int end, long number) {
    return new Stretch(times[first], times[end - 1], first, end - first, number);
  }

  private int sliding(long[] times, int old, long until, List<Stretch> closed) {
    int first = 0;
    for (int index = old; index < times.length; index++) {
      if (index + 1 < times.length && times[index + 1] == times[index]) {
        continue; // all records of one moment are in its window
      }
      long begins = times[index] - size;
      while (times[first] <= begins) {
        first++;
      }
      closed.add(new Stretch(begins, times[index], first, index + 1 - first, 0));
    }
    while (first < times.length && times[first] + size <= until) {
      first++;
    }
    return first;
  }

  private int session(long[] times, int old, long until, List<Stretch> closed) {
    int first = 0;
    for (int index = Math.max(old, 1); index <= times.length; index++) {
      if (joins(times, first, index)) {
        continue;
      }
      long end = ends(times, first, index);
      if (end > until && (index == times.length || free())) {
        break; // it may still grow, or become one with the next
      }
      closed.add(new Stretch(times[first], end, first, index - first, 0));
      first = index;
    }
    return first;
  }

  /** Whether there is a next record and it belongs to the session that began at `first`. */
  private boolean joins(long[] times, int first, int index) {
    return index < times.length && times[index] <= times[index - 1] + size && times[index] < limit(times[first]);
  }

  private long limit(long start) {
    return most == NEVER ? NEVER : start + most;
  }

  private long ends(long[] times, int first, int end) {
    return Math.min(times[end - 1] + size, limit(times[first]));
  }

  /** When to look again at what is kept from an index on, even if no record comes. */
  long deadline(long[] times, int kept) {
    if (kept == times.length || counts()) {
      return NEVER;
    }
    if (kind.equals("sliding")) {
      return times[times.length - 1] + size;
    }
    int index = kept + 1;
    while (joins(times, kept, index)) {
      index++;
    }
    return ends(times, kept, index);
  }
}
