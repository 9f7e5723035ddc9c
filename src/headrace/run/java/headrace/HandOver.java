package headrace;

import java.util.ArrayDeque;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.spark.Partitioner;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.shuffle.BaseShuffleHandle;
import org.apache.spark.shuffle.ShuffleHandle;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.shuffle.ShuffleWriter;
import org.apache.spark.shuffle.streaming.StreamingShuffleManager;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import scala.Option;
import scala.Product2;
import scala.Some;
import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * The shuffle of real-time mode within one process: a row goes from the task that has it straight to the task of its key.
 *
 * <p>Spark's own sends rows through sockets, and gathers them for some time to do so; design 021 says what that costs. This
 * one is for tasks that all live in one process. Rows of one task arrive in their order, those of several as they come.
 */
public final class HandOver extends StreamingShuffleManager {

  /** How many bytes of rows may be on their way to one task; a row that is larger goes alone. */
  private static final int ROOM = 8 << 20;
  /** What a row takes besides its bytes, roughly. */
  private static final int ROW = 64;
  /** How many of its rows a task takes from its lane at once. */
  private static final int SOME = 256;
  /** How long, in milliseconds, a task waits before it looks whether it is still wanted. */
  private static final long LOOK = 50;

  private static final Object END = new Object();

  private final Map<Integer, Lane[]> shuffles = new ConcurrentHashMap<>();

  /** The rows on their way to one task. */
  private static final class Lane {
    final LinkedBlockingQueue<Object> rows = new LinkedBlockingQueue<>();
    final Semaphore room = new Semaphore(ROOM, true); // in turns, or small rows would go past a large one for ever
    final int writers;

    Lane(int writers) {
      this.writers = writers;
    }
  }

  @Override
  public <K, V, C> ShuffleHandle registerShuffle(int id, ShuffleDependency<K, V, C> dependency) {
    Lane[] lanes = new Lane[dependency.partitioner().numPartitions()];
    for (int i = 0; i < lanes.length; i++) {
      lanes[i] = new Lane(dependency.rdd().getNumPartitions());
    }
    shuffles.put(id, lanes);
    return new BaseShuffleHandle<>(id, dependency);
  }

  @Override
  public <K, V> ShuffleWriter<K, V> getWriter(
      ShuffleHandle handle, long mapId, TaskContext context, ShuffleWriteMetricsReporter metrics) {
    Partitioner partitioner = ((BaseShuffleHandle<?, ?, ?>) handle).dependency().partitioner();
    return new Writer<>(shuffles.get(handle.shuffleId()), partitioner, mapId, context);
  }

  @Override
  public <K, C> ShuffleReader<K, C> getReader(
      ShuffleHandle handle,
      int startMapIndex,
      int endMapIndex,
      int startPartition,
      int endPartition,
      TaskContext context,
      ShuffleReadMetricsReporter metrics) {
    Lane lane = shuffles.get(handle.shuffleId())[startPartition];
    return () -> new Rows<>(lane, context);
  }

  @Override
  public boolean unregisterShuffle(int id) {
    shuffles.remove(id);
    return true;
  }

  @Override
  public void stop() {
    shuffles.clear();
  }

  private static int bytes(InternalRow row) {
    return Math.min(ROOM, ROW + (row instanceof UnsafeRow flat ? flat.getSizeInBytes() : ROW));
  }

  private static final class Writer<K, V> extends ShuffleWriter<K, V> {
    private final Lane[] lanes;
    private final Partitioner partitioner;
    private final long mapId;
    private final TaskContext context;

    Writer(Lane[] lanes, Partitioner partitioner, long mapId, TaskContext context) {
      this.lanes = lanes;
      this.partitioner = partitioner;
      this.mapId = mapId;
      this.context = context;
    }

    @Override
    public void write(Iterator<Product2<K, V>> records) {
      while (records.hasNext()) {
        Product2<K, V> record = records.next();
        InternalRow row = ((InternalRow) record._2()).copy(); // the next one is written over it
        Lane lane = lanes[partitioner.getPartition(record._1())];
        while (!acquired(lane, bytes(row))) {
          context.killTaskIfInterrupted();
        }
        lane.rows.add(row);
      }
      for (Lane lane : lanes) {
        lane.rows.add(END);
      }
    }

    private static boolean acquired(Lane lane, int bytes) {
      try {
        return lane.room.tryAcquire(bytes, LOOK, TimeUnit.MILLISECONDS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("interrupted while a row waited for the task of its key", e);
      }
    }

    @Override
    public Option<MapStatus> stop(boolean success) {
      // Nobody asks where the rows are: they are gone already.
      return new Some<>(MapStatus.apply(SparkEnv.get().blockManager().shuffleServerId(), getPartitionLengths(), mapId, 0));
    }

    @Override
    public long[] getPartitionLengths() {
      return new long[lanes.length];
    }
  }

  /** What comes to one task, until every task that writes has ended. */
  private static final class Rows<K, C> extends AbstractIterator<Product2<K, C>> {
    private final Lane lane;
    private final TaskContext context;
    private final ArrayDeque<Object> taken = new ArrayDeque<>(SOME);
    private int ended;

    Rows(Lane lane, TaskContext context) {
      this.lane = lane;
      this.context = context;
    }

    @Override
    public boolean hasNext() {
      while (ended < lane.writers) {
        if (taken.isEmpty()) {
          take();
        } else if (taken.peek() == END) {
          taken.poll();
          ended++;
        } else {
          return true;
        }
      }
      return false;
    }

    private void take() {
      if (lane.rows.drainTo(taken, SOME) > 0) {
        return;
      }
      context.killTaskIfInterrupted();
      try {
        Object first = lane.rows.poll(LOOK, TimeUnit.MILLISECONDS);
        if (first != null) {
          taken.add(first);
        }
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("interrupted while waiting for rows", e);
      }
    }

    @Override
    @SuppressWarnings("unchecked")
    public Product2<K, C> next() {
      if (!hasNext()) {
        throw new java.util.NoSuchElementException();
      }
      InternalRow row = (InternalRow) taken.poll();
      lane.room.release(bytes(row));
      return new Tuple2<>(null, (C) row);
    }
  }
}
