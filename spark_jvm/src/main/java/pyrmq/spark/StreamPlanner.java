package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;

/** The engine's planner of one streaming query. Lives on the driver; opened at the first use. */
final class StreamPlanner implements AutoCloseable {
  private static final long NONE = -1;

  private final JsonNode request;
  private long stream = NONE;
  private boolean closed;

  StreamPlanner(JsonNode request) {
    this.request = request;
  }

  /** Where a new query starts; the same however often it is asked for. */
  StreamOffset initial() {
    return position(call("initial"));
  }

  /** The end of the logs now. */
  StreamOffset end() {
    return position(call("end"));
  }

  /** How far the next batch goes: at most so many messages and bytes; null means no limit. */
  StreamOffset latest(StreamOffset start, Long maxOffsets, Long maxBytes) {
    ObjectNode asked = question("latest");
    if (start != null) {
      asked.set("start", start.tree());
    }
    if (maxOffsets != null) {
      asked.put("max_offsets", maxOffsets);
    }
    if (maxBytes != null) {
      asked.put("max_bytes", maxBytes);
    }
    return position(call(asked));
  }

  /** The tasks of the batch between two positions; none if they are the same. */
  List<JsonNode> splits(StreamOffset start, StreamOffset end) {
    ObjectNode asked = question("splits");
    asked.set("start", start.tree());
    asked.set("end", end.tree());
    return tasks(call(asked));
  }

  /** How many messages there are to read from a position on, counted up to {@code wanted}. */
  long count(StreamOffset start, long wanted) {
    ObjectNode asked = question("count");
    asked.set("start", start.tree());
    asked.put("wanted", wanted);
    return call(asked).path("count").longValue();
  }

  /**
   * How far the end of the batch that {@link #latest} named last is behind the end of the logs. Not
   * known if files of queues are deleted meanwhile.
   */
  Backlog behind() {
    try {
      return Backlog.of(Json.call(question("behind")).path("behind"));
    } catch (ScanException error) {
      return Backlog.UNKNOWN;
    }
  }

  /** From here on {@link #latest} stays at or below the end of the logs now. */
  void pin() {
    call("pin");
  }

  /** One task a broker that reads from a position on and waits for more. */
  List<JsonNode> tails(StreamOffset start) {
    ObjectNode asked = question("tails");
    asked.set("start", start.tree());
    return tasks(call(asked));
  }

  /** A position that the tasks of {@link #tails} reached, as a checkpoint keeps it. */
  StreamOffset position(StreamOffset start, List<TailEnd> ends) {
    ObjectNode asked = question("reached");
    asked.set("start", start.tree());
    ends.forEach(end -> asked.withArray("ends").add(end.asJson()));
    return position(call(asked));
  }

  @Override
  public void close() {
    closed = true;
    if (stream != NONE) {
      ObjectNode asked = question("close");
      stream = NONE;
      call(asked);
    }
  }

  private JsonNode call(String op) {
    return call(question(op));
  }

  private static JsonNode call(ObjectNode asked) {
    JsonNode answer = Engine.call(asked);
    answer.path("notes").forEach(NativeScan::log);
    return answer;
  }

  private ObjectNode question(String op) {
    ObjectNode asked = Engine.op("stream." + op);
    return asked.put("stream", opened());
  }

  private long opened() {
    if (stream == NONE) {
      if (closed) {
        throw new ScanException("ClosedError", "the stream was stopped", "");
      }
      ObjectNode asked = Engine.op("stream.open");
      asked.set("request", request);
      stream = call(asked).path("stream").longValue();
    }
    return stream;
  }

  private static StreamOffset position(JsonNode answer) {
    return new StreamOffset(answer.path("position").textValue());
  }

  private static List<JsonNode> tasks(JsonNode answer) {
    List<JsonNode> out = new ArrayList<>();
    answer.path("tasks").forEach(out::add);
    return out;
  }
}
