package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/**
 * Options of one query or table, as users gave them; names in any case. What they mean, the engine
 * says: here is only what decides who reads, and what Spark's catalog puts among them.
 */
final class Options {
  private static final Pattern URI = Pattern.compile("(?i)(?!file:)[a-z][a-z0-9+.-]*://.*");
  private static final Pattern WITH_SECRET = Pattern.compile("[A-Za-z][A-Za-z0-9+.-]*://[^/]*@.*");
  private static final Set<String> PLACES = Set.of("path", "paths", "location", "nameserver");
  private static final Set<String> OF_CATALOG =
      Set.of("owner", "provider", "external", "comment", "collation", "is_managed_location");
  private static final List<String> SECRETS = List.of("secretKey", "securityToken", "tlsKeyPassword");

  /** Ours alone: who reads. */
  static final String READER = "reader";

  private final TreeMap<String, String> given = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);

  /** A range of commit-log offsets that VERSION AS OF asks for; no option. */
  private final long before;

  private Options(Map<String, String> given, long before) {
    this.given.putAll(given);
    this.before = before;
  }

  /** Those of a read or a write. */
  static Options of(Map<String, String> given) {
    return new Options(given, Long.MAX_VALUE);
  }

  /** Those of a table of the session catalog, without what the catalog itself adds. */
  static Options ofTable(Map<String, String> properties) {
    Options out = of(properties);
    out.given
        .keySet()
        .removeIf(
            key ->
                OF_CATALOG.contains(key.toLowerCase(Locale.ROOT))
                    || key.startsWith(TableCatalog.OPTION_PREFIX)
                    || key.startsWith("transient_"));
    if (out.given.remove("location") == null) {
      out.given.remove("path"); // a folder of Spark's own, for a table that has no place
    }
    return out;
  }

  /** Whether Spark's catalog asks, not a query. */
  static boolean isTable(Map<String, String> given) {
    String provider = of(given).get("provider");
    return provider != null
        && (provider.equalsIgnoreCase("rocketmq")
            || provider.equalsIgnoreCase(RocketMQSource.class.getName()));
  }

  /** These with others before them, which are of the query itself. */
  Options with(Map<String, String> others) {
    TreeMap<String, String> own = new TreeMap<>(given);
    TreeMap<String, String> added = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    added.putAll(others);
    boolean place = added.keySet().stream().anyMatch(Options::isPlace);
    if (place) {
      own.keySet().removeIf(Options::isPlace);
    }
    own.putAll(added);
    return new Options(own, before);
  }

  /** Only messages before this commit-log offset. */
  Options before(long offset) {
    return new Options(given, offset);
  }

  String get(String name) {
    return given.get(name);
  }

  /** For the engine and for Python, which know nothing of readers. */
  Map<String, String> given() {
    TreeMap<String, String> out = new TreeMap<>(given);
    out.remove(READER);
    return out;
  }

  /** Where the messages are, for people. */
  String place() {
    for (String name : List.of("path", "paths", "location", "nameServer")) {
      String value = get(name);
      if (value != null) {
        return Escape.escaped(WITH_SECRET.matcher(value).find() ? "(a URI)" : value);
      }
    }
    return "(no place)";
  }

  /** Whether the source in Python reads; an error where option reader forbids it. */
  boolean readByPython() {
    String why = null;
    boolean files = get("path") != null || get("paths") != null || get("location") != null;
    if (get("nameServer") != null && !files) {
      why = "reads through brokers (nameServer)";
    } else if (isRemote(get("path")) || isRemote(get("location")) || isRemoteList(get("paths"))) {
      why = "paths that are no local files";
    } else if (get("storageOptions") != null) {
      why = "storageOptions";
    } else if (get("history") != null || get("historyCatalog") != null) {
      why = "option history";
    }
    String reader = get(READER) == null ? "auto" : get(READER).trim().toLowerCase(Locale.ROOT);
    switch (reader) {
      case "auto":
        return why != null;
      case "python":
        return true;
      case "jvm":
        if (why != null) {
          throw Internals.shown(
              new ScanException(
                  "ConfigError",
                  "option reader is jvm, but only the source in Python has " + why,
                  "leave option reader out"));
        }
        return false;
      default:
        throw Internals.shown(
            new ScanException(
                "ConfigError",
                "option reader must be auto, jvm or python, not " + Escape.quoted(get(READER)),
                ""));
    }
  }

  /** ConfigError for what the catalog must not keep, as it shows it to everybody. */
  void checkTable() {
    String where = "would be kept in the catalog, and shown by SHOW CREATE TABLE: leave ";
    if (get("storageOptions") != null) {
      throw refused(
          "storageOptions would be kept in the catalog",
          "leave it out of CREATE TABLE, and give it to each read: "
              + "SELECT ... FROM table WITH (storageOptions = '...')");
    }
    for (String name : SECRETS) {
      if (get(name) != null) {
        throw refused(
            name + " " + where + "it out of CREATE TABLE",
            "give secretKeyFile, or give it to each read: SELECT ... FROM table WITH ("
                + name
                + " = '...')");
      }
    }
    String catalog = get("historyCatalog");
    if (catalog != null && WITH_SECRET.matcher(catalog).find()) {
      throw refused(
          "credentials in historyCatalog " + where + "them out of CREATE TABLE",
          "write them into .pyiceberg.yaml, and give the name that the catalog has there");
    }
    for (String name : List.of("path", "paths", "location")) {
      String place = get(name);
      if (place != null && WITH_SECRET.matcher(place).find()) {
        throw refused(
            "credentials in the location " + where + "them out of CREATE TABLE",
            "give storageOptions to each read: "
                + "SELECT ... FROM table WITH (storageOptions = '...')");
      }
    }
  }

  /** The engine's request with VERSION AS OF. */
  JsonNode limited(JsonNode request) {
    if (before == Long.MAX_VALUE) {
      return request;
    }
    ObjectNode out = request.deepCopy();
    ObjectNode filters = ((ObjectNode) out.get("selection")).withObject("filters");
    filters.putArray("commit_log_offsets").add(0).add(before);
    return out;
  }

  private static RuntimeException refused(String text, String hint) {
    return Internals.shown(new ScanException("ConfigError", text, hint));
  }

  private static boolean isPlace(String key) {
    return PLACES.contains(key.toLowerCase(Locale.ROOT));
  }

  private static boolean isRemote(String path) {
    return path != null && URI.matcher(path.trim()).matches();
  }

  /** Of a JSON list of paths; the engine says what is wrong with one that is none. */
  private static boolean isRemoteList(String paths) {
    if (paths == null) {
      return false;
    }
    JsonNode list;
    try {
      list = Json.read(paths.getBytes(StandardCharsets.UTF_8));
    } catch (ScanException error) {
      return false;
    }
    for (JsonNode path : list) {
      if (isRemote(path.asText())) {
        return true;
      }
    }
    return false;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Options options
        && given.equals(options.given)
        && before == options.before;
  }

  @Override
  public int hashCode() {
    return given.hashCode();
  }
}
