package pyrmq.spark;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Makes the readers of a stream's tasks: batches of columns, or rows in real-time mode. */
final class StreamReaders implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;

  private final DataType[] types;
  private final LeftOut leftOut;

  StreamReaders(StructType schema, LeftOut leftOut) {
    types = Arrays.stream(schema.fields()).map(StructField::dataType).toArray(DataType[]::new);
    this.leftOut = leftOut;
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return partition instanceof ScanPartition;
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new Columnar(((ScanPartition) partition).task, types, leftOut);
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new TailReader(((TailPartition) partition).task, types, leftOut);
  }

  private static final class Columnar extends ScanPartitionReader {
    private final LeftOut leftOut;
    private boolean closed;

    Columnar(byte[] task, DataType[] types, LeftOut leftOut) {
      super(task, types);
      this.leftOut = leftOut;
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return ScanMetrics.of(stats());
    }

    @Override
    public void close() {
      super.close();
      if (!closed) {
        closed = true;
        leftOut.add(stats());
      }
    }
  }
}
