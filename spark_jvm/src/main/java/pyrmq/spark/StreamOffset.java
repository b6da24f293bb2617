package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * The position of a stream, as the checkpoint keeps it: one physical offset a broker, and more where a
 * query started at offsets of queues.
 *
 * <p>The text is the planner's and equals that of the Python source, because Spark compares offsets as
 * text. So either source continues the other's checkpoint.
 */
final class StreamOffset extends Offset {
  private final String text;

  StreamOffset(String text) {
    this.text = text;
  }

  @Override
  public String json() {
    return text;
  }

  /** What the text says. CheckpointError if it is no JSON object. */
  JsonNode tree() {
    JsonNode tree;
    try {
      tree = Json.read(text.getBytes(StandardCharsets.UTF_8));
    } catch (ScanException error) {
      tree = null;
    }
    if (tree == null || !tree.isObject()) {
      throw new ScanException("CheckpointError", "the checkpoint has no position: " + text, "");
    }
    return tree;
  }
}
