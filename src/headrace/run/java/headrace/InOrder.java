package headrace;

import headrace.Fold.Stretch;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Windows over a key's records in the order of their times, those of one time in the order of their values.
 *
 * <p>A record waits in the state of its key until the watermark has passed it; then its turn has come, and it is kept for as
 * long as a later window needs it. So the answer does not depend on how the input was cut into batches.
 *
 * <p>Where answers change, windows are given at once, as if nothing more came: of each batch those that its records have made or
 * changed, and, marked, those that are no more because two sessions have become one.
 */
public final class InOrder extends StatefulProcessor<Row, Row, Row> {

  private static final long serialVersionUID = 1L;
  private static final String PACKED = "_headrace_packed";
  private static final String LIKE = "_headrace_like";
  private static final String AT = "_headrace_at";
  private static final String RECORD = "_headrace_record";
  private static final String WINDOWS = "_headrace_windows";

  /** How many windows are handed over at a time; those that overlap share their records. */
  private static final int PIECE = 256;

  private static final Comparator<Entry> BY_TIME = Comparator.comparingLong(Entry::at);

  private final Fold fold;
  private final Records records;
  private final int width;
  private final long allowance;
  private final long lead;
  private transient ValueState<Row> state;

  private InOrder(Fold fold, Records records, int width, long allowance, long lead) {
    this.fold = fold;
    this.records = records;
    this.width = width;
    this.allowance = allowance;
    this.lead = lead;
  }

  @Override
  public String toString() {
    return "in_order";
  }

  /** A record: its time in microseconds, and its values. */
  private record Entry(long at, byte[] values) {}

  /**
   * The windows of a frame: its keys; whether they are GONE; FROM and TO in microseconds, FIRST (from 1), SIZE and NUMBER as
   * arrays; each value as an array.
   *
   * <p>A row holds several windows of one key: the n-th begins at FROM[n], and its values are SIZE[n] from FIRST[n] on.
   *
   * @param given the keys, the time in microseconds, and the values
   * @param width how many columns are keys
   * @param allowance by how many microseconds more than the watermark a record may be late
   * @param lead by how many microseconds the time that is given is ahead, so that Spark drops what is too late
   */
  public static Dataset<Row> windows(
      Dataset<Row> given,
      int width,
      boolean streaming,
      String kind,
      long size,
      int step,
      long most,
      boolean changing,
      long allowance,
      long lead) {
    StructField[] fields = given.schema().fields();
    StructType keys = new StructType(Stream.of(fields).limit(width).toArray(StructField[]::new));
    StructType values = new StructType(Stream.of(fields).skip(width + 1).toArray(StructField[]::new));
    Fold fold = new Fold(kind, size, step, most, changing);
    InOrder turns = new InOrder(fold, new Records(values), width, allowance, lead);
    Column[] named = columns(keys);
    Column record =
        values.isEmpty()
            ? functions.lit(new byte[0])
            : Calls.of(turns.records, "pack", DataTypes.BinaryType, functions.struct(columns(values)));
    Column[] taken = Stream.concat(Stream.of(functions.col(AT), record.as(RECORD)), Stream.of(named)).toArray(Column[]::new);
    Dataset<Row> slim = given.select(taken);
    StructType made = keys.add(WINDOWS, DataTypes.BinaryType);
    Dataset<Row> packed;
    if (streaming) {
      packed =
          slim.groupBy(named)
              .as(Encoders.row(keys), Encoders.row(slim.schema()))
              .transformWithState(
                  turns,
                  TimeMode.EventTime(),
                  changing ? OutputMode.Update() : OutputMode.Append(),
                  Encoders.row(made));
    } else {
      Column all = functions.collect_list(functions.struct(AT, RECORD));
      Column pieces = Calls.of(turns, "whole", DataTypes.createArrayType(DataTypes.BinaryType), functions.col(RECORD));
      packed = slim.groupBy(named).agg(all.as(RECORD)).select(with(named, functions.explode(pieces).as(WINDOWS)));
    }
    Column unpacked = Calls.of(turns, "unpack", turns.unpackedType(), functions.col(WINDOWS));
    return packed.select(with(named, unpacked.as(WINDOWS))).select(with(named, functions.col(WINDOWS + ".*")));
  }

  /** What the state of a key holds, as `struct<seen, records>`; `json` has the columns of the records, as Spark tells them. */
  public static Column held(Column packed, String json) {
    Records records = new Records((StructType) DataType.fromJson(json));
    StructType entry = new StructType().add("at", DataTypes.LongType);
    for (StructField field : records.columns.fields()) {
      entry = entry.add(field.name(), field.dataType());
    }
    StructType gives =
        new StructType().add("seen", DataTypes.LongType).add("records", DataTypes.createArrayType(entry));
    return Calls.of(new InOrder(null, records, 0, 0, 0), "show", gives, packed);
  }

  private static Column[] columns(StructType fields) {
    return Stream.of(fields.fieldNames()).map(name -> functions.col("`" + name.replace("`", "``") + "`")).toArray(Column[]::new);
  }

  private static Column[] with(Column[] columns, Column one) {
    return Stream.concat(Stream.of(columns), Stream.of(one)).toArray(Column[]::new);
  }

  private StructType unpackedType() {
    StructType made = new StructType().add("_headrace_gone", DataTypes.BooleanType);
    for (String name : new String[] {"_headrace_from", "_headrace_to", "_headrace_number"}) {
      made = made.add(name, DataTypes.createArrayType(DataTypes.LongType));
    }
    for (String name : new String[] {"_headrace_first", "_headrace_size"}) {
      made = made.add(name, DataTypes.createArrayType(DataTypes.IntegerType));
    }
    for (StructField field : records.columns.fields()) {
      made = made.add(field.name(), DataTypes.createArrayType(field.dataType()));
    }
    return made;
  }

  @Override
  public void init(OutputMode mode, TimeMode time) {
    StructType held = new StructType().add(PACKED, DataTypes.BinaryType).add(LIKE, records.columns);
    state = getHandle().getValueState("held", Encoders.row(held), TTLConfig.NONE());
  }

  @Override
  public scala.collection.Iterator<Row> handleInputRows(
      Row key, scala.collection.Iterator<Row> rows, TimerValues times) {
    Held held = load();
    List<Entry> fresh = new ArrayList<>();
    while (rows.hasNext()) {
      Row row = rows.next();
      fresh.add(new Entry(row.getLong(0) - lead, (byte[]) row.get(1)));
    }
    Stream<byte[]> changed = fold.changing() ? changed(held, fresh) : Stream.of();
    held.waiting.addAll(fresh);
    return answers(key, Stream.concat(changed, advance(held, times.getCurrentWatermarkInMs())));
  }

  @Override
  public scala.collection.Iterator<Row> handleExpiredTimer(Row key, TimerValues times, ExpiredTimerInfo expired) {
    return answers(key, advance(load(), times.getCurrentWatermarkInMs()));
  }

  private Held load() {
    return state.exists() ? Held.read((byte[]) state.get().get(0)) : new Held();
  }

  /** Takes the records whose turn has come; the windows that are complete, unless they were given before. */
  private Stream<byte[]> advance(Held held, long watermark) {
    long until = watermark * 1000 - allowance;
    List<Entry> ready = new ArrayList<>();
    List<Entry> rest = new ArrayList<>();
    for (Entry entry : held.waiting) {
      (entry.at <= until ? ready : rest).add(entry);
    }
    List<Entry> rows = ordered(ready, held.kept);
    long[] times = times(rows);
    List<Stretch> closed = new ArrayList<>();
    int kept = fold.over(times, old(held), held.seen, until, closed);
    held.seen = fold.counts() ? passed(held.seen + ready.size()) : 0;
    held.kept = rows.subList(kept, rows.size());
    held.waiting = rest;
    long due = fold.deadline(times, kept);
    for (Entry entry : rest) {
      due = Math.min(due, entry.at);
    }
    wakeUp(held, due == Fold.NEVER ? due : due + allowance, watermark);
    if (held.kept.isEmpty() && rest.isEmpty() && held.seen == 0) {
      state.clear();
    } else {
      state.update(RowFactory.create(held.written(), null));
    }
    return fold.changing() ? Stream.of() : packed(rows, closed, false);
  }

  /** How many records are to be remembered: where windows are numbered, all of them. */
  private long passed(long seen) {
    return fold.changing() ? seen : seen % fold.step();
  }

  /** The windows that fresh records make or change, and those that are no more. */
  private Stream<byte[]> changed(Held held, List<Entry> fresh) {
    List<Entry> before = ordered(held.waiting, held.kept);
    List<Entry> all = new ArrayList<>(held.waiting);
    all.addAll(fresh);
    List<Entry> after = ordered(all, held.kept);
    Map<Long, Stretch> given = new LinkedHashMap<>();
    for (Stretch window : windows(before, held)) {
      given.put(fold.identity(window), window);
    }
    int[] news = news(after, fresh);
    List<Stretch> changed = new ArrayList<>();
    for (Stretch window : windows(after, held)) {
      // What comes before moves the records of windows by count along.
      int from = fold.counts() ? 0 : window.first();
      boolean known = given.remove(fold.identity(window)) != null;
      if (!known || news[window.first() + window.size()] > news[from]) {
        changed.add(window);
      }
    }
    return Stream.concat(packed(before, new ArrayList<>(given.values()), true), packed(after, changed, false));
  }

  /** All windows, if no more records came, that are not complete for good. */
  private List<Stretch> windows(List<Entry> rows, Held held) {
    List<Stretch> found = new ArrayList<>();
    fold.over(times(rows), old(held), held.seen, Fold.NEVER, found);
    return found;
  }

  /** How many of the first so many records are fresh. */
  private static int[] news(List<Entry> rows, List<Entry> fresh) {
    Set<Entry> these = Collections.newSetFromMap(new IdentityHashMap<>());
    these.addAll(fresh);
    int[] news = new int[rows.size() + 1];
    for (int index = 0; index < rows.size(); index++) {
      news[index + 1] = news[index] + (these.contains(rows.get(index)) ? 1 : 0);
    }
    return news;
  }

  private static long[] times(List<Entry> rows) {
    return rows.stream().mapToLong(Entry::at).toArray();
  }

  /** How many records lie before all that may still come. */
  private int old(Held held) {
    return fold.free() ? 0 : held.kept.size();
  }

  /** Sees to it that the key is looked at once the watermark is at a time: not earlier, or it would be for nothing. */
  private void wakeUp(Held held, long due, long watermark) {
    long next = due == Fold.NEVER ? Held.NONE : -Math.floorDiv(-due, 1000L);
    boolean pending = held.timer > watermark;
    if (pending && next != Held.NONE && held.timer <= next) {
      return; // it comes sooner, which costs one look
    }
    if (pending) {
      getHandle().deleteTimer(held.timer);
    }
    if (next != Held.NONE) {
      getHandle().registerTimer(next);
    }
    held.timer = next;
  }

  /** Records in order, behind the ones kept before, or among them where they may be. */
  private List<Entry> ordered(List<Entry> next, List<Entry> kept) {
    List<Entry> rows = new ArrayList<>(kept.size() + next.size());
    rows.addAll(kept);
    rows.addAll(next);
    List<Entry> loose = fold.free() ? rows : rows.subList(kept.size(), rows.size());
    loose.sort(records.types.length == 0 ? BY_TIME : BY_TIME.thenComparing(Entry::values, records.order()));
    return rows;
  }

  private scala.collection.Iterator<Row> answers(Row key, Stream<byte[]> pieces) {
    Iterator<Row> rows =
        pieces
            .map(
                piece -> {
                  Object[] row = new Object[width + 1];
                  for (int column = 0; column < width; column++) {
                    row[column] = key.get(column);
                  }
                  row[width] = piece;
                  return RowFactory.create(row);
                })
            .iterator();
    return CollectionConverters.asScala(rows);
  }

  /** The windows a few at a time, each time with the records they lie in. */
  private static Stream<byte[]> packed(List<Entry> rows, List<Stretch> closed, boolean gone) {
    return IntStream.range(0, (closed.size() + PIECE - 1) / PIECE)
        .mapToObj(
            number -> {
              List<Stretch> some = closed.subList(number * PIECE, Math.min(closed.size(), (number + 1) * PIECE));
              Stretch last = some.get(some.size() - 1); // none before it ends later
              int low = some.get(0).first();
              List<Entry> theirs = rows.subList(low, last.first() + last.size());
              ByteBuffer made = ByteBuffer.allocate(9 + 32 * some.size() + size(theirs));
              made.put((byte) (gone ? 1 : 0)).putInt(some.size());
              for (Stretch one : some) {
                made.putLong(one.start()).putLong(one.end()).putLong(one.number());
                made.putInt(one.first() - low + 1).putInt(one.size());
              }
              write(made, theirs);
              return made.array();
            });
  }

  private static int size(List<Entry> entries) {
    return entries.stream().mapToInt(entry -> 12 + entry.values.length).sum();
  }

  private static void write(ByteBuffer made, List<Entry> entries) {
    made.putInt(entries.size());
    for (Entry entry : entries) {
      made.putLong(entry.at).putInt(entry.values.length).put(entry.values);
    }
  }

  private static List<Entry> read(ByteBuffer given) {
    int count = given.getInt();
    List<Entry> entries = new ArrayList<>(count);
    for (int index = 0; index < count; index++) {
      long at = given.getLong();
      byte[] values = new byte[given.getInt()];
      given.get(values);
      entries.add(new Entry(at, values));
    }
    return entries;
  }

  /** All windows of a key's records, `array<struct<at, record>>`, given that no more will come; in pieces. */
  public ArrayData whole(ArrayData given) {
    List<Entry> all = new ArrayList<>(given.numElements());
    for (int index = 0; index < given.numElements(); index++) {
      InternalRow row = given.getStruct(index, 2);
      all.add(new Entry(row.getLong(0), row.getBinary(1)));
    }
    List<Entry> rows = ordered(all, List.of());
    List<Stretch> closed = new ArrayList<>();
    fold.over(times(rows), 0, 0, Fold.NEVER, closed);
    return new GenericArrayData(packed(rows, closed, false).toArray());
  }

  /** Windows in a piece as the columns of {@link #windows}. */
  public InternalRow unpack(byte[] piece) {
    ByteBuffer given = ByteBuffer.wrap(piece);
    boolean gone = given.get() != 0;
    int count = given.getInt();
    long[] from = new long[count];
    long[] to = new long[count];
    long[] number = new long[count];
    int[] first = new int[count];
    int[] size = new int[count];
    for (int index = 0; index < count; index++) {
      from[index] = given.getLong();
      to[index] = given.getLong();
      number[index] = given.getLong();
      first[index] = given.getInt();
      size[index] = given.getInt();
    }
    List<Entry> rows = read(given);
    Object[] made = new Object[6 + records.types.length];
    made[0] = gone;
    made[1] = UnsafeArrayData.fromPrimitiveArray(from);
    made[2] = UnsafeArrayData.fromPrimitiveArray(to);
    made[3] = UnsafeArrayData.fromPrimitiveArray(number);
    made[4] = UnsafeArrayData.fromPrimitiveArray(first);
    made[5] = UnsafeArrayData.fromPrimitiveArray(size);
    InternalRow[] values = rows.stream().map(entry -> records.row(entry.values)).toArray(InternalRow[]::new);
    for (int column = 0; column < records.types.length; column++) {
      Object[] each = new Object[values.length];
      for (int index = 0; index < each.length; index++) {
        each[index] = values[index].isNullAt(column) ? null : values[index].get(column, records.types[column]);
      }
      made[6 + column] = new GenericArrayData(each);
    }
    return new GenericInternalRow(made);
  }

  /** What a state holds, for {@link #held}. */
  public InternalRow show(byte[] packed) {
    Held held = Held.read(packed);
    List<Entry> all = new ArrayList<>(held.kept);
    all.addAll(held.waiting);
    Object[] rows =
        all.stream()
            .map(
                entry -> {
                  Object[] row = new Object[1 + records.types.length];
                  row[0] = entry.at;
                  InternalRow values = records.row(entry.values);
                  for (int column = 0; column < records.types.length; column++) {
                    row[1 + column] = values.isNullAt(column) ? null : values.get(column, records.types[column]);
                  }
                  return new GenericInternalRow(row);
                })
            .toArray();
    return new GenericInternalRow(new Object[] {held.seen, new GenericArrayData(rows)});
  }

  /** The state of a key. */
  private static final class Held {

    static final long NONE = Long.MIN_VALUE;

    /** How many records it has had since the last window by count. */
    long seen;

    /** When it will be looked at, in milliseconds of the watermark. */
    long timer = NONE;

    /** Those whose turn has come and that a later window needs. */
    List<Entry> kept = new ArrayList<>();

    /** Those whose turn has not come. */
    List<Entry> waiting = new ArrayList<>();

    static Held read(byte[] bytes) {
      ByteBuffer given = ByteBuffer.wrap(bytes);
      Held held = new Held();
      held.seen = given.getLong();
      held.timer = given.getLong();
      held.kept = InOrder.read(given);
      held.waiting = InOrder.read(given);
      return held;
    }

    byte[] written() {
      ByteBuffer made = ByteBuffer.allocate(24 + size(kept) + size(waiting));
      made.putLong(seen).putLong(timer);
      write(made, kept);
      write(made, waiting);
      return made.array();
    }
  }
}
