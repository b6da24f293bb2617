package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How far the end of a micro-batch is behind the end of the logs: bytes of the whole log, and messages
 * of the chosen topics where the store has queues. A part of it that is not known is not there.
 */
final class Backlog {
  static final Backlog UNKNOWN = new Backlog(Json.object());

  /** Names of the planner, and those of Kafka's source as far as it has them. */
  private static final Map<String, String> NAMES = new LinkedHashMap<>();

  static {
    NAMES.put("messages", "messagesBehindLatest");
    NAMES.put("minMessages", "minOffsetsBehindLatest");
    NAMES.put("avgMessages", "avgOffsetsBehindLatest");
    NAMES.put("maxMessages", "maxOffsetsBehindLatest");
    NAMES.put("bytes", "bytesBehindLatest");
  }

  private final ObjectNode summary;

  private Backlog(ObjectNode summary) {
    this.summary = summary;
  }

  /** From the planner's answer. */
  static Backlog of(JsonNode summary) {
    return summary.isObject() ? new Backlog((ObjectNode) summary) : UNKNOWN;
  }

  /** Bytes alone, of the log. */
  static Backlog ofBytes(long bytes) {
    return new Backlog(Json.object().put("bytes", bytes));
  }

  /** The part of the latest offset that spark_ext.listener reads. */
  ObjectNode asJson() {
    return summary;
  }

  void into(Map<String, String> metrics) {
    NAMES.forEach(
        (own, name) -> {
          JsonNode value = summary.path(own);
          if (value.isNumber()) {
            metrics.put(name, value.asText());
          }
        });
  }
}
