package pyrmq.spark;

import java.io.Serializable;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.util.LongAccumulator;

/**
 * What a query left out since it started, for its progress: tasks add up the damage that they skipped,
 * the driver the bytes that were deleted before they were read.
 *
 * <p>Travels to the tasks with their reader factory, as accumulators do.
 */
final class LeftOut implements Serializable {
  private final LongAccumulator damagedParts = new LongAccumulator();
  private final LongAccumulator skippedBytes = new LongAccumulator();
  private final LongAccumulator lostBytes = new LongAccumulator();

  LeftOut(SparkContext context) {
    context.register(damagedParts);
    context.register(skippedBytes);
    context.register(lostBytes);
  }

  /** In a task, at its end. */
  void add(ScanStats stats) {
    damagedParts.add(stats.damagedParts());
    skippedBytes.add(stats.skippedBytes());
  }

  /** On the driver. */
  void lost(long bytes) {
    lostBytes.add(bytes);
  }

  /** On the driver: the names of the progress and their values. */
  void into(Map<String, String> metrics) {
    metrics.put("damagedParts", Long.toString(damagedParts.sum()));
    metrics.put("skippedBytes", Long.toString(skippedBytes.sum()));
    metrics.put("lostBytes", Long.toString(lostBytes.sum()));
  }
}
