package pyrmq.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * What the engine holds in this JVM, for SQL, which asks an executor too:
 *
 * <pre>SELECT java_method('pyrmq.spark.Held', 'text')</pre>
 */
public final class Held {
  private Held() {}

  /** JSON: the process, and how many tasks, streams, batches and bytes of batches it holds. */
  public static String text() {
    ObjectNode held = (ObjectNode) Json.call(Engine.op("held"));
    return held.put("process", ProcessHandle.current().pid()).toString();
  }
}
