package pyrmq.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** A read of segments with what Spark has pushed down. Batches are planned when Spark asks. */
final class MessageScan
    implements Scan, SupportsReportStatistics, SupportsRuntimeV2Filtering, Batch {
  /** Built where a query needs no column, as there must be one; cheap, as it has a fixed width. */
  private static final String ANY = "flag";

  /** Columns that may be long: the bytes of the log are their size. */
  private static final Set<String> LONG = Set.of("body", "properties", "propertiesRaw");

  private static final Set<String> JOINED =
      Set.of("topic", "brokerName", "queueId", "tags", "keys");

  private final MessageTable table;
  private final MessageTable.Reading reading;
  private final StructType schema;
  private final Conditions conditions;
  private final List<Predicate> pushed;
  private final Snapshot.Most most;

  /** What is asked of the rows instead of them; null: the rows. */
  private final Totals totals;

  /** What a join asks of the rows as well, once its small side is known. */
  private Conditions narrowed;

  private Snapshot.Planned planned;
  private boolean streams;

  MessageScan(
      MessageTable table,
      MessageTable.Reading reading,
      StructType schema,
      Conditions conditions,
      List<Predicate> pushed,
      Snapshot.Most most) {
    this(table, reading, schema, conditions, pushed, most, null);
  }

  private MessageScan(
      MessageTable table,
      MessageTable.Reading reading,
      StructType schema,
      Conditions conditions,
      List<Predicate> pushed,
      Snapshot.Most most,
      Totals totals) {
    this.table = table;
    this.reading = reading;
    this.schema = schema;
    this.conditions = conditions;
    narrowed = conditions;
    this.pushed = List.copyOf(pushed);
    this.most = most;
    this.totals = totals;
  }

  /** A scan whose rows are totals of the messages. */
  static MessageScan of(
      Totals totals,
      MessageTable table,
      MessageTable.Reading reading,
      Conditions conditions,
      List<Predicate> pushed) {
    return new MessageScan(
        table, reading, totals.schema(), conditions, pushed, Snapshot.Most.ALL, totals);
  }

  boolean hasNoTask() {
    return plan().tasks().isEmpty();
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public String description() {
    List<String> parts = new ArrayList<>();
    parts.add("RocketMQScan " + table.name());
    parts.add("PushedFilters: " + Escape.escaped(pushed.toString()));
    if (totals != null) {
      parts.add("PushedAggregates: " + totals);
    }
    if (!most.all()) {
      parts.add("PushedLimit: " + most);
    }
    parts.add("ReadSchema: " + schema.simpleString());
    return String.join(", ", parts);
  }

  /** Columns whose values on the small side of a join narrow this read. */
  @Override
  public NamedReference[] filterAttributes() {
    if (totals != null || !most.all() || streams) {
      return new NamedReference[0]; // fewer rows would give others, not fewer
    }
    return Arrays.stream(schema.fieldNames())
        .filter(
            name -> {
              String own = Columns.own(name); // null: the plan says what is wrong with a schema
              return own != null && JOINED.contains(own);
            })
        .map(Expressions::column)
        .toArray(NamedReference[]::new);
  }

  /** Spark still compares each row in the join: what is not taken only costs time. */
  @Override
  public synchronized void filter(Predicate[] predicates) {
    narrowed = new Conditions(conditions);
    narrowed.take(predicates, new ArrayList<>());
    planned = null;
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return plan().tasks().stream()
        .map(task -> totals == null ? new ScanPartition(task) : totals.partition(task))
        .toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new ScanReaderFactory(schema);
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    streams = true;
    return reading.stream(columns(), schema, checkpoint);
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    // Real-time mode goes by rows: the stream's reader factory says so of its partitions.
    return streams ? ColumnarSupportMode.PARTITION_DEFINED : ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return ScanMetrics.all();
  }

  @Override
  public Statistics estimateStatistics() {
    if (streams) {
      return new Size(OptionalLong.empty(), OptionalLong.empty());
    }
    Snapshot.Planned plan = plan();
    long rows = plan.rows();
    if (!most.all()) {
      long atMost = most.rows() * Math.max(1, plan.tasks().size());
      rows = rows < 0 ? -1 : Math.min(rows, atMost);
    }
    boolean narrow = true;
    for (String name : columns()) {
      narrow &= !LONG.contains(name);
    }
    long bytes = plan.bytes();
    if (narrow && rows >= 0) {
      long each = 8;
      for (StructField field : schema.fields()) {
        each += field.dataType().defaultSize();
      }
      bytes = Math.min(bytes, rows * each);
    }
    return new Size(OptionalLong.of(bytes), rows < 0 ? OptionalLong.empty() : OptionalLong.of(rows));
  }

  private record Size(OptionalLong sizeInBytes, OptionalLong numRows) implements Statistics {}

  private List<String> columns() {
    if (totals != null) {
      return List.of(ANY); // the engine builds what the totals need
    }
    List<String> names = Columns.own(schema);
    return names.isEmpty() ? List.of(ANY) : names;
  }

  private synchronized Snapshot.Planned plan() {
    if (planned == null) {
      planned = reading.snapshot().plan(columns(), narrowed, most);
    }
    return planned;
  }
}
