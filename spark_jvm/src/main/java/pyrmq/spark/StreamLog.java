package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The position of a streaming query as lines in the log of the driver, level INFO: one every ten seconds
 * at most, and the last one.
 *
 * <pre>rocketmq stream: broker-a at 734003200 (+52428800 bytes since the last line, 1024 behind)</pre>
 */
final class StreamLog {
  private static final Logger LOG = LoggerFactory.getLogger("pyrmq.spark.progress");
  private static final long EVERY_NANOS = 10_000_000_000L;

  private Long loggedAt;
  private Map<String, Long> logged = Map.of();
  private Map<String, Long> last = Map.of();

  /** A micro-batch up to {@code end} is done; {@code latest} is where the logs were seen to end. */
  void committed(StreamOffset end, StreamOffset latest) {
    last = byBroker(end);
    long now = System.nanoTime();
    if (loggedAt == null || now - loggedAt >= EVERY_NANOS) {
      loggedAt = now;
      log(latest == null ? Map.of() : byBroker(latest));
    }
  }

  /** The query ends. Logs what was committed since the last line. */
  void stopped() {
    if (!last.equals(logged)) {
      log(Map.of());
    }
  }

  private void log(Map<String, Long> ends) {
    List<String> parts = new ArrayList<>();
    last.forEach(
        (broker, position) -> {
          List<String> notes = new ArrayList<>();
          if (logged.containsKey(broker)) {
            notes.add("+" + (position - logged.get(broker)) + " bytes since the last line");
          }
          if (ends.containsKey(broker)) {
            notes.add(Math.max(0, ends.get(broker) - position) + " behind");
          }
          String more = notes.isEmpty() ? "" : " (" + String.join(", ", notes) + ")";
          parts.add(Escape.escaped(broker) + " at " + position + more);
        });
    LOG.info("rocketmq stream: {}", String.join("; ", parts));
    logged = last;
  }

  private static Map<String, Long> byBroker(StreamOffset offset) {
    Map<String, Long> out = new TreeMap<>();
    for (Map.Entry<String, JsonNode> one : offset.tree().path("log").properties()) {
      out.put(one.getKey(), one.getValue().longValue());
    }
    return out;
  }
}
