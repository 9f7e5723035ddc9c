package headrace;

import java.io.Serializable;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BaseOrdering;
import org.apache.spark.sql.catalyst.expressions.RowOrdering;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/** Rows of some columns as bytes and back, and in the order of their values: what keyed state is made of. */
public final class Records implements Serializable {

  private static final long serialVersionUID = 1L;

  final StructType columns;
  final DataType[] types;
  private transient UnsafeProjection packing;
  private transient Comparator<byte[]> order;

  Records(StructType columns) {
    this.columns = columns;
    this.types = Stream.of(columns.fields()).map(StructField::dataType).toArray(DataType[]::new);
  }

  @Override
  public String toString() {
    return "records";
  }

  /** A row as bytes. */
  public byte[] pack(InternalRow row) {
    if (packing == null) {
      packing = UnsafeProjection.create(columns);
    }
    return packing.apply(row).getBytes();
  }

  /** The row that bytes are; it lies in them. */
  UnsafeRow row(byte[] bytes) {
    UnsafeRow row = new UnsafeRow(types.length);
    row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    return row;
  }

  /** The order of values, column by column, null first; of values that have none, that of their bytes. */
  Comparator<byte[]> order() {
    if (order == null) {
      if (Arrays.stream(types).allMatch(RowOrdering::isOrderable)) {
        BaseOrdering values = RowOrdering.createNaturalAscendingOrdering(Calls.seq(List.of(types)));
        order = (a, b) -> values.compare(row(a), row(b));
      } else {
        order = Arrays::compare;
      }
    }
    return order;
  }
}
