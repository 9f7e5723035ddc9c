package headrace;

import java.io.Serializable;
import java.util.List;

/**
 * Windows that depend on the order of a key's records: by count, sliding with each record, sessions with a limit.
 *
 * <p>Over times in microseconds; what else a record holds does not matter here. A window is a stretch of a list of records,
 * not a copy of them: windows that overlap share what they hold.
 *
 * @param kind "count", "sliding" or "session"
 * @param size how many records, or how many microseconds: the length, or the pause that ends a session
 * @param step after how many records a window by count is given
 * @param most how long a session may be
 */
record Fold(String kind, long size, int step, long most) implements Serializable {

  /** That there is nothing to wait for. */
  static final long NEVER = Long.MAX_VALUE;

  /** A window: its first and last moment, where its records begin in the list, and how many they are. */
  record Stretch(long start, long end, int first, int size) {}

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
    for (int end = old + step - (int) (seen % step); end <= times.length; end += step) {
      int first = (int) Math.max(0, end - size);
      closed.add(new Stretch(times[first], times[end - 1], first, end - first));
      last = end;
    }
    return step == size ? last : (int) Math.max(0, times.length - size + 1);
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
      closed.add(new Stretch(begins, times[index], first, index + 1 - first));
    }
    while (first < times.length && times[first] + size <= until) {
      first++;
    }
    return first;
  }

  private int session(long[] times, int old, long until, List<Stretch> closed) {
    int first = 0;
    for (int index = Math.max(old, 1); index < times.length; index++) {
      if (times[index] > times[index - 1] + size || times[index] >= limit(times[first])) {
        closed.add(new Stretch(times[first], ends(times, first, index), first, index - first));
        first = index;
      }
    }
    if (first < times.length && ends(times, first, times.length) <= until) {
      closed.add(new Stretch(times[first], ends(times, first, times.length), first, times.length - first));
      return times.length;
    }
    return first;
  }

  private long limit(long start) {
    return most == NEVER ? NEVER : start + most;
  }

  private long ends(long[] times, int first, int end) {
    return Math.min(times[end - 1] + size, limit(times[first]));
  }

  /** When to look again at what is kept from an index on, even if no record comes. */
  long deadline(long[] times, int kept) {
    if (kept == times.length || kind.equals("count")) {
      return NEVER;
    }
    return kind.equals("sliding") ? times[times.length - 1] + size : ends(times, kept, times.length);
  }
}
