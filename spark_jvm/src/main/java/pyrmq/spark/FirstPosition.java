package pyrmq.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Where a query started, as a file of its checkpoint.
 *
 * <p>In real-time mode Spark writes a position when a micro-batch ends. A query from `latest` that stops
 * before that would start at a later end the next time, without what came in between.
 */
final class FirstPosition {
  private static final String VERSION = "v1\n";
  private static final int MOST_BYTES = 16 << 20;

  private final Path file;
  private final Configuration settings;

  /** {@code folder} is that of the source in the checkpoint. */
  FirstPosition(String folder, Configuration settings) {
    this.file = new Path(folder, "first-position");
    this.settings = settings;
  }

  /** The one that was kept, or null. */
  StreamOffset kept() {
    try {
      FileSystem files = file.getFileSystem(settings);
      byte[] bytes;
      try (FSDataInputStream in = files.open(file)) {
        bytes = in.readNBytes(MOST_BYTES);
      }
      String text = new String(bytes, StandardCharsets.UTF_8);
      if (!text.startsWith(VERSION)) {
        throw new ScanException(
            "CheckpointError", file + " has no first position that this version knows", "");
      }
      return new StreamOffset(text.substring(VERSION.length()));
    } catch (FileNotFoundException absent) {
      return null;
    } catch (IOException error) {
      throw new ScanException("CheckpointError", file + " cannot be read: " + error, "", error);
    }
  }

  /** The one that was kept; else keeps a new one. */
  StreamOffset keep(Supplier<StreamOffset> found) {
    StreamOffset before = kept();
    if (before != null) {
      return before;
    }
    StreamOffset first = found.get();
    Path incoming = new Path(file.getParent(), ".first-position.tmp");
    try {
      FileSystem files = file.getFileSystem(settings);
      try (FSDataOutputStream out = files.create(incoming, true)) {
        out.write((VERSION + first.json()).getBytes(StandardCharsets.UTF_8));
        out.hsync();
      }
      if (!files.rename(incoming, file)) {
        throw new IOException("cannot rename " + incoming);
      }
    } catch (IOException error) {
      throw new ScanException("CheckpointError", file + " cannot be written: " + error, "", error);
    }
    return first;
  }
}
