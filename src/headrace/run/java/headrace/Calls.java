package headrace;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.ObjectType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Methods of ours as columns: Spark calls them from its generated code, as it does its own. */
final class Calls {

  private Calls() {}

  /** What a method of an object makes of a column; the object goes to the tasks, one copy for each. */
  static Column of(Serializable target, String method, DataType gives, Column given) {
    return ExpressionUtils.column(
        new Invoke(
            Literal.create(target, new ObjectType(target.getClass())),
            method,
            gives,
            seq(List.of(ExpressionUtils.expression(given))),
            seq(List.<AbstractDataType>of()),
            false,
            true,
            true));
  }

  static <T> Seq<T> seq(List<T> items) {
    return CollectionConverters.asScala(items).toSeq();
  }
}
