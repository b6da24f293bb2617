package pyrmq.spark;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Properties;

/**
 * Loads libpyrmq_jvm.so: from the path in the system property pyrmq.spark.native.path, or out of the jar.
 *
 * <p>Out of the jar it goes to a new folder below java.io.tmpdir that only this user may enter. The file
 * is deleted as soon as it is loaded.
 */
final class NativeLoader {
  static final String PATH = "pyrmq.spark.native.path";
  private static final String FILE = "libpyrmq_jvm.so";

  private NativeLoader() {}

  /** Loads the library. Why that is not possible; null if {@link Native} can be called now. */
  static ScanException load() {
    try {
      loaded();
      return null;
    } catch (ScanException failure) {
      return failure;
    }
  }

  private static void loaded() {
    String cpu = cpu(System.getProperty("os.name", ""), System.getProperty("os.arch", ""));
    String own = System.getProperty(PATH, "");
    if (own.isEmpty()) {
      unpacked("native/linux-" + cpu + "/" + FILE, cpu);
    } else {
      Path path = Path.of(own).toAbsolutePath();
      if (!Files.isReadable(path)) {
        throw failure(path + " cannot be read", "system property " + PATH + " names it", null);
      }
      open(path, cpu);
    }
    checkVersion();
  }

  /** The name of this CPU in the jar. */
  static String cpu(String system, String arch) {
    if (!system.equals("Linux")) {
      throw failure(
          "the native library runs on Linux, not on " + system,
          "without the jar, PySpark uses the source in Python",
          null);
    }
    return switch (arch) {
      case "amd64", "x86_64" -> "x86_64";
      case "aarch64", "arm64" -> "aarch64";
      default ->
          throw failure(
              "there is no native library for the CPU " + arch,
              "there are x86_64 and aarch64; without the jar, PySpark uses the source in Python",
              null);
    };
  }

  private static void unpacked(String resource, String cpu) {
    Path folder = null;
    Path file = null;
    try (InputStream in = NativeLoader.class.getClassLoader().getResourceAsStream(resource)) {
      if (in == null) {
        throw failure(
            "the jar has no native library for " + cpu + " (" + resource + ")",
            "build it with `make jar` on such a machine, or name a library by the system property "
                + PATH,
            null);
      }
      folder = Files.createTempDirectory("pyrmq-spark").toAbsolutePath(); // the linker needs that
      file = folder.resolve(FILE);
      Files.copy(in, file, StandardCopyOption.REPLACE_EXISTING);
      open(file, cpu);
    } catch (IOException error) {
      throw failure(
          "the native library cannot be unpacked: " + error,
          "free space in java.io.tmpdir (" + System.getProperty("java.io.tmpdir")
              + "), or name another folder with -Djava.io.tmpdir",
          error);
    } finally {
      delete(file);
      delete(folder);
    }
  }

  private static void delete(Path path) {
    if (path != null) {
      try {
        Files.deleteIfExists(path);
      } catch (IOException error) {
        path.toFile().deleteOnExit();
      }
    }
  }

  private static void open(Path path, String cpu) {
    String wrong;
    try {
      wrong = Elf.why(path, cpu);
    } catch (IOException error) {
      throw failure("the native library cannot be read: " + error, "copy it again", error);
    }
    if (wrong != null) {
      throw failure(
          "the native library cannot be loaded: " + path + ": " + wrong,
          "build the jar on this system with `make jar`, or copy it here again",
          null);
    }
    try {
      System.load(path.toString());
    } catch (UnsatisfiedLinkError error) {
      String why = String.valueOf(error.getMessage());
      throw failure("the native library cannot be loaded: " + why, advice(why, cpu), error);
    }
  }

  /** What to do about the linker's words. */
  static String advice(String why, String cpu) {
    String options =
        "for Spark in spark.driver.extraJavaOptions and spark.executor.extraJavaOptions";
    if (why.contains("failed to map segment") || why.contains("Operation not permitted")) {
      return "the temporary folder is mounted noexec: name another one with -Djava.io.tmpdir=FOLDER, "
          + options;
    }
    if (why.contains("GLIBC_")) {
      return "the C library of this system is older than the library needs: build the jar here with "
          + "`make jar`";
    }
    if (isMusl(cpu)) {
      return "this system has musl instead of glibc, as Alpine Linux: use an image with glibc";
    }
    if (why.contains("ELF") || why.contains("Exec format") || why.contains("too short")) {
      return "the file is for another CPU than " + cpu + ", or damaged: build the jar again";
    }
    return "build the jar on this system with `make jar`, or name a library by -D" + PATH + "=FILE, "
        + options;
  }

  private static boolean isMusl(String cpu) {
    return Files.exists(Path.of("/lib/ld-musl-" + cpu + ".so.1"));
  }

  /** The library and the classes are of one version. */
  private static void checkVersion() {
    String have;
    try {
      byte[] answer = Native.call("{\"op\":\"version\"}".getBytes(StandardCharsets.UTF_8));
      have = Json.read(answer).path("version").asText();
    } catch (UnsatisfiedLinkError error) {
      have = "(unknown)";
    }
    String need = build("version");
    if (!have.equals(need)) {
      throw failure(
          "the native library has version " + have + ", the classes have " + need,
          "use the library of the same build; one jar has both",
          null);
    }
  }

  /** A line of the properties that the build wrote: version, spark, scala. */
  static String build(String name) {
    Properties properties = new Properties();
    try (InputStream in = NativeLoader.class.getResourceAsStream("build.properties")) {
      if (in != null) {
        properties.load(in);
      }
    } catch (IOException error) {
      throw failure("the jar cannot be read: " + error, "copy it again", error);
    }
    return properties.getProperty(name, "unknown");
  }

  private static ScanException failure(String text, String hint, Throwable cause) {
    return new ScanException("SparkSetupError", text, hint, cause);
  }
}
