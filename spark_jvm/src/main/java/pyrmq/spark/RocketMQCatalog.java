package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Stores as a catalog of SQL: a namespace is a store, a table a topic. Nothing in it can be changed.
 *
 * <pre>spark.sql.catalog.mq=pyrmq.spark.RocketMQCatalog
 * spark.sql.catalog.mq.path=/data/store
 * SELECT count(*) FROM mq.default.orders
 * SELECT count(*) FROM mq.`/data/other`.orders</pre>
 *
 * Further options of the catalog are options of every read, such as failOnDataLoss.
 */
public final class RocketMQCatalog implements TableCatalog, SupportsNamespaces {
  private static final String DEFAULT = "default";

  /** The year 10000, which options cannot say: no message is stored later. */
  private static final long FOREVER_MICROS = 253_402_300_800_000_000L;

  private String name;
  private Map<String, String> options = Map.of();

  @Override
  public void initialize(String name, CaseInsensitiveStringMap given) {
    SparkLine.check();
    this.name = name;
    options = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    options.putAll(given.asCaseSensitiveMap());
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String[] defaultNamespace() {
    return new String[] {DEFAULT};
  }

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    String path = path(namespace);
    if (path == null) {
      throw new NoSuchNamespaceException(namespace);
    }
    List<Identifier> out = new ArrayList<>();
    for (JsonNode topic : topics(path).path("topics")) {
      out.add(Identifier.of(namespace, topic.asText()));
    }
    return out.toArray(new Identifier[0]);
  }

  @Override
  public Table loadTable(Identifier table) throws NoSuchTableException {
    return new CatalogTable(title(table), read(table));
  }

  /** VERSION AS OF: a commit-log offset, or JSON of queue offsets, at which the read ends. */
  @Override
  public Table loadTable(Identifier table, String version) throws NoSuchTableException {
    Options found = read(table);
    String text = version.trim();
    if (text.startsWith("{")) {
      return new CatalogTable(title(table), found.with(Map.of("endingOffsets", text)));
    }
    if (!text.matches("[0-9]{1,18}")) {
      throw refused(
          "VERSION AS OF " + Escape.quoted(version) + " is neither a commit-log offset nor JSON",
          "give a number of bytes, or {\"topic\": {\"broker\": {\"0\": queue offset}}}");
    }
    return new CatalogTable(title(table), found.before(Long.parseLong(text)));
  }

  /** TIMESTAMP AS OF: what was stored before that time, in microseconds. */
  @Override
  public Table loadTable(Identifier table, long micros) throws NoSuchTableException {
    Options found = read(table);
    if (micros >= FOREVER_MICROS) {
      return new CatalogTable(title(table), found);
    }
    long millis = Math.floorDiv(micros, 1000) + (Math.floorMod(micros, 1000) == 0 ? 0 : 1);
    // As a text, because the option refuses numbers that people do not mean as milliseconds.
    String end = Instant.ofEpochMilli(Math.max(0, millis)).toString();
    return new CatalogTable(title(table), found.with(Map.of("endingTimestamp", end)));
  }

  @Override
  public boolean tableExists(Identifier table) {
    try {
      read(table);
      return true;
    } catch (NoSuchTableException error) {
      return false;
    }
  }

  @Override
  public String[][] listNamespaces() {
    return options.containsKey("path") ? new String[][] {{DEFAULT}} : new String[0][];
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length == 0) {
      return listNamespaces();
    }
    if (path(namespace) == null) {
      throw new NoSuchNamespaceException(namespace);
    }
    return new String[0][];
  }

  @Override
  public boolean namespaceExists(String[] namespace) {
    return path(namespace) != null;
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace)
      throws NoSuchNamespaceException {
    String path = path(namespace);
    if (path == null) {
      throw new NoSuchNamespaceException(namespace);
    }
    return Map.of(SupportsNamespaces.PROP_LOCATION, path);
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) {
    throw readOnly("ALTER TABLE");
  }

  @Override
  public Table createTable(
      Identifier table, org.apache.spark.sql.connector.catalog.TableInfo info) {
    throw readOnly("CREATE TABLE");
  }

  @Override
  public boolean dropTable(Identifier table) {
    throw readOnly("DROP TABLE");
  }

  @Override
  public void renameTable(Identifier table, Identifier other) {
    throw readOnly("ALTER TABLE ... RENAME");
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) {
    throw readOnly("CREATE NAMESPACE");
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw readOnly("ALTER NAMESPACE");
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    throw readOnly("DROP NAMESPACE");
  }

  /** The store of a namespace; null if it is none. */
  private String path(String[] namespace) {
    if (namespace.length > 1) {
      return null;
    }
    String only = namespace.length == 0 ? DEFAULT : namespace[0];
    if (only.equals(DEFAULT)) {
      return options.get("path");
    }
    return only.startsWith("/") || only.startsWith("file:") ? only : null;
  }

  private static JsonNode topics(String path) {
    return Engine.call(Engine.op("topics").put("path", path));
  }

  /** Whether there may be such a topic: a log without a list of topics may have any. */
  private static boolean has(String path, String topic) {
    JsonNode answer = topics(path);
    boolean found = !answer.path("known").asBoolean();
    for (String list : List.of("topics", "system")) {
      for (JsonNode name : answer.path(list)) {
        found |= name.asText().equals(topic);
      }
    }
    return found;
  }

  private Options read(Identifier table) throws NoSuchTableException {
    String path = path(table.namespace());
    if (path == null || !has(path, table.name())) {
      throw new NoSuchTableException(table);
    }
    Map<String, String> own = new HashMap<>(options);
    own.keySet().removeIf(key -> key.equalsIgnoreCase("path"));
    own.put("path", path);
    own.put("topic", table.name());
    return Options.of(own);
  }

  private String title(Identifier table) {
    String[] namespace = table.namespace();
    String store = namespace.length == 0 ? DEFAULT : namespace[0];
    return Escape.escaped(name + "." + store + "." + table.name());
  }

  private RuntimeException readOnly(String statement) {
    return refused(
        statement + ": the catalog " + name + " shows the files of stores, and changes none",
        "topics are made by brokers, with `pyrmq admin topic`, or by their first message");
  }

  private static RuntimeException refused(String text, String hint) {
    return Internals.shown(new ScanException("ConfigError", text, hint));
  }
}
