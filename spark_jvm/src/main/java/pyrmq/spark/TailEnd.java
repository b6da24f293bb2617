package pyrmq.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;

/**
 * How far a task of real-time mode got: the physical offset of the next record of a broker.
 *
 * @param inside where rows of that record, an inner batch, were given already; else null
 */
record TailEnd(String broker, long log, Inside inside) implements PartitionOffset {

  /** The first queue offset of the record that was not given. */
  record Inside(String topic, int queue, long offset) implements java.io.Serializable {}

  ObjectNode asJson() {
    ObjectNode out = Json.object().put("broker", broker).put("log", log);
    if (inside != null) {
      out.put("topic", inside.topic()).put("queue", inside.queue()).put("offset", inside.offset());
    }
    return out;
  }
}
