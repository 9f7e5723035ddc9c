package headrace;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** What Spark holds the records of a batch against, to say which of them are late. */
public final class Watermark {

  private static final Pattern MARK = Pattern.compile("\"batchWatermarkMs\":(-?\\d+)");

  private Watermark() {}

  /**
   * The watermark of the batch before the one that is planned, in microseconds, as a column.
   *
   * <p>Spark computes a call with nothing but constants once, on the driver, each time it plans a batch.
   */
  public static Column column(String checkpoint) {
    Seq<Expression> given = CollectionConverters.asScala(List.<Expression>of(Literal.create(checkpoint, DataTypes.StringType))).toSeq();
    Seq<AbstractDataType> types = CollectionConverters.asScala(List.<AbstractDataType>of()).toSeq();
    return ExpressionUtils.column(
        new StaticInvoke(
            Watermark.class, DataTypes.LongType, "before", given, types, true, false, true, Option.empty()));
  }

  /** The same for the batch that this thread plans; zero where none was before, as Spark has it. */
  public static long before(UTF8String checkpoint) throws IOException {
    SparkContext context = SparkContext.getOrCreate();
    String batch = context.getLocalProperty("streaming.sql.batchId");
    if (batch == null || batch.equals("0")) {
      return 0;
    }
    Path offsets = new Path(new Path(checkpoint.toString(), "offsets"), Long.toString(Long.parseLong(batch) - 1));
    try (InputStream file = offsets.getFileSystem(context.hadoopConfiguration()).open(offsets)) {
      Matcher found = MARK.matcher(new String(file.readAllBytes(), StandardCharsets.UTF_8));
      return found.find() ? Long.parseLong(found.group(1)) * 1000 : 0;
    } catch (FileNotFoundException none) {
      return 0;
    }
  }
}
