package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.read.InputPartition;

/** A task of real-time mode, as JSON: it waits for more. */
final class TailPartition implements InputPartition {
  private static final long serialVersionUID = 1L;

  final byte[] task;

  TailPartition(JsonNode task) {
    this.task = Json.write(task);
  }

  @Override
  public String toString() {
    JsonNode tail = Json.read(task).path("tail");
    return tail.path("store").path("root").asText() + " from " + tail.path("from");
  }
}
