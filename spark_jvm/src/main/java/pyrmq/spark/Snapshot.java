package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What a loaded frame reads. It is planned once, so that all actions on the frame get the same rows.
 *
 * <p>An action whose WHERE narrows the read gets tasks of its own. They end where the first plan does.
 */
final class Snapshot {
  private static final String SPAN = "commit_log_offsets";

  /** Tasks of an action, with what the engine knows of their size; rows are -1 if it does not. */
  record Planned(List<ObjectNode> tasks, long bytes, long rows) {}

  private final ObjectNode request;
  private Planned first;

  /** Of each broker the physical offsets that are read, from and before. */
  private final Map<String, long[]> spans = new HashMap<>();

  /** {@code request} is the engine's, as it parsed the options. */
  Snapshot(JsonNode request) {
    this.request = request.deepCopy();
  }

  ObjectNode request() {
    return request.deepCopy();
  }

  /** The whole frame. */
  synchronized Planned first() {
    if (first == null) {
      JsonNode answer = Engine.plan(request);
      request.set("paths", answer.path("paths")); // without patterns: later plans are of these stores
      Planned found = planned(answer);
      for (ObjectNode task : found.tasks) {
        JsonNode span = task.path("span");
        long from = span.isArray() ? span.get(0).asLong() : task.path("start").asLong();
        long before = span.isArray() ? span.get(1).asLong() : task.path("end").asLong();
        spans.merge(
            task.path("broker").asText(),
            new long[] {from, before},
            (a, b) -> new long[] {Math.min(a[0], b[0]), Math.max(a[1], b[1])});
      }
      first = found;
    }
    return first;
  }

  /** The tasks of an action: its columns, its filters, and how many rows it wants. */
  Planned plan(List<String> columns, Conditions conditions, Most most) {
    Planned all = first();
    ObjectNode filters = merged(request.path("selection").path("filters"), conditions.json());
    Planned chosen = all;
    if ((conditions.narrow() || most.isTop()) && filesAreThere(all)) {
      chosen = most.isTop() ? top(filters, most) : planned(Engine.plan(filtered(filters)));
    }
    List<ObjectNode> tasks = new ArrayList<>();
    for (ObjectNode task : chosen.tasks) {
      long[] span = spans.get(task.path("broker").asText());
      if (span == null) {
        continue; // its log was empty at the first plan
      }
      ObjectNode own = task.deepCopy();
      ObjectNode ofTask = filters.deepCopy();
      if (most.firstOfTask()) {
        ofTask.put("limit", most.rows);
      }
      if (chosen != all) {
        ofTask.set(SPAN, both(filters.path(SPAN), span));
      }
      ((ObjectNode) own.get("rule").get("selection")).set("filters", ofTask);
      ArrayNode names = ((ObjectNode) own.get("how")).putArray("columns");
      columns.forEach(names::add);
      tasks.add(own);
    }
    return new Planned(tasks, chosen.bytes, chosen.rows);
  }

  /**
   * So many rows at most: any, or those with the lowest or highest values of a column; {@code unique} if
   * Spark sorts by nothing else.
   */
  record Most(long rows, String by, boolean descending, boolean unique) {
    static final Most ALL = any(-1);

    /** Columns by which the engine finds the first and the last rows. */
    static final Set<String> COLUMNS = Set.of("queueOffset", "commitLogOffset");

    static Most any(long rows) {
      return new Most(rows, null, false, true);
    }

    boolean all() {
      return rows < 0;
    }

    boolean isTop() {
      return by != null;
    }

    /**
     * A task gives rows in the order of the log. Messages of an inner batch have one place there: another
     * column may put the last of them first.
     */
    boolean firstOfTask() {
      return !all() && (!isTop() || by.equals("commitLogOffset") && !descending && unique);
    }

    @Override
    public String toString() {
      return rows + (isTop() ? " by " + by + (descending ? " DESC" : "") : "");
    }
  }

  /** The first or last rows of each broker, whose log ends where the first plan found it. */
  private Planned top(ObjectNode filters, Most most) {
    List<ObjectNode> tasks = new ArrayList<>();
    long bytes = 0;
    for (Map.Entry<String, long[]> broker : spans.entrySet()) {
      ObjectNode narrowed = filtered(ofBroker(filters, broker));
      narrowed
          .putObject("top")
          .put("by", most.by)
          .put("descending", most.descending)
          .put("n", most.rows);
      Planned found = planned(Engine.plan(narrowed));
      for (ObjectNode task : found.tasks) {
        if (task.path("broker").asText().equals(broker.getKey())) {
          tasks.add(task);
        }
      }
      bytes += found.bytes;
    }
    return new Planned(tasks, bytes, -1);
  }

  private ObjectNode filtered(ObjectNode filters) {
    ObjectNode out = request();
    ((ObjectNode) out.get("selection")).set("filters", filters);
    return out;
  }

  /** Filters of one broker alone, and of what the first plan found there. */
  private static ObjectNode ofBroker(ObjectNode filters, Map.Entry<String, long[]> broker) {
    ObjectNode out = filters.deepCopy();
    JsonNode brokers = filters.path("brokers");
    boolean asked = !brokers.isArray();
    for (JsonNode name : brokers) {
      asked |= name.asText().equals(broker.getKey());
    }
    ArrayNode only = out.putArray("brokers");
    if (asked) {
      only.add(broker.getKey());
    }
    out.set(SPAN, both(filters.path(SPAN), broker.getValue()));
    return out;
  }

  /**
   * The answer of op counts for the frame: each group is counted once for each broker, as the logs of
   * brokers end apart. Null if the queues cannot tell.
   */
  List<JsonNode> counts(Conditions conditions, List<String> by) {
    Planned all = first();
    if (!filesAreThere(all)) {
      return null;
    }
    ObjectNode filters = merged(request.path("selection").path("filters"), conditions.json());
    List<JsonNode> out = new ArrayList<>();
    for (Map.Entry<String, long[]> broker : spans.entrySet()) {
      ObjectNode asked = Engine.op("counts");
      asked.set("request", filtered(ofBroker(filters, broker)));
      ArrayNode columns = asked.putArray("by");
      by.forEach(columns::add);
      JsonNode answer = Engine.counts(asked);
      if (!answer.path("exact").asBoolean()) {
        return null;
      }
      answer.path("groups").forEach(out::add);
    }
    return out;
  }

  private static Planned planned(JsonNode answer) {
    List<ObjectNode> tasks = new ArrayList<>();
    answer.path("tasks").forEach(task -> tasks.add((ObjectNode) task));
    return new Planned(
        tasks, answer.path("bytes").asLong(), answer.path("rows").asLong(-1));
  }

  /** Both have to hold; only ranges and sets that Spark adds are in {@code added}. */
  private static ObjectNode merged(JsonNode own, ObjectNode added) {
    ObjectNode out = own.isObject() ? own.deepCopy() : Json.object();
    added
        .properties()
        .forEach(
            entry -> {
              JsonNode before = out.get(entry.getKey());
              boolean range = entry.getKey().equals(SPAN) && before != null && before.isArray();
              JsonNode value = entry.getValue();
              if (range) {
                long[] bounds = {value.get(0).asLong(), value.get(1).asLong()};
                out.set(entry.getKey(), both(before, bounds));
              } else {
                out.set(entry.getKey(), value);
              }
            });
    return out;
  }

  private static ArrayNode both(JsonNode range, long[] other) {
    long from = other[0];
    long before = other[1];
    if (range.isArray()) {
      from = Math.max(from, range.get(0).asLong());
      before = Math.min(before, range.get(1).asLong());
    }
    ArrayNode out = Json.object().putArray(SPAN);
    return out.add(from).add(Math.max(from, before));
  }

  /**
   * Whether the files of the first plan are as they were. If not, its tasks are used, whose readers say
   * what is missing: a new plan would read what is left without a word.
   */
  private static boolean filesAreThere(Planned plan) {
    Map<String, Long> files = new HashMap<>();
    for (ObjectNode task : plan.tasks) {
      if (task.path("place").isTextual()) {
        continue;
      }
      for (JsonNode file : task.path("files")) {
        files.put(file.get(2).asText(), file.get(1).asLong());
      }
    }
    for (Map.Entry<String, Long> file : files.entrySet()) {
      try {
        if (Files.size(Path.of(file.getKey())) < file.getValue()) {
          return false;
        }
      } catch (IOException gone) {
        return false;
      }
    }
    return true;
  }
}
