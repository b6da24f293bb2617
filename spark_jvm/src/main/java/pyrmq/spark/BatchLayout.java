package pyrmq.spark;

/**
 * Goes through the numbers that {@link Native#next} gives: of each column, depth first, its nulls, its
 * buffers and its children.
 */
final class BatchLayout {
  private final long[] numbers;
  private int at = 2;

  BatchLayout(long[] numbers) {
    if (numbers.length < 2 || numbers[0] < 0 || numbers[0] > Integer.MAX_VALUE) {
      throw wrong("it states " + (numbers.length < 1 ? "no" : numbers[0]) + " rows");
    }
    this.numbers = numbers;
  }

  int rows() {
    return (int) numbers[0];
  }

  /** Bytes of native memory that the batch keeps. */
  long bytes() {
    return numbers[1];
  }

  long take() {
    if (at >= numbers.length) {
      throw wrong("it ends within a column");
    }
    return numbers[at++];
  }

  /** A number that has to be this one. */
  void expect(long wanted, String what) {
    long have = take();
    if (have != wanted) {
      throw wrong(have + " " + what + " where " + wanted + " are needed");
    }
  }

  /** The address of the next buffer, which has at least so many bytes; 0 if none are needed. */
  long buffer(long needed) {
    long address = take();
    long bytes = take();
    if (bytes < needed || (needed > 0 && address == 0)) {
      throw wrong("a buffer of " + bytes + " bytes where " + needed + " are needed");
    }
    return address;
  }

  static ScanException wrong(String why) {
    return new ScanException(
        "EngineError", "the native library gave a batch that cannot be read: " + why,
        "please report this with the log");
  }
}
