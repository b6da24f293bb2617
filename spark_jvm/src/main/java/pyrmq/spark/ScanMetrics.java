package pyrmq.spark;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** What tasks have read, for Spark's UI. Spark makes each class again by its name. */
public final class ScanMetrics {
  private ScanMetrics() {}

  static CustomMetric[] all() {
    return new CustomMetric[] {
      new Messages(), new Bytes(), new Rows(), new SkippedBytes(), new DamagedParts()
    };
  }

  /** The metrics of one task, as it has read so far. */
  static CustomTaskMetric[] of(ScanStats stats) {
    return new CustomTaskMetric[] {
      new Value("messagesExamined", stats.records()),
      new Value("bytesRead", stats.recordBytes()),
      new Value("rowsRead", stats.rows()),
      new Value("bytesSkipped", stats.skippedBytes()),
      new Value("damagedParts", stats.damagedParts()),
    };
  }

  private record Value(String name, long value) implements CustomTaskMetric {}

  /** Messages that were looked at. */
  public static final class Messages extends CustomSumMetric {
    @Override
    public String name() {
      return "messagesExamined";
    }

    @Override
    public String description() {
      return "messages examined";
    }
  }

  /** Bytes of these messages. */
  public static final class Bytes extends CustomSumMetric {
    @Override
    public String name() {
      return "bytesRead";
    }

    @Override
    public String description() {
      return "bytes of log read";
    }
  }

  /** Rows that Spark got. */
  public static final class Rows extends CustomSumMetric {
    @Override
    public String name() {
      return "rowsRead";
    }

    @Override
    public String description() {
      return "rows given to Spark";
    }
  }

  /** With onCorruption=skip. */
  public static final class SkippedBytes extends CustomSumMetric {
    @Override
    public String name() {
      return "bytesSkipped";
    }

    @Override
    public String description() {
      return "bytes skipped because of damage";
    }
  }

  /** With onCorruption=skip. */
  public static final class DamagedParts extends CustomSumMetric {
    @Override
    public String name() {
      return "damagedParts";
    }

    @Override
    public String description() {
      return "damaged parts of the log";
    }
  }
}
