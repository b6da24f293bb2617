package pyrmq.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Makes the readers of a stream's tasks: batches of columns, or rows in real-time mode. */
final class StreamReaders implements PartitionReaderFactory {
  private final DataType[] types;
  private final LeftOut leftOut;

  StreamReaders(DataType[] types, LeftOut leftOut) {
    this.types = types;
    this.leftOut = leftOut;
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return !((StreamPartition) partition).tail();
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new ScanPartitionReader(((StreamPartition) partition).task(), types) {
      private boolean counted;

      @Override
      public void close() {
        super.close();
        if (!counted) {
          counted = true;
          leftOut.add(stats());
        }
      }
    };
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new TailReader((StreamPartition) partition, types, leftOut);
  }
}
