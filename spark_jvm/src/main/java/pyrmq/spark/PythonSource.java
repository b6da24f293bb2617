package pyrmq.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/**
 * The source in Python, for what this one does not do: reads through brokers, of tables and of remote
 * files, and all writes. It is registered under the name pyrmq.
 */
final class PythonSource {
  static final String NAME = "pyrmq";

  /** One for each set of options, as Spark's class keeps its plan: a frame is a snapshot here too. */
  private final Map<Options, TableProvider> providers = new HashMap<>();

  StructType schema(Options options) {
    return asked(() -> provider(options).inferSchema(Internals.options(options.given())));
  }

  ScanBuilder scanBuilder(Options options, StructType schema) {
    return asked(
        () ->
            ((SupportsRead) table(options, schema))
                .newScanBuilder(Internals.options(options.given())));
  }

  WriteBuilder writeBuilder(Options options, LogicalWriteInfo info) {
    return asked(() -> ((SupportsWrite) table(options, info.schema())).newWriteBuilder(info));
  }

  private Table table(Options options, StructType schema) {
    return provider(options).getTable(schema, new Transform[0], options.given());
  }

  private synchronized TableProvider provider(Options options) {
    return providers.computeIfAbsent(options, key -> Internals.python(NAME));
  }

  /** Runs what needs Python. Says what is missing where there is none, or none with the wheel. */
  static <T> T asked(Supplier<T> work) {
    try {
      return work.get();
    } catch (RuntimeException | LinkageError error) {
      throw Internals.unchecked(explained(error));
    } catch (Exception error) { // Spark's, which are not declared
      throw Internals.unchecked(explained(error));
    }
  }

  private static Throwable explained(Throwable error) {
    String text = String.valueOf(error.getMessage());
    boolean unknown = text.matches("(?s).*DATA_SOURCE_NOT_(FOUND|EXIST).*") && text.contains(NAME);
    boolean none = text.contains("Cannot run program") || text.contains("No module named 'pyspark");
    if (!unknown && !none) {
      return error;
    }
    return Internals.analysis(
        new ScanException(
            "ConfigError",
            "reads through brokers (nameServer), of tables (history) and of paths that are no local "
                + "files, and all writes need a Python with the package pyrmq-broker, and Spark has "
                + "found none",
            "pip install 'pyrmq-broker[spark]', and name that Python in PYSPARK_PYTHON when Spark "
                + "starts",
            error));
  }
}
