package pyrmq.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * What the header of a native library says, read before the system's linker gets the file.
 *
 * <p>The linker maps a file that is cut short as if it were whole, and the first read behind its end
 * is a signal that ends the JVM.
 */
final class Elf {
  private static final int HEADER = 64;
  private static final int SEGMENT = 56;
  private static final int SECTION = 64;
  private static final int LOAD = 1;

  private Elf() {}

  /** Why the file is no library for a CPU, as the jar names it; null if nothing speaks against it. */
  static String why(Path path, String cpu) throws IOException {
    if (!Files.isRegularFile(path)) {
      return "it is no file";
    }
    try (FileChannel file = FileChannel.open(path)) {
      long size = file.size();
      ByteBuffer header = read(file, 0, HEADER);
      if (header == null || header.getInt(0) != 0x464c457f || header.get(4) != 2 || header.get(5) != 1) {
        return "it is no ELF file of 64 bits";
      }
      int machine = Short.toUnsignedInt(header.getShort(18));
      int wanted = cpu.equals("aarch64") ? 183 : 62;
      if (machine != wanted) {
        return "it is for another CPU than " + cpu + " (ELF machine " + machine + ")";
      }
      if (isCut(file, size, header)) {
        return "it is cut short or damaged (" + size + " bytes)";
      }
      return null;
    }
  }

  /** Whether something that the header names is behind the end of the file. */
  private static boolean isCut(FileChannel file, long size, ByteBuffer header) throws IOException {
    int sections = Short.toUnsignedInt(header.getShort(60));
    if (!isInside(header.getLong(40), (long) sections * SECTION, size)) {
      return true;
    }
    int segments = Short.toUnsignedInt(header.getShort(56));
    long start = header.getLong(32);
    if (segments == 0 || !isInside(start, (long) segments * SEGMENT, size)) {
      return true;
    }
    ByteBuffer table = read(file, start, segments * SEGMENT);
    if (table == null) {
      return true;
    }
    for (int at = 0; at < segments * SEGMENT; at += SEGMENT) {
      if (table.getInt(at) == LOAD && !isInside(table.getLong(at + 8), table.getLong(at + 32), size)) {
        return true;
      }
    }
    return false;
  }

  private static boolean isInside(long start, long bytes, long size) {
    return start >= 0 && bytes >= 0 && start <= size && bytes <= size - start;
  }

  /** So many bytes; null if the file ends before. */
  private static ByteBuffer read(FileChannel file, long at, int bytes) throws IOException {
    ByteBuffer out = ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
    while (out.hasRemaining()) {
      if (file.read(out, at + out.position()) < 0) {
        return null;
      }
    }
    return out;
  }
}
