package pyrmq.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.Map;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What the driver asks the engine: each op of {@link Native#call} as a method. */
final class Engine {
  static final ObjectMapper JSON = new ObjectMapper();
  private static final Logger LOG = LoggerFactory.getLogger("pyrmq.segments");

  private Engine() {}

  static ObjectNode op(String name) {
    return JSON.createObjectNode().put("op", name);
  }

  /** The answer of an op. Its errors are AnalysisExceptions, as users know them from Spark. */
  static JsonNode call(ObjectNode request) {
    try {
      return JSON.readTree(Native.call(bytes(request)));
    } catch (ScanException error) {
      throw Internals.shown(error);
    } catch (IOException error) {
      throw new IllegalStateException("the engine's answer is not JSON", error);
    }
  }

  static byte[] bytes(JsonNode json) {
    try {
      return JSON.writeValueAsBytes(json);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  static JsonNode parsed(byte[] json) {
    try {
      return JSON.readTree(json);
    } catch (IOException error) {
      throw new IllegalStateException("not JSON", error);
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
      var fields = request.putArray("schema");
      for (StructField field : schema.fields()) {
        fields
            .addObject()
            .put("name", field.name())
            .put("type", field.dataType().simpleString())
            .put("nullable", field.nullable());
      }
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

  /** Logs notes, [[level, text]...], as the Python source does. */
  static void log(JsonNode notes) {
    for (JsonNode note : notes) {
      if (note.path(0).asText().equals("warning")) {
        LOG.warn("{}", escaped(note.path(1).asText()));
      } else {
        LOG.info("{}", escaped(note.path(1).asText()));
      }
    }
  }

  /** Without control characters: texts may hold what files and users wrote. */
  static String escaped(String text) {
    StringBuilder out = new StringBuilder(text.length());
    text.codePoints()
        .forEach(
            c -> {
              if (Character.isISOControl(c)) {
                out.append(String.format("\\x%02x", c));
              } else {
                out.appendCodePoint(c);
              }
            });
    return out.toString();
  }
}
