package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;

/** The engine's planner of one streaming query. Lives on the driver; opened at the first use. */
final class StreamPlanner implements AutoCloseable {
  private static final long NONE = -1;

  private final JsonNode request;
  private final JsonNode limits;
  private long stream = NONE;
  private boolean closed;

  /** {@code limits} are those of the options, as the op {@code options} gives them. */
  StreamPlanner(JsonNode request, JsonNode limits) {
    this.request = request;
    this.limits = limits;
  }

  /** Where a new query starts; the same however often it is asked for. */
  StreamOffset initial() {
    return position(call("initial"));
  }

  /** The end of the logs now. */
  StreamOffset end() {
    return position(call("end"));
  }

  /** How far the next batch goes, with all that there is. */
  StreamOffset latest(StreamOffset start) {
    ObjectNode asked = question("latest");
    asked.set("start", start.tree());
    asked.put("limit", "all");
    return position(call(asked));
  }

  /**
   * How far the next batch goes: so many {@code rows} or {@code bytes} by Spark's limit, and no more
   * than the options say of the other one. The start, as long as minOffsetsPerTrigger waits.
   */
  StreamOffset latest(StreamOffset start, String kind, long most) {
    ObjectNode asked = question("latest");
    asked.set("start", start.tree());
    asked.putObject("limit").put(kind, most);
    JsonNode answer = call(asked);
    return answer.path("position").isNull() ? start : position(answer);
  }

  /** The tasks of the batch between two positions; none if they are the same. */
  List<JsonNode> splits(StreamOffset start, StreamOffset end) {
    ObjectNode asked = question("splits");
    asked.set("start", start.tree());
    asked.set("end", end.tree());
    return tasks(call(asked));
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

  /** From here on {@link #latest} stays at or below the end of the logs now, and waits for nothing. */
  void pin() {
    call("pin");
  }

  /** One task a broker that reads from a position on and waits for more. */
  List<JsonNode> tails(StreamOffset start) {
    ObjectNode asked = question("tails");
    asked.set("start", start.tree());
    return tasks(call(asked));
  }

  /** The position that the tasks of {@link #tails} got to, as a checkpoint keeps it. */
  StreamOffset reached(StreamOffset start, List<TailEnd> ends) {
    ObjectNode asked = question("reached");
    asked.set("start", start.tree());
    ends.forEach(end -> asked.withArray("ends").add(end.tree()));
    return position(call(asked));
  }

  @Override
  public void close() {
    closed = true;
    if (stream != NONE) {
      ObjectNode asked = question("close");
      stream = NONE;
      Json.call(asked);
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
    return Engine.op("stream." + op).put("stream", opened());
  }

  private long opened() {
    if (stream == NONE) {
      if (closed) {
        throw new ScanException("ClosedError", "the stream was stopped", "");
      }
      ObjectNode asked = Engine.op("stream.open");
      asked.set("request", request);
      asked.set("limits", limits);
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
