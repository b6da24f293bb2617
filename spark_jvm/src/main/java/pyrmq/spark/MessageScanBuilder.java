package pyrmq.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.NamedReference;
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
  private long limit = -1;
  private Counts lastCounts;
  private Counts counts;

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

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    counts = counted(aggregation);
    return counts != null;
  }

  /** Spark asks twice. */
  private Counts counted(Aggregation aggregation) {
    if (lastCounts == null || !lastCounts.isOf(aggregation)) {
      lastCounts = Counts.of(aggregation, reading, conditions);
    }
    return lastCounts;
  }

  @Override
  public void pruneColumns(StructType schema) {
    required = schema;
  }

  @Override
  public boolean pushLimit(int most) {
    limit = most;
    return true;
  }

  /** A task gives its rows in the order of the log, so its first ones are enough. */
  @Override
  public boolean pushTopN(SortOrder[] orders, int most) {
    if (orders.length == 0
        || orders[0].direction() != SortDirection.ASCENDING
        || !(orders[0].expression() instanceof NamedReference column)
        || !"commitLogOffset".equals(Columns.own(String.join(".", column.fieldNames())))) {
      return false;
    }
    limit = most;
    return true;
  }

  /** Every task gives so many rows at most; Spark takes the first of all. */
  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  @Override
  public Scan build() {
    if (counts != null) {
      return new CountScan(table.name(), counts, pushed);
    }
    return new MessageScan(table, reading, required, conditions, pushed, limit);
  }
}
