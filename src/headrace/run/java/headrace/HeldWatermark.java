package headrace;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.util.Map;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadataBase;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadataV2;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecutionContext;
import org.apache.spark.sql.execution.streaming.runtime.MinWatermark$;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkPropagator;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkTracker;
import org.apache.spark.sql.streaming.StreamingQuery;
import scala.collection.Iterator;

/**
 * The watermark of a query in real-time mode that goes on after an attempt that was cut short.
 *
 * <p>Until the query has read all that was there when it went on, its watermark is the one by which that attempt held its
 * records to be late. Then it is what it would have been had all of that been one batch.
 */
public final class HeldWatermark extends WatermarkTracker {

  private static final ObjectMapper JSON = new ObjectMapper();

  private final MicroBatchExecution query;
  private final WatermarkTracker real;
  private final JsonNode ends;
  private final long at;
  private final long before;
  private boolean held = true;

  private HeldWatermark(MicroBatchExecution query, JsonNode ends, long at, long before) {
    super(MinWatermark$.MODULE$, query.logicalPlan());
    this.query = query;
    this.real = query.watermarkTracker();
    this.ends = ends;
    this.at = at;
    this.before = before;
  }

  /**
   * Holds back the watermark of a query that has just been started.
   *
   * @param ends where each partition of its topics ends, as Kafka's offsets are written
   * @param at what the watermark stays, in milliseconds
   * @param before what the cut batch had begun with
   */
  public static void hold(StreamingQuery query, String ends, long at, long before) throws JsonProcessingException {
    JsonNode read = JSON.readTree(ends);
    MicroBatchExecution running = (MicroBatchExecution) ((StreamingQueryWrapper) query).streamingQuery();
    Thread holding = new Thread(() -> hold(running, read, at, before), "hold watermark");
    holding.setDaemon(true);
    holding.start();
  }

  /** Spark makes its own when the query's thread has read the checkpoint; a batch takes a second at least from there. */
  private static void hold(MicroBatchExecution query, JsonNode ends, long at, long before) {
    try {
      while (query.isActive() && query.watermarkTracker() == null) {
        Thread.sleep(2);
      }
      if (query.isActive()) {
        query.watermarkTracker_$eq(new HeldWatermark(query, ends, at, before));
      }
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public synchronized void setWatermark(long milliseconds) {
    real.setWatermark(milliseconds);
  }

  @Override
  public synchronized long currentWatermark() {
    return held ? at : real.currentWatermark();
  }

  /** Spark calls it when a batch has ended, before it notes the batch's offsets and with which watermark it was planned. */
  @Override
  public synchronized void updateWatermark(SparkPlan plan) {
    real.updateWatermark(plan);
    if (!held) {
      return;
    }
    MicroBatchExecutionContext batch = (MicroBatchExecutionContext) query.getLatestExecutionContext();
    query.populateBatchOffsetsForRTM(batch);
    if (reached(batch.endOffsets().valuesIterator(), ends)) {
      held = false;
      real.setWatermark(Math.max(real.currentWatermark(), before));
      batch.offsetSeqMetadata_$eq(planned(batch.offsetSeqMetadata(), before));
      forget(batch.batchId());
    }
  }

  /** Spark keeps what a batch's watermark means to each operator, and would not have it changed. */
  private void forget(long batch) {
    try {
      Field kept = MicroBatchExecution.class.getDeclaredField("watermarkPropagator");
      kept.setAccessible(true);
      ((WatermarkPropagator) kept.get(query)).purge(batch + 1);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  private static OffsetSeqMetadataBase planned(OffsetSeqMetadataBase with, long watermark) {
    if (with instanceof OffsetSeqMetadataV2 said) {
      return said.copy(
          watermark, said.batchTimestampMs(), said.conf(), said.sourceMetadataInfo(), said.controlBatchInfoOpt());
    }
    return ((OffsetSeqMetadata) with).copy(watermark, with.batchTimestampMs(), with.conf());
  }

  private static boolean reached(Iterator<Offset> offsets, JsonNode ends) {
    while (offsets.hasNext()) {
      String offset = offsets.next().json();
      if (!reached(offset, ends)) {
        return false;
      }
    }
    return true;
  }

  /** Whether what a source has read goes to the end of each partition. */
  static boolean reached(String offset, JsonNode ends) {
    try {
      for (Map.Entry<String, JsonNode> topic : JSON.readTree(offset).properties()) {
        for (Map.Entry<String, JsonNode> end : ends.path(topic.getKey()).properties()) {
          if (topic.getValue().path(end.getKey()).asLong(0) < end.getValue().asLong()) {
            return false;
          }
        }
      }
      return true;
    } catch (JsonProcessingException error) {
      throw new IllegalStateException("offset " + offset, error);
    }
  }
}
