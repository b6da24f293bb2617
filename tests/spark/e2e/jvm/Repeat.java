import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import pyrmq.spark.Native;
import pyrmq.spark.ScanException;

/**
 * Does all that queries do with the engine, again and again: java -cp JARS Repeat.java STORE ROUNDS.
 * Prints JSON of open files and resident KiB after a quarter of the rounds, and at the end.
 */
public class Repeat {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] words) throws Exception {
    int rounds = Integer.parseInt(words[1]);
    int files = 0;
    for (int round = 0; round < rounds; round++) {
      if (round == rounds / 4) {
        files = files(0, 1);
        System.out.println(state(files));
      }
      batch(words[0]);
      stream(words[0]);
      errors(words[0]);
    }
    System.out.println(state(files(files, 20)));
  }

  /**
   * The least number of open files that is seen until it is so low, or the seconds are over: the JVM
   * closes the jars that its compiler read some time after a garbage collection.
   */
  private static int files(int enough, int seconds) {
    System.gc();
    long end = System.nanoTime() + seconds * 1_000_000_000L;
    int least = Integer.MAX_VALUE;
    do {
      least = Math.min(least, new File("/proc/self/fd").list().length);
      Thread.onSpinWait();
    } while (least > enough && System.nanoTime() < end);
    return least;
  }

  private static ObjectNode state(int files) throws Exception {
    ObjectNode out = (ObjectNode) call(op("held"));
    out.put("files", files);
    String pages = Files.readString(Path.of("/proc/self/statm")).split(" ")[1];
    return out.put("kilobytes", Long.parseLong(pages) * 4);
  }

  private static ObjectNode op(String name) {
    return JSON.createObjectNode().put("op", name);
  }

  private static JsonNode call(ObjectNode asked) throws Exception {
    return JSON.readTree(Native.call(JSON.writeValueAsBytes(asked)));
  }

  private static void request(ObjectNode asked, String store) {
    ObjectNode request = asked.putObject("request");
    request.putArray("paths").add(store);
    request.put("split_bytes", 100_000);
    ObjectNode how = request.putObject("how").put("batch_rows", 50);
    how.putArray("columns").add("topic").add("tags").add("body");
  }

  /** Each task is read: the first to its end, the others in part; the last is left in a batch. */
  private static void batch(String store) throws Exception {
    ObjectNode asked = op("plan");
    request(asked, store);
    long most = Long.MAX_VALUE;
    for (JsonNode task : call(asked).path("tasks")) {
      read(task, most);
      most = 1;
    }
    call(op("topics").put("path", store));
  }

  private static void read(JsonNode task, long most) throws Exception {
    long handle = Native.open(JSON.writeValueAsBytes(task));
    while (most-- > 0 && Native.next(handle) != null) {
      Native.stats(handle);
    }
    Native.close(handle);
  }

  private static void stream(String store) throws Exception {
    ObjectNode open = op("stream.open");
    request(open, store);
    open.putObject("limits").put("max_offsets", 300).put("max_bytes", 1L << 30);
    long stream = call(open).path("stream").longValue();
    String start = call(op("stream.initial").put("stream", stream)).path("position").textValue();
    ObjectNode asked = op("stream.latest").put("stream", stream).put("limit", "own");
    asked.set("start", JSON.readTree(start));
    String end = call(asked).path("position").textValue();
    ObjectNode splits = op("stream.splits").put("stream", stream);
    splits.set("start", JSON.readTree(start));
    splits.set("end", JSON.readTree(end));
    for (JsonNode task : call(splits).path("tasks")) {
      read(task, Long.MAX_VALUE);
    }
    ObjectNode tails = op("stream.tails").put("stream", stream);
    tails.set("start", JSON.readTree(end));
    for (JsonNode task : call(tails).path("tasks")) {
      long handle = Native.open(JSON.writeValueAsBytes(task));
      Native.nextWithin(handle, 0);
      call(op("tail.resume").put("handle", handle).put("row", 0));
      Native.close(handle);
    }
    call(op("stream.close").put("stream", stream));
  }

  private static void errors(String store) throws Exception {
    ObjectNode missing = op("plan");
    request(missing, store + "/missing");
    fails(missing);
    ObjectNode wrong = op("plan");
    request(wrong, store);
    ((ObjectNode) wrong.path("request").path("how")).putArray("columns").add("no\u0000such");
    fails(wrong);
  }

  private static void fails(ObjectNode asked) throws Exception {
    try {
      throw new IllegalStateException("no error: " + call(asked));
    } catch (ScanException expected) {
      // what it says is tested elsewhere
    }
  }
}
