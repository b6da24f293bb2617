import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import pyrmq.spark.Native;
import pyrmq.spark.ScanException;

/**
 * Calls each function of the native library, from several threads, as the test of JNI's own checks
 * wants it: java -Xcheck:jni -cp JARS Probe.java STORE. Prints one line a finding.
 */
public class Probe {
  private static final Pattern TASKS = Pattern.compile("\"tasks\":\\[(.*)\\]", Pattern.DOTALL);

  public static void main(String[] words) throws Exception {
    String request =
        "{\"paths\":[\"" + words[0] + "\"],\"split_bytes\":20000,\"how\":{\"batch_rows\":50}}";
    List<String> tasks = tasks(text(call("{\"op\":\"plan\",\"request\":" + request + "}")));
    List<Thread> threads = new ArrayList<>();
    long[] rows = new long[4];
    for (int i = 0; i < rows.length; i++) {
      int number = i;
      Thread thread = new Thread(() -> rows[number] = read(tasks));
      threads.add(thread);
      thread.start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    for (long one : rows) {
      System.out.println("rows " + one);
    }
    fails("closed", () -> Native.next(1));
    fails("closed", () -> Native.release(-1));
    fails("closed", () -> Native.stats(Long.MAX_VALUE));
    fails("closed", () -> Native.nextWithin(0, 5));
    fails("null", () -> Native.call(null));
    fails("null", () -> Native.open(null));
    fails("cannot be read", () -> Native.open(new byte[0]));
    fails("no JSON", () -> Native.call(new byte[] {(byte) 0xff, 0, 1}));
    fails("there is no op", () -> call("{\"op\":\"\\u0000\\ud83d\\ude00\"}"));
    Native.close(1);
    Native.close(-1);
    System.out.println("held " + text(call("{\"op\":\"held\"}")));
  }

  private static byte[] call(String json) {
    return Native.call(json.getBytes(StandardCharsets.UTF_8));
  }

  private static String text(byte[] json) {
    return StandardCharsets.UTF_8.decode(ByteBuffer.wrap(json)).toString();
  }

  /** The tasks of a plan, one by one: each begins and ends with the braces of its level. */
  private static List<String> tasks(String plan) {
    Matcher found = TASKS.matcher(plan);
    List<String> out = new ArrayList<>();
    if (!found.find()) {
      return out;
    }
    String all = found.group(1);
    int depth = 0;
    int start = 0;
    for (int i = 0; i < all.length(); i++) {
      char c = all.charAt(i);
      if (c == '{' && depth++ == 0) {
        start = i;
      } else if (c == '}' && --depth == 0) {
        out.add(all.substring(start, i + 1));
      }
    }
    return out;
  }

  private static long read(List<String> tasks) {
    long rows = 0;
    for (String task : tasks) {
      long handle = Native.open(task.getBytes(StandardCharsets.UTF_8));
      for (long[] batch = Native.next(handle); batch != null; batch = Native.next(handle)) {
        rows += batch[0];
        Native.release(handle);
      }
      Native.stats(handle);
      Native.close(handle);
      Native.close(handle);
    }
    return rows;
  }

  private static void fails(String said, Runnable call) {
    try {
      call.run();
      System.out.println("no error: " + said);
    } catch (ScanException error) {
      System.out.println((error.text().contains(said) ? "fails " : "other error: ") + error);
    }
  }
}
