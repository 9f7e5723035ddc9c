package headrace;

import java.util.Map;
import java.util.Set;
import java.util.stream.LongStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The numbers 0, 1, 2, … as a stream or a batch: what a source is made of whose rows are known by their number.
 *
 * <p>The offset is the number of the next row. Options, each of which may be left out: `total`, how many there are;
 * `perSecond`, how many come due in each second of a stream, without which all are there from the beginning; `perBatch`,
 * the most of one batch; `first` and `behind`, the part of them that a batch reads.
 */
public final class Numbers implements TableProvider {

  private static final StructType COLUMNS = new StructType().add("row", DataTypes.LongType, false);
  private static final long IN_A_TASK = 20_000;
  private static final long NONE = -1;

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return COLUMNS;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new All();
  }

  private static final class All implements SupportsRead {

    @Override
    public String name() {
      return "numbers";
    }

    @Override
    public StructType schema() {
      return COLUMNS;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return () -> new Asked(options);
    }
  }

  private record Asked(CaseInsensitiveStringMap options) implements Scan {

    @Override
    public StructType readSchema() {
      return COLUMNS;
    }

    @Override
    public String description() {
      return "numbers";
    }

    @Override
    public Batch toBatch() {
      long first = options.getLong("first", 0);
      return new Part(first, options.getLong("behind", Math.max(0, options.getLong("total", 0))));
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      return new Pace(
          options.getLong("total", NONE), options.getDouble("perSecond", NONE), options.getLong("perBatch", NONE));
    }
  }

  /** From a number up to, not including, another. */
  private record Part(long first, long behind) implements Batch, InputPartition {

    @Override
    public InputPartition[] planInputPartitions() {
      return LongStream.iterate(first, at -> at < behind, at -> at + IN_A_TASK)
          .mapToObj(at -> new Part(at, Math.min(at + IN_A_TASK, behind)))
          .toArray(InputPartition[]::new);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return new Counting();
    }
  }

  private static final class Counting implements PartitionReaderFactory {

    private static final long serialVersionUID = 1L;

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      Part part = (Part) partition;
      return new PartitionReader<>() {
        private long at = part.first() - 1;

        @Override
        public boolean next() {
          return ++at < part.behind();
        }

        @Override
        public InternalRow get() {
          return new GenericInternalRow(new Object[] {at});
        }

        @Override
        public void close() {}
      };
    }
  }

  private static final class Next extends Offset {

    final long row;

    Next(long row) {
      this.row = row;
    }

    @Override
    public String json() {
      return "{\"row\": " + row + "}";
    }
  }

  /**
   * Which rows are due: `perSecond` of them from the moment it is first asked in this process. After a restart it goes
   * on from the checkpoint at the same pace; it does not make up for the time in between.
   */
  private static final class Pace implements MicroBatchStream, SupportsTriggerAvailableNow {

    private final long total;
    private final double perSecond;
    private final long perBatch;
    private boolean atOnce;
    private long began = NONE;
    private long from;

    Pace(long total, double perSecond, long perBatch) {
      this.total = total;
      this.perSecond = perSecond;
      this.perBatch = perBatch;
      this.atOnce = perSecond < 0;
    }

    /** The stream is to process all there is and end: what has an end is given up to it, regardless of pace. */
    @Override
    public void prepareForTriggerAvailableNow() {
      atOnce |= total != NONE;
    }

    @Override
    public ReadLimit getDefaultReadLimit() {
      return perBatch == NONE ? ReadLimit.allAvailable() : ReadLimit.maxRows(perBatch);
    }

    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
      long row = ((Next) start).row;
      long end = atOnce ? total : due(row);
      if (total != NONE) {
        end = Math.min(end, total);
      }
      if (limit instanceof ReadMaxRows most) {
        end = Math.min(end, row + most.maxRows());
      }
      return new Next(Math.max(row, end));
    }

    private long due(long row) {
      long now = System.nanoTime();
      if (began == NONE) {
        began = now;
        from = row;
      }
      return from + (long) ((now - began) / 1e9 * perSecond);
    }

    @Override
    public Offset latestOffset() {
      throw new UnsupportedOperationException("it is asked with a limit");
    }

    @Override
    public Offset initialOffset() {
      return new Next(0);
    }

    @Override
    public Offset deserializeOffset(String json) {
      return new Next(Long.parseLong(json.replaceAll("\\D", "")));
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      return new Part(((Next) start).row, ((Next) end).row).planInputPartitions();
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return new Counting();
    }

    @Override
    public void commit(Offset end) {}

    @Override
    public void stop() {}
  }
}
