package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What the driver asks the engine: each op of {@link Native#call} as a method. */
final class Engine {
  private static final Logger LOG = LoggerFactory.getLogger("pyrmq.spark");

  private Engine() {}

  static ObjectNode op(String name) {
    return Json.object().put("op", name);
  }

  /** The answer of an op. Its errors are AnalysisExceptions, as users know them from Spark. */
  static JsonNode call(ObjectNode request) {
    try {
      return Json.call(request);
    } catch (ScanException error) {
      throw Internals.shown(error);
    }
  }

  /**
   * Parsed and checked options. {@code query} is batch, stream, or null while Spark has not said which;
   * {@code schema} is the user's, or null.
   */
  static JsonNode options(Map<String, String> given, String query, StructType schema) {
    ObjectNode request = op("options");
    ObjectNode options = request.putObject("options");
    given.forEach(options::put);
    if (query != null) {
      request.put("query", query);
    }
    if (schema != null) {
      request.set("schema", Json.read(Internals.plain(schema).json().getBytes(StandardCharsets.UTF_8)));
    }
    JsonNode answer = call(request);
    log(answer.path("notes"));
    return answer;
  }

  /** The tasks of a read: {"tasks", "bytes", "rows"}. Its notes are logged. */
  static JsonNode plan(JsonNode request) {
    ObjectNode asked = op("plan");
    asked.set("request", request);
    JsonNode answer = call(asked);
    log(answer.path("notes"));
    return answer;
  }

  /** The counts of a read, or why the queues cannot tell, which is logged. */
  static JsonNode counts(ObjectNode asked) {
    JsonNode answer = call(asked);
    log(answer.path("notes"));
    if (!answer.path("exact").asBoolean()) {
      LOG.info("messages are counted by reading them: {}", Escape.escaped(answer.path("why").asText()));
    }
    return answer;
  }

  private static void log(JsonNode notes) {
    notes.forEach(NativeScan::log);
  }
}
