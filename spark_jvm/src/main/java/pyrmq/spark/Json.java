package pyrmq.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;

/** JSON of the border, by the Jackson that Spark has. */
final class Json {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private Json() {}

  static ObjectNode object() {
    return MAPPER.createObjectNode();
  }

  static JsonNode read(byte[] text) {
    try {
      return MAPPER.readTree(text);
    } catch (IOException error) {
      throw new ScanException("EngineError", "JSON that is none: " + error, "", error);
    }
  }

  static byte[] write(JsonNode node) {
    try {
      return MAPPER.writeValueAsBytes(node);
    } catch (JsonProcessingException error) {
      throw new ScanException("EngineError", "JSON cannot be written: " + error, "", error);
    }
  }

  /** One op of the engine: the request has its "op". */
  static JsonNode call(ObjectNode request) {
    return read(Native.call(write(request)));
  }
}
