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

/** Makes the reader of a task, on the executor. */
final class ScanReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;

  private final DataType[] types;

  ScanReaderFactory(StructType schema) {
    types = Arrays.stream(schema.fields()).map(StructField::dataType).toArray(DataType[]::new);
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new Columnar(task(partition), types);
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new ByRow(task(partition), types);
  }

  private static byte[] task(InputPartition partition) {
    return ((ScanPartition) partition).task;
  }

  private static final class Columnar extends ScanPartitionReader {
    Columnar(byte[] task, DataType[] types) {
      super(task, types);
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return ScanMetrics.of(stats());
    }
  }

  private static final class ByRow extends ScanRowReader {
    ByRow(byte[] task, DataType[] types) {
      super(task, types);
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return ScanMetrics.of(stats());
    }
  }
}
