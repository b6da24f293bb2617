package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads the log of one broker in real-time mode: row by row, and waits for more until Spark's time is
 * up.
 *
 * <p>Spark may end the task at any row. The offset is exact nevertheless: each batch has four more
 * columns, of which the next row's place in the log is known.
 */
final class TailReader implements SupportsRealTimeRead<InternalRow> {
  /** Longest wait in the engine, so that a killed task ends. */
  private static final long SLICE_MILLIS = 100;

  private static final RecordStatus ROW = RecordStatus.newStatusWithoutArrivalTime(true);
  private static final RecordStatus NO_ROW = RecordStatus.newStatusWithoutArrivalTime(false);
  private static final String[] PLACE = {"commitLogOffset", "topic", "queueId", "queueOffset"};
  private static final DataType[] PLACE_TYPES = {
    DataTypes.LongType, DataTypes.StringType, DataTypes.IntegerType, DataTypes.LongType
  };

  private final String broker;
  private final int columns;
  private final NativeScan scan;
  private final LeftOut leftOut;
  private final TaskContext context = TaskContext.get();
  private ColumnarBatch batch;
  private int rows;
  /** The row that was given last; -1: none of this batch. */
  private int row = -1;
  /** The last row that was given of the batches before. */
  private Given before;

  private boolean closed;

  private record Given(long log, String topic, int queue, long offset) {}

  TailReader(byte[] tail, DataType[] types, LeftOut leftOut) {
    ObjectNode task = (ObjectNode) Json.read(tail);
    ArrayNode names = (ArrayNode) task.get("how").get("columns");
    this.columns = types.length;
    while (names.size() > columns) { // one that stood for none
      names.remove(columns);
    }
    this.broker = task.get("broker").textValue();
    this.leftOut = leftOut;
    Arrays.stream(PLACE).forEach(names::add);
    DataType[] all = Arrays.copyOf(types, columns + PLACE.length);
    System.arraycopy(PLACE_TYPES, 0, all, columns, PLACE.length);
    scan = new NativeScan(Json.write(task), all);
  }

  @Override
  public RecordStatus nextWithTimeout(Long timeoutMillis) {
    if (row + 1 < rows) {
      row++;
      return ROW;
    }
    return nextBatch(timeoutMillis) ? ROW : NO_ROW;
  }

  /** What Spark 4.2 and later call; 4.1 does not know it. */
  public RecordStatus nextWithTimeout(Long nowMillis, Long timeoutMillis) {
    return nextWithTimeout(timeoutMillis);
  }

  private boolean nextBatch(long timeoutMillis) {
    if (row >= 0) {
      before = given(row);
    }
    rows = 0;
    row = -1;
    long end = System.nanoTime() + timeoutMillis * 1_000_000;
    do {
      if (context != null) {
        context.killTaskIfInterrupted();
      }
      long left = Math.max(0, (end - System.nanoTime() + 999_999) / 1_000_000);
      batch = scan.taken(Native.nextWithin(scan.handle(), Math.min(left, SLICE_MILLIS)));
      if (batch != null && batch.numRows() > 0) {
        rows = batch.numRows();
        row = 0;
        return true;
      }
    } while (System.nanoTime() < end);
    return false;
  }

  private Given given(int at) {
    return new Given(
        batch.column(columns).getLong(at),
        batch.column(columns + 1).getUTF8String(at).toString(),
        batch.column(columns + 2).getInt(at),
        batch.column(columns + 3).getLong(at));
  }

  @Override
  public PartitionOffset getOffset() {
    long log = row + 1 < rows ? batch.column(columns).getLong(row + 1) : scan.position();
    Given last = row >= 0 ? given(row) : before;
    if (last == null || last.log() != log) {
      return new TailEnd(broker, log, null);
    }
    return new TailEnd(
        broker, log, new TailEnd.Inside(last.topic(), last.queue(), last.offset() + 1));
  }

  @Override
  public boolean next() {
    throw new UnsupportedOperationException("a tail has no end: Spark calls nextWithTimeout");
  }

  @Override
  public InternalRow get() {
    return batch.getRow(row);
  }

  @Override
  public void close() {
    rows = 0;
    scan.close();
    if (!closed) {
      closed = true;
      leftOut.add(scan.stats());
    }
  }
}
