package pyrmq.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** What Spark pushes down: filters, aggregates, columns, limits. Queries of segments only. */
final class MessageScanBuilder
    implements SupportsPushDownV2Filters,
        SupportsPushDownAggregates,
        SupportsPushDownRequiredColumns,
        SupportsPushDownLimit,
        SupportsPushDownTopN {
  private final MessageTable table;
  private final MessageTable.Reading reading;
  private final List<Predicate> pushed = new ArrayList<>();
  private Conditions conditions = new Conditions();
  private StructType required;
  private Snapshot.Most most = Snapshot.Most.ALL;
  private Counts lastCounts;
  private Counts counts;
  private MessageScan totals;

  MessageScanBuilder(MessageTable table, MessageTable.Reading reading) {
    this.table = table;
    this.reading = reading;
    required = reading.schema();
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    conditions = new Conditions();
    pushed.clear();
    return conditions.take(predicates, pushed);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed.toArray(new Predicate[0]);
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    return counted(aggregation) != null;
  }

  /** What queue entries do not answer, the engine adds up while it reads, a task at a time. */
  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    counts = counted(aggregation);
    totals = null;
    if (counts == null) {
      Totals asked = Totals.of(aggregation, reading.schema());
      if (asked != null) {
        MessageScan scan = MessageScan.of(asked, table, reading, conditions, pushed);
        // Without a task there is no row that says 0.
        totals = asked.ofAll() && scan.hasNoTask() ? null : scan;
      }
    }
    return counts != null || totals != null;
  }

  /** Spark asks twice. */
  private Counts counted(Aggregation aggregation) {
    if (lastCounts == null || !lastCounts.isOf(aggregation)) {
      lastCounts = Counts.of(aggregation, reading, conditions);
    }
    return lastCounts;
  }

  /**
   * Leaves out columns, but no fields within one: the engine builds the whole struct of a body, as its
   * type decides which bodies fit.
   */
  @Override
  public void pruneColumns(StructType schema) {
    StructType all = reading.schema();
    List<String> names = List.of(all.fieldNames());
    StructType whole = new StructType();
    for (StructField field : schema.fields()) {
      // A column that only a table of the catalog has is not among them.
      whole = whole.add(names.contains(field.name()) ? all.apply(field.name()) : field);
    }
    required = whole;
  }

  @Override
  public boolean pushLimit(int rows) {
    most = Snapshot.Most.any(rows);
    return true;
  }

  /** The first or the last rows of a log, or of its queues. */
  @Override
  public boolean pushTopN(SortOrder[] orders, int rows) {
    String by = orders.length == 0 ? null : Columns.own(orders[0].expression());
    if (by == null || !Snapshot.Most.COLUMNS.contains(by)) {
      return false;
    }
    boolean descending = orders[0].direction() == SortDirection.DESCENDING;
    most = new Snapshot.Most(rows, by, descending, orders.length == 1);
    return true;
  }

  /** A task may give more rows, or others too: Spark takes those that are asked for. */
  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  @Override
  public Scan build() {
    if (counts != null) {
      return new CountScan(table.name(), counts, pushed);
    }
    if (totals != null) {
      return totals;
    }
    return new MessageScan(table, reading, required, conditions, pushed, most);
  }
}
