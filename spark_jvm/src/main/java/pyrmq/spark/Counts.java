package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Aggregates that the entries of queues answer: the number of messages, the first and the last queue
 * offset, of all or by topic, broker and queue. No message is read.
 */
final class Counts {
  private enum What {
    COUNT,
    MIN,
    MAX
  }

  private static final List<String> KEYS = List.of("topic", "brokerName", "queueId");

  private final String asked;
  private final List<String> by;
  private final List<What> functions;
  private final StructType schema;
  private final InternalRow[] rows;

  private Counts(
      String asked, List<String> by, List<What> functions, StructType schema, InternalRow[] rows) {
    this.asked = asked;
    this.by = by;
    this.functions = functions;
    this.schema = schema;
    this.rows = rows;
  }

  /** The answer; null if it needs the messages. */
  static Counts of(Aggregation aggregation, MessageTable.Reading reading, Conditions conditions) {
    StructType schema = new StructType();
    List<String> by = new ArrayList<>();
    for (Expression expression : aggregation.groupByExpressions()) {
      String name = Columns.own(expression);
      if (name == null || !KEYS.contains(name)) {
        return null;
      }
      by.add(name);
      schema = schema.add(name, Columns.type(name, "none"), false);
    }
    List<What> functions = new ArrayList<>();
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      What what = what(function);
      if (what == null) {
        return null;
      }
      functions.add(what);
      schema = schema.add(function.toString(), DataTypes.LongType, what != What.COUNT);
    }
    List<JsonNode> groups = reading.snapshot().counts(conditions, by);
    if (groups == null) {
      return null;
    }
    return new Counts(
        aggregation.toString(), by, functions, schema, rows(groups, by, functions));
  }

  boolean isOf(Aggregation aggregation) {
    return asked.equals(aggregation.toString());
  }

  StructType schema() {
    return schema;
  }

  InternalRow[] rows() {
    return rows;
  }

  @Override
  public String toString() {
    return functions + (by.isEmpty() ? "" : " by " + by);
  }

  private static What what(AggregateFunc function) {
    if (function instanceof CountStar) {
      return What.COUNT;
    }
    if (function instanceof Count count) {
      // No row has null in these columns.
      String name = count.isDistinct() ? null : Columns.own(count.column());
      boolean counted = name != null && (KEYS.contains(name) || name.equals("queueOffset"));
      return counted ? What.COUNT : null;
    }
    if (function instanceof Min min) {
      return "queueOffset".equals(Columns.own(min.column())) ? What.MIN : null;
    }
    if (function instanceof Max max) {
      return "queueOffset".equals(Columns.own(max.column())) ? What.MAX : null;
    }
    return null;
  }

  private record Group(long count, long min, long max) {
    static final Group NONE = new Group(0, Long.MAX_VALUE, Long.MIN_VALUE);

    Group and(Group other) {
      return new Group(
          count + other.count, Math.min(min, other.min), Math.max(max, other.max));
    }
  }

  private static InternalRow[] rows(List<JsonNode> groups, List<String> by, List<What> functions) {
    Map<JsonNode, Group> found = new LinkedHashMap<>();
    if (by.isEmpty()) {
      found.put(Json.object().putArray("key"), Group.NONE);
    }
    for (JsonNode group : groups) {
      long count = group.path("count").asLong();
      if (count > 0) {
        Group one =
            new Group(
                count, group.path("min_offset").asLong(), group.path("max_offset").asLong());
        found.merge(group.path("key"), one, Group::and);
      }
    }
    List<InternalRow> out = new ArrayList<>();
    found.forEach(
        (key, group) -> {
          List<Object> values = new ArrayList<>();
          for (JsonNode part : key) {
            values.add(part.isNumber() ? part.asInt() : UTF8String.fromString(part.asText()));
          }
          for (What what : functions) {
            switch (what) {
              case COUNT -> values.add(group.count);
              case MIN -> values.add(group.count == 0 ? null : group.min);
              case MAX -> values.add(group.count == 0 ? null : group.max);
              default -> throw new IllegalStateException();
            }
          }
          out.add(new GenericInternalRow(values.toArray()));
        });
    return out.toArray(new InternalRow[0]);
  }
}
