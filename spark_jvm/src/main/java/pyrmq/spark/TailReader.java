package pyrmq.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads the log of one broker in real-time mode: row by row, and waits for more until Spark's time is
 * up.
 *
 * <p>Spark may end the task behind any row; the engine knows the place of each.
 */
final class TailReader implements SupportsRealTimeRead<InternalRow> {
  /** Longest wait in the engine, so that a killed task ends. */
  private static final long SLICE_MILLIS = 100;

  private static final RecordStatus ROW = RecordStatus.newStatusWithoutArrivalTime(true);
  private static final RecordStatus NO_ROW = RecordStatus.newStatusWithoutArrivalTime(false);

  private final NativeScan scan;
  private final LeftOut leftOut;
  private final TaskContext context = TaskContext.get();
  private ColumnarBatch batch;
  private int rows;

  /** Rows of the batch that were given. */
  private int given;

  private boolean closed;

  TailReader(byte[] task, DataType[] types, LeftOut leftOut) {
    this.leftOut = leftOut;
    scan = new NativeScan(task, types);
  }

  /** What Spark 4.1 calls. */
  @Override
  public RecordStatus nextWithTimeout(Long timeoutMillis) {
    if (given < rows) {
      given++;
      return ROW;
    }
    return nextBatch(timeoutMillis) ? ROW : NO_ROW;
  }

  /** What Spark 4.2 and later call, with the time of now in front. */
  public RecordStatus nextWithTimeout(Long nowMillis, Long timeoutMillis) {
    return nextWithTimeout(timeoutMillis);
  }

  private boolean nextBatch(long timeoutMillis) {
    long end = System.nanoTime() + timeoutMillis * 1_000_000;
    do {
      if (context != null) {
        context.killTaskIfInterrupted();
      }
      long left = Math.max(0, (end - System.nanoTime() + 999_999) / 1_000_000);
      batch = scan.nextWithin(Math.min(left, SLICE_MILLIS));
      rows = batch == null ? 0 : batch.numRows();
      given = 0;
      if (rows > 0) {
        given = 1;
        return true;
      }
    } while (System.nanoTime() < end);
    return false;
  }

  @Override
  public PartitionOffset getOffset() {
    ObjectNode asked = Engine.op("tail.resume").put("handle", scan.handle()).put("row", given);
    return new TailEnd(Json.write(Json.call(asked).path("resume")));
  }

  @Override
  public boolean next() {
    throw new UnsupportedOperationException("a tail has no end: Spark calls nextWithTimeout");
  }

  @Override
  public InternalRow get() {
    return batch.getRow(given - 1);
  }

  @Override
  public void close() {
    rows = 0;
    given = 0;
    scan.close();
    if (!closed) {
      closed = true;
      leftOut.add(scan.stats());
    }
  }
}
