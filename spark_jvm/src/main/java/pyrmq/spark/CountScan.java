package pyrmq.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.StructType;

/** Aggregates that were answered while Spark planned: rows without a task. */
record CountScan(String name, Counts counts, List<Predicate> pushed) implements LocalScan {
  @Override
  public InternalRow[] rows() {
    return counts.rows();
  }

  @Override
  public StructType readSchema() {
    return counts.schema();
  }

  @Override
  public String description() {
    String filters = Escape.escaped(pushed.toString());
    return "RocketMQQueues " + name + ", PushedAggregates: " + counts + ", PushedFilters: " + filters;
  }
}
