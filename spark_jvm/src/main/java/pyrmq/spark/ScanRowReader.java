package pyrmq.spark;

import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads one task row by row. A row is readable until the next one. */
class ScanRowReader implements PartitionReader<InternalRow> {
  private final NativeScan scan;
  private Iterator<InternalRow> rows = Collections.emptyIterator();
  private InternalRow row;

  ScanRowReader(byte[] task, DataType[] types) {
    scan = new NativeScan(task, types);
  }

  @Override
  public boolean next() {
    while (!rows.hasNext()) {
      ColumnarBatch batch = scan.next();
      if (batch == null) {
        return false;
      }
      rows = batch.rowIterator();
    }
    row = rows.next();
    return true;
  }

  @Override
  public InternalRow get() {
    return row;
  }

  /** What was read so far. */
  ScanStats stats() {
    return scan.stats();
  }

  @Override
  public void close() {
    rows = Collections.emptyIterator();
    scan.close();
  }
}
