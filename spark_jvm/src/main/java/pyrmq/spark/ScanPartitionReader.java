package pyrmq.spark;

import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads one task in batches of columns. */
class ScanPartitionReader implements PartitionReader<ColumnarBatch> {
  private final NativeScan scan;
  private ColumnarBatch batch;

  ScanPartitionReader(byte[] task, DataType[] types) {
    scan = new NativeScan(task, types);
  }

  @Override
  public boolean next() {
    batch = scan.next();
    return batch != null;
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  /** What was read so far. */
  ScanStats stats() {
    return scan.stats();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return new CustomTaskMetric[0];
  }

  @Override
  public void close() {
    scan.close();
  }
}
