package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxBytes;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;

/**
 * A stream over growing stores: micro-batches with limits, Trigger.AvailableNow, metrics in the query's
 * progress, and real-time mode.
 *
 * <p>Columns and selection are fixed when the query starts. What a position is, and what there is to
 * read between two of them, the engine's planner says. Spark asks from the thread of the query.
 */
final class RocketMQStream
    implements MicroBatchStream,
        SupportsTriggerAvailableNow,
        ReportsSourceMetrics,
        SupportsRealTimeMode {
  private static final long DEFAULT_MAX_BYTES = 1L << 30;

  private final StreamPlanner planner;
  private final FirstPosition firstPosition;
  private final StreamLog log = new StreamLog();
  private final JsonNode limits;
  private final StructType schema;
  private final LeftOut leftOut;
  private Backlog backlog = Backlog.UNKNOWN;
  private StreamOffset latest;
  /** The start that Spark named last. */
  private StreamOffset asked;
  /** The end of the micro-batch whose lost bytes were counted last. */
  private String counted;
  private boolean realTime;
  /** Where the tasks of real-time mode started. */
  private StreamOffset tailStart;
  private int tails;
  /** Where they ended. */
  private StreamOffset reached;

  /**
   * @param request what to read, as the op {@code options} gave it, with the columns of the schema
   * @param limits the limits of that answer, its part {@code stream}
   * @param schema the columns, in the order of the request
   * @param folder that of the source in the checkpoint
   */
  RocketMQStream(JsonNode request, JsonNode limits, StructType schema, String folder) {
    SparkContext context = SparkContext.getOrCreate();
    this.firstPosition = new FirstPosition(folder, context.hadoopConfiguration());
    this.planner = new StreamPlanner(request, limits);
    this.limits = limits;
    this.schema = schema;
    this.leftOut = new LeftOut(context);
  }

  @Override
  public Offset initialOffset() {
    if (realTime) {
      return firstPosition.keep(planner::initial);
    }
    StreamOffset kept = firstPosition.kept();
    return kept == null ? planner.initial() : kept;
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new StreamOffset(json);
  }

  /** Spark knows one limit a source: the engine keeps the others. */
  @Override
  public ReadLimit getDefaultReadLimit() {
    JsonNode rows = limits.path("max_offsets");
    return rows.isNumber()
        ? ReadLimit.maxRows(rows.longValue())
        : ReadLimit.maxBytes(limits.path("max_bytes").longValue());
  }

  /** Spark asks with a limit. */
  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is what Spark calls");
  }

  /** ReadAllAvailable (Trigger.Once) means no limit at all. */
  @Override
  public Offset latestOffset(Offset startOffset, ReadLimit limit) {
    asked = own(startOffset);
    if (realTime || limit instanceof ReadAllAvailable) {
      return planner.latest(asked);
    }
    if (limit instanceof ReadMaxRows most) {
      return planner.latest(asked, "rows", most.maxRows());
    }
    if (limit instanceof ReadMaxBytes most) {
      return planner.latest(asked, "bytes", most.maxBytes());
    }
    throw new ScanException(
        "ConfigError", "Spark asks for the limit " + limit + ", which this source cannot keep", "");
  }

  /** The end of the logs now, with how far the micro-batch is behind. */
  @Override
  public Offset reportLatestOffset() {
    latest = planner.end();
    backlog = realTime ? behind(asked, latest) : planner.behind();
    ObjectNode told = (ObjectNode) latest.tree();
    told.set("behind", backlog.asJson());
    return new StreamOffset(told.toString());
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    planner.pin();
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    StreamOffset low = own(start);
    StreamOffset high = own(end);
    List<JsonNode> tasks = planner.splits(low, high);
    if (!end.json().equals(counted)) { // Spark may plan a micro-batch twice
      counted = end.json();
      leftOut.lost(lostBytes(low, high, tasks));
    }
    return tasks.stream().map(ScanPartition::new).toArray(InputPartition[]::new);
  }

  /** Bytes between two positions that no task reads: their files are deleted. */
  static long lostBytes(StreamOffset low, StreamOffset high, List<JsonNode> tasks) {
    JsonNode from = low.tree().path("log");
    long lost = 0;
    for (Map.Entry<String, JsonNode> one : high.tree().path("log").properties()) {
      if (!from.has(one.getKey())) {
        continue; // a broker that was added begins wherever its log does
      }
      long start = from.path(one.getKey()).longValue();
      long read = 0;
      for (JsonNode task : tasks) {
        // What stands before the start is of a topic that was added.
        if (task.path("broker").asText().equals(one.getKey())
            && task.path("start").longValue() >= start) {
          read += task.path("end").longValue() - task.path("start").longValue();
        }
      }
      lost += Math.max(0, one.getValue().longValue() - start - read);
    }
    return lost;
  }

  /** Real-time mode has no limits: each task reads what comes. */
  @Override
  public void prepareForRealTimeMode() {
    refuse("maxOffsetsPerTrigger", limits.path("max_offsets").isNumber());
    refuse("maxBytesPerTrigger", limits.path("max_bytes").longValue() != DEFAULT_MAX_BYTES);
    refuse("minOffsetsPerTrigger", limits.path("min_offsets").isNumber());
    realTime = true;
  }

  private static void refuse(String option, boolean given) {
    if (given) {
      throw new ScanException(
          "ConfigError",
          option + " has no effect in real-time mode",
          "leave it out, or use another trigger");
    }
  }

  /** One task a broker, which waits for more: a position is one offset a broker. */
  @Override
  public InputPartition[] planInputPartitions(Offset start) {
    tailStart = own(start);
    List<JsonNode> tasks = planner.tails(tailStart);
    tails = tasks.size();
    return tasks.stream().map(TailPartition::new).toArray(InputPartition[]::new);
  }

  @Override
  public Offset mergeOffsets(PartitionOffset[] offsets) {
    List<TailEnd> ends = new ArrayList<>();
    for (PartitionOffset offset : offsets) {
      ends.add((TailEnd) offset);
    }
    if (tailStart == null || ends.size() != tails) {
      throw new ScanException(
          "EngineError", ends.size() + " tasks of " + tails + " said how far they got", "");
    }
    reached = planner.reached(tailStart, ends);
    return reached;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new StreamReaders(schema, leftOut);
  }

  /** The log behind a position, as it is now. */
  private static Backlog behind(StreamOffset position, StreamOffset latest) {
    JsonNode at = position.tree().path("log");
    long bytes = 0;
    for (Map.Entry<String, JsonNode> one : latest.tree().path("log").properties()) {
      bytes += Math.max(0, one.getValue().longValue() - at.path(one.getKey()).longValue());
    }
    return Backlog.ofBytes(bytes);
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    if (realTime && reached != null) { // Spark asked for the rest before the tasks ran
      backlog = behind(reached, planner.end());
    }
    Map<String, String> out = new LinkedHashMap<>();
    backlog.into(out);
    leftOut.into(out);
    return out;
  }

  /** Spark has processed all before {@code end}; for files there is only the position to log. */
  @Override
  public void commit(Offset end) {
    log.committed(own(end), latest);
  }

  @Override
  public void stop() {
    log.stopped();
    planner.close();
  }

  private static StreamOffset own(Offset offset) {
    return offset instanceof StreamOffset ours ? ours : new StreamOffset(offset.json());
  }
}
