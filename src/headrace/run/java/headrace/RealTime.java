package headrace;

import java.lang.reflect.Field;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.streaming.StreamingQuery;
import scala.Option;
import scala.collection.Iterator;

/** The pace of a query in real-time mode. */
public final class RealTime {

  private RealTime() {}

  /**
   * Lets the batches of a running query, from the next one on, last so long.
   *
   * <p>Spark knows only one length for all of a query's batches, and looks for it in the plan at the beginning of each. The
   * first ends of batches are the slowest, because nothing of what is done there is compiled yet; so a query begins with a
   * few short ones.
   */
  public static void every(StreamingQuery query, long milliseconds) throws ReflectiveOperationException {
    Field length = StreamingDataSourceV2Relation.class.getDeclaredField("realTimeModeDuration");
    length.setAccessible(true);
    LogicalPlan plan = ((StreamingQueryWrapper) query).streamingQuery().logicalPlan();
    Iterator<LogicalPlan> leaves = plan.collectLeaves().iterator();
    while (leaves.hasNext()) {
      if (leaves.next() instanceof StreamingDataSourceV2ScanRelation read) {
        length.set(read.relation(), Option.apply((Object) milliseconds));
      }
    }
  }
}
