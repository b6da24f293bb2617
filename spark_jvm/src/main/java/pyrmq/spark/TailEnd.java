package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;

/** Where a task of real-time mode stopped, as the engine's JSON. */
record TailEnd(byte[] json) implements PartitionOffset {

  JsonNode tree() {
    return Json.read(json);
  }
}
