package headrace;

import java.io.Serializable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;

/** The rows of a small table, each by its number. */
public final class Given implements Serializable {

  private static final long serialVersionUID = 1L;

  private final InternalRow[] rows;

  private Given(InternalRow[] rows) {
    this.rows = rows;
  }

  /** The row of the table, as a struct, whose number is in a column. */
  public static Column row(Dataset<Row> table, Column number) {
    InternalRow[] rows = ((org.apache.spark.sql.classic.Dataset<Row>) table).queryExecution().executedPlan().executeCollect();
    return Calls.of(new Given(rows), "at", table.schema(), number);
  }

  public InternalRow at(long number) {
    return rows[(int) number];
  }

  @Override
  public String toString() {
    return "given";
  }
}
