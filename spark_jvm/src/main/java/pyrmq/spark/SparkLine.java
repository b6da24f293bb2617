package pyrmq.spark;

import java.util.List;

/** The versions of Spark that this jar fits. Others have other interfaces under the same names. */
public final class SparkLine {
  private static final List<String> KNOWN = List.of("4.1.", "4.2.", "4.3.");

  private SparkLine() {}

  /** SparkSetupError if this Spark is none of them. */
  static void check() {
    String version;
    try {
      version = Internals.version();
    } catch (LinkageError error) { // a class that only other versions have
      throw other("without " + error.getMessage(), error);
    }
    check(version);
  }

  /** The same of a version. */
  public static void check(String version) {
    if (KNOWN.stream().noneMatch(version::startsWith)) {
      throw Internals.shown(other(version, null));
    }
  }

  private static ScanException other(String version, Throwable cause) {
    return new ScanException(
        "SparkSetupError",
        "this jar is for Spark 4.1, 4.2 and 4.3, but here runs Spark " + version,
        "take the jar out of spark.jars, and use the source in Python, or another Spark",
        cause);
  }
}
