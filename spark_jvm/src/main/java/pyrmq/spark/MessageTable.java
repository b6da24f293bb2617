package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What `load`, a table of the session catalog, or `save` is about: messages, by options. */
class MessageTable implements SupportsRead, SupportsWrite {
  private final StructType schema;
  private final Options options;
  private final Map<String, String> properties;
  private final PythonSource python;

  /** Whether it is a table of the session catalog. */
  private final boolean ofCatalog;

  /** By options of the query: one frame, one snapshot. */
  private final Map<Options, Reading> readings = new HashMap<>();

  /** {@code properties}: as Spark gave them, for SHOW CREATE TABLE. */
  MessageTable(
      StructType schema, Options options, Map<String, String> properties, PythonSource python) {
    this.schema = schema;
    this.options = options;
    ofCatalog = Options.isTable(properties);
    this.properties = new HashMap<>(properties);
    this.properties.remove("path"); // the place of a table is its location
    this.python = python;
  }

  @Override
  public String name() {
    return "rocketmq " + options.place();
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return schema;
  }

  @Override
  public Map<String, String> properties() {
    return properties;
  }

  @Override
  public Set<TableCapability> capabilities() {
    Set<TableCapability> all =
        EnumSet.of(
            TableCapability.BATCH_READ,
            TableCapability.MICRO_BATCH_READ,
            // Not BATCH_WRITE: Spark takes its default save mode only from a source of V1.
            TableCapability.V1_BATCH_WRITE,
            TableCapability.STREAMING_WRITE);
    if (!ofCatalog) {
      // With it, Spark gives INSERT INTO the names of the query, as col1, and not those of the table.
      all.add(TableCapability.ACCEPT_ANY_SCHEMA);
    }
    return all;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
    Options asked = options.with(given);
    if (asked.readByPython()) {
      return python.scanBuilder(asked, schema);
    }
    return new MessageScanBuilder(this, reading(asked));
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new PythonWrite.Builder(python, options, info);
  }

  private synchronized Reading reading(Options asked) {
    return readings.computeIfAbsent(asked, key -> new Reading(key, schema));
  }

  /** A read of segments by some options. Options are checked when it is known what the query is. */
  static class Reading {
    private final Options options;
    private final StructType schema;
    private Snapshot snapshot;

    Reading(Options options, StructType schema) {
      this.options = options;
      this.schema = schema;
    }

    StructType schema() {
      return schema;
    }

    synchronized Snapshot snapshot() {
      if (snapshot == null) {
        JsonNode answer = Engine.options(options.given(), "batch", schema);
        snapshot = new Snapshot(options.limited(answer.path("request")));
      }
      return snapshot;
    }

    MicroBatchStream stream(List<String> columns, StructType schema, String folder) {
      JsonNode answer = Engine.options(options.given(), "stream", this.schema);
      ObjectNode request = (ObjectNode) answer.path("request");
      ArrayNode names = ((ObjectNode) request.get("how")).putArray("columns");
      columns.forEach(names::add);
      return new RocketMQStream(request, answer.path("stream"), schema, folder);
    }
  }
}
