package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One task of the engine, batch by batch; its memory goes with it.
 *
 * <p>It is made in the thread of the task. From then on the task's end closes it, whatever becomes of
 * the reader around it: the listener stands before those of the operators above, so that it runs after
 * theirs, when no thread of theirs reads a batch any more.
 */
final class NativeScan implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger("pyrmq.spark");

  private final Vector[] vectors;
  private final ColumnarBatch batch;
  private final NativeMemory memory;
  private long handle;
  private boolean open = true;
  private ScanStats last = ScanStats.NOTHING;
  private boolean stale;

  /**
   * @param task a Task, as {@code plan} gave it
   * @param types the types of its first columns, in order; columns behind them are not looked at
   */
  NativeScan(byte[] task, DataType[] types) {
    vectors = Arrays.stream(types).map(Vector::of).toArray(Vector[]::new);
    batch = new ColumnarBatch(Arrays.copyOf(vectors, vectors.length, ColumnVector[].class));
    memory = NativeMemory.ofTask();
    handle = Native.open(task);
    TaskContext context = TaskContext.get();
    if (context != null) {
      context.addTaskCompletionListener((TaskCompletionListener) ended -> close());
    }
  }

  /** The number of the task in the engine's table. */
  synchronized long handle() {
    if (!open) {
      throw new IllegalStateException("the reader is closed");
    }
    return handle;
  }

  /** The next batch, or null at the end. The one before is not readable any more. */
  ColumnarBatch next() {
    return taken(Native.next(handle()));
  }

  /** The next batch of a tail: what is there, or comes within so many milliseconds; or null. */
  ColumnarBatch nextWithin(long millis) {
    return taken(Native.nextWithin(handle(), millis));
  }

  /** Takes over what {@link Native#next}, or a function like it, gave. */
  synchronized ColumnarBatch taken(long[] numbers) {
    stale = true;
    if (numbers == null) {
      batch.setNumRows(0);
      return null;
    }
    BatchLayout layout = new BatchLayout(numbers);
    if (memory != null) {
      memory.use(layout.bytes());
    }
    for (Vector vector : vectors) {
      vector.bind(layout, layout.rows());
    }
    batch.setNumRows(layout.rows());
    return batch;
  }

  /** What was read so far, also of a task that is closed. Notes of the engine go to the log. */
  synchronized ScanStats stats() {
    if (open && stale) {
      stale = false;
      JsonNode node = Json.read(Native.stats(handle));
      last = ScanStats.of(node);
      for (JsonNode note : node.path("notes")) {
        log(note);
      }
    }
    return last;
  }

  /** A note of the engine: [level, text]. Texts may hold what files and users wrote. */
  static void log(JsonNode note) {
    String text = Escape.escaped(note.path(1).asText());
    if (note.path(0).asText().equals("warning")) {
      LOG.warn(text);
    } else {
      LOG.info(text);
    }
  }

  /** Frees everything; again does nothing. */
  @Override
  public synchronized void close() {
    if (!open) {
      return;
    }
    try {
      stale = true;
      stats();
    } finally {
      open = false;
      batch.setNumRows(0);
      Native.close(handle);
      if (memory != null) {
        memory.done();
      }
    }
  }
}
