package pyrmq.spark;

import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Writes: the sink in Python sends the rows. */
final class PythonWrite implements V1Write {
  /** Options of the sink; a table may have others, for its reads. */
  private static final Set<String> OF_SINK =
      Set.of(
          "nameserver",
          "topic",
          "producergroup",
          "sendmsgtimeout",
          "retrytimeswhensendfailed",
          "retryanotherbrokerwhennotstoreok",
          "waitstoremsgok",
          "maxmessagesize",
          "sendbatchbytes",
          "sendinflight",
          "systemproperties",
          "accesskey",
          "secretkeyfile",
          "secretkey",
          "securitytoken",
          "tls",
          "tlscafile",
          "tlscertfile",
          "tlskeyfile",
          "tlskeypassword",
          "tlsservername",
          "tlsanyname",
          "tlsinsecure");

  private final PythonSource python;
  private final Options options;
  private final LogicalWriteInfo info;

  private PythonWrite(PythonSource python, Options options, LogicalWriteInfo info) {
    this.python = python;
    this.options = options;
    this.info = info;
  }

  @Override
  public String description() {
    return "messages to " + options.place();
  }

  /** INSERT INTO a table, whose options name the name servers. */
  @Override
  public InsertableRelation toInsertableRelation() {
    TreeMap<String, String> ofSink = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    ofSink.putAll(options.given());
    ofSink.keySet().removeIf(key -> !OF_SINK.contains(key.toLowerCase(Locale.ROOT)));
    ofSink.putAll(info.options().asCaseSensitiveMap());
    if (!ofSink.containsKey("nameServer")) {
      throw Internals.shown(
          new ScanException(
              "ConfigError",
              "this table has no option nameServer: rows are sent to brokers, never to files",
              "create a table with OPTIONS (nameServer 'host:9876', topic '...') for INSERT INTO"));
    }
    return (rows, overwrite) -> send(rows, ofSink, overwrite);
  }

  @Override
  public StreamingWrite toStreaming() {
    Options all = options.with(info.options());
    return PythonSource.asked(
        () ->
            python
                .writeBuilder(all, new Info(all, info.queryId(), info.schema()))
                .build()
                .toStreaming());
  }

  /** Sends all rows, once each unless a task is repeated. */
  static void send(Dataset<Row> rows, Map<String, String> options, boolean overwrite) {
    if (overwrite) {
      throw refused("overwrite");
    }
    PythonSource.asked(
        () -> {
          rows.write().format(PythonSource.NAME).options(options).mode("append").save();
          return null;
        });
  }

  static RuntimeException refused(String mode) {
    return Internals.shown(
        new ScanException(
            "ConfigError",
            "save mode " + mode + ": a log only grows, and nobody knows what is in a topic before",
            "leave mode out, or take mode(\"append\")"));
  }

  /** Made before Spark says whether the write is a batch or a stream. */
  static final class Builder implements WriteBuilder, SupportsStreamingUpdateAsAppend {
    private final PythonSource python;
    private final Options options;
    private final LogicalWriteInfo info;

    Builder(PythonSource python, Options options, LogicalWriteInfo info) {
      this.python = python;
      this.options = options;
      this.info = info;
    }

    @Override
    public Write build() {
      return new PythonWrite(python, options, info);
    }
  }

  /** What Spark said of the write, without option reader. */
  private record Info(Options given, String queryId, StructType schema) implements LogicalWriteInfo {
    @Override
    public CaseInsensitiveStringMap options() {
      return Internals.options(given.given());
    }
  }
}
