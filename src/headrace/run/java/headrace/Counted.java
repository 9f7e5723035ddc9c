package headrace;

import java.util.Optional;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SparkPartitionID;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What the filters of `headrace.compile.counting` have counted: `spark_partition_id() >= -N`, N from a million on.
 *
 * <p>Here, and not in Python, because each question about a plan would be a call, and there are some for every node.
 */
public final class Counted {

  private static final int FIRST = 1_000_000;
  private static final Pattern KEEPS_STATE =
      Pattern.compile("StateStoreSave|SymmetricHashJoin|StreamingDeduplicate|TransformWithState");

  private Counted() {}

  /** The number of the filter that has counted exactly the rows of a plan: only columns changed since; else 0. */
  public static int same(LogicalPlan plan) {
    LogicalPlan below = plan;
    while (below instanceof Project project) {
      below = project.child();
    }
    return below instanceof Filter filter ? number(filter.condition()) : 0;
  }

  /**
   * What an executed plan has counted, a line each, from above: `rows NUMBER ROWS`; `state HELD LATE [REPEATED]`; `time
   * NEWEST`, in milliseconds, of a watermark that saw a time.
   */
  public static String read(SparkPlan plan) {
    StringBuilder lines = new StringBuilder();
    read(plan, lines);
    return lines.toString();
  }

  private static void read(SparkPlan node, StringBuilder lines) {
    if (node instanceof AdaptiveSparkPlanExec adaptive) {
      read(adaptive.executedPlan(), lines);
      return;
    }
    if (node instanceof QueryStageExec stage) {
      read(stage.plan(), lines);
      return;
    }
    if (node instanceof FilterExec filter && number(filter.condition()) > 0) {
      long rows = metric(node, "numOutputRows").orElse(0L);
      lines.append("rows ").append(number(filter.condition())).append(' ').append(rows).append('\n');
    } else if (node instanceof EventTimeWatermarkExec watermark) {
      var seen = watermark.eventTimeStats().value();
      if (seen.count() > 0) {
        lines.append("time ").append(seen.max()).append('\n');
      }
    } else if (KEEPS_STATE.matcher(node.nodeName()).find()) {
      lines.append("state ").append(metric(node, "numTotalStateRows").orElse(0L));
      lines.append(' ').append(metric(node, "numRowsDroppedByWatermark").orElse(0L));
      metric(node, "numDroppedDuplicateRows").ifPresent(again -> lines.append(' ').append(again));
      lines.append('\n');
    }
    for (SparkPlan child : CollectionConverters.asJava(node.children())) {
      read(child, lines);
    }
  }

  private static Optional<Long> metric(SparkPlan node, String name) {
    scala.Option<SQLMetric> found = node.metrics().get(name);
    return found.isDefined() ? Optional.of(found.get().value()) : Optional.empty();
  }

  private static int number(Expression condition) {
    return condition instanceof GreaterThanOrEqual holds
            && holds.left() instanceof SparkPartitionID
            && holds.right() instanceof Literal bound
            && bound.value() instanceof Integer value
            && value <= -FIRST
        ? -value
        : 0;
  }
}
