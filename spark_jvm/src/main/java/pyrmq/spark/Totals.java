package pyrmq.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Aggregates that the engine works out while it reads, so that a task gives a row for each group. Spark
 * adds up the rows of all tasks, and asks for a sum and a number instead of an average.
 */
final class Totals {
  /** Columns with few values. With many the engine gives what it has from time to time. */
  private static final Set<String> KEYS = Set.of("topic", "brokerName", "queueId", "tags");

  /** Columns that are not built only to be counted. */
  private static final Set<String> LONG = Set.of("body", "properties", "propertiesRaw");

  private static final Set<DataType> NUMBERS =
      Set.of(DataTypes.IntegerType, DataTypes.LongType, DataTypes.TimestampType);

  private final String shown;
  private final ObjectNode json;
  private final StructType schema;

  private Totals(String shown, ObjectNode json, StructType schema) {
    this.shown = shown;
    this.json = json;
    this.schema = schema;
  }

  /** Null if Spark has to work it out from the rows. */
  static Totals of(Aggregation aggregation, StructType read) {
    ObjectNode json = Json.object();
    ArrayNode by = json.putArray("by");
    StructType schema = new StructType();
    List<String> shown = new ArrayList<>();
    for (Expression expression : aggregation.groupByExpressions()) {
      StructField field = field(expression, read);
      if (field == null || !KEYS.contains(Columns.own(field.name()))) {
        return null;
      }
      by.add(Columns.own(field.name()));
      schema = schema.add(field);
    }
    ArrayNode of = json.putArray("of");
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      StructField field = null;
      if (!(function instanceof CountStar)) {
        Expression[] children = function.children();
        field = children.length == 1 ? field(children[0], read) : null;
        if (field == null) {
          return null;
        }
      }
      DataType type = type(function, field);
      if (type == null) {
        return null;
      }
      ObjectNode total = of.addObject().put("function", name(function));
      if (field != null) {
        total.put("column", Columns.own(field.name()));
      }
      schema = schema.add(function.toString(), type, true);
      shown.add(function.toString());
    }
    return new Totals(shown + (by.isEmpty() ? "" : " by " + by), json, schema);
  }

  /** Whether each task gives one row at least. */
  boolean ofAll() {
    return json.path("by").isEmpty();
  }

  StructType schema() {
    return schema;
  }

  /** The task of a plan, of which these are asked. */
  ScanPartition partition(ObjectNode task) {
    task.set("totals", json);
    return new ScanPartition(task);
  }

  @Override
  public String toString() {
    return shown;
  }

  private static StructField field(Expression expression, StructType read) {
    String name = Columns.own(expression);
    for (StructField field : read.fields()) {
      if (name != null && name.equals(Columns.own(field.name()))) {
        return field;
      }
    }
    return null;
  }

  private static String name(AggregateFunc function) {
    if (function instanceof Sum) {
      return "sum";
    }
    if (function instanceof Min) {
      return "min";
    }
    return function instanceof Max ? "max" : "count";
  }

  /** The type of a total; null if the engine has no such total. */
  private static DataType type(AggregateFunc function, StructField field) {
    if (function instanceof CountStar) {
      return DataTypes.LongType;
    }
    if (function instanceof Count count) {
      boolean counted = !count.isDistinct() && !LONG.contains(Columns.own(field.name()));
      return counted ? DataTypes.LongType : null;
    }
    if (function instanceof Sum sum) {
      boolean summed = !sum.isDistinct() && field.dataType().equals(DataTypes.IntegerType);
      return summed ? DataTypes.LongType : null;
    }
    boolean found = function instanceof Min || function instanceof Max;
    return found && NUMBERS.contains(field.dataType()) ? field.dataType() : null;
  }
}
