package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.read.InputPartition;

/** A task of the engine's plan, as JSON: batches and streams read it in the same way. */
final class ScanPartition implements InputPartition {
  private static final long serialVersionUID = 1L;

  final byte[] task;

  ScanPartition(JsonNode task) {
    this.task = Json.write(task);
  }

  @Override
  public String toString() {
    JsonNode json = Json.read(task);
    return json.path("root").asText() + " " + json.path("start") + " to " + json.path("end");
  }
}
