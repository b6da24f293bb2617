package pyrmq.spark;

/**
 * A read failed. The native library throws it; so do the classes here.
 *
 * <p>{@code kind} is the class of the error in {@code pyrmq.errors}, such as SegmentDamagedError: the
 * same for the Python source. Names of files and topics stand in the text with hidden characters escaped.
 */
public final class ScanException extends RuntimeException {
  private final String kind;
  private final String text;
  private final String hint;

  public ScanException(String kind, String message, String hint) {
    this(kind, message, hint, null);
  }

  public ScanException(String kind, String message, String hint, Throwable cause) {
    super(Escape.escaped(whole(kind, message, hint)), cause);
    this.kind = kind;
    this.text = message == null ? "" : Escape.escaped(message);
    this.hint = hint == null ? "" : Escape.escaped(hint);
  }

  private static String whole(String kind, String message, String hint) {
    String tail = hint == null || hint.isEmpty() ? "" : " (" + hint + ")";
    return kind + ": " + message + tail;
  }

  /** The class of the error, such as SegmentDamagedError. */
  public String kind() {
    return kind;
  }

  /** What is wrong, without the class and the hint. */
  public String text() {
    return text;
  }

  /** What to do about it; may be empty. */
  public String hint() {
    return hint;
  }
}
