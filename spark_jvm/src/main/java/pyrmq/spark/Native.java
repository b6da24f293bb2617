package pyrmq.spark;

/**
 * The engine's functions. Every text is JSON in UTF-8; every error is a {@link ScanException}.
 *
 * <p>Handles are numbers of a table in the library. One that is closed or was never given is an error,
 * never a bad read.
 */
public final class Native {
  /** Why the library is not there; null if it is. Each call says it again. */
  private static final ScanException FAILURE = NativeLoader.load();

  private Native() {}

  /** Everything that is not hot: {"op": "...", ...} to an answer of that op. */
  public static byte[] call(byte[] json) {
    check();
    return call0(json);
  }

  /** Begins a task, as {@code plan} gave it; its handle. */
  public static long open(byte[] task) {
    check();
    return open0(task);
  }

  /**
   * The next batch, or null at the end: rows, bytes, then of each column depth first: number of nulls,
   * number of buffers, (address, bytes) of each, number of children. Its memory stays until release,
   * the next call of next, or close.
   */
  public static long[] next(long handle) {
    check();
    return next0(handle);
  }

  /**
   * The next batch of a tail (real-time mode), as {@link #next} has it: what is there, or what comes
   * within so many milliseconds; null if nothing comes.
   */
  public static long[] nextWithin(long handle, long millis) {
    check();
    return nextWithin0(handle, millis);
  }

  /** Frees the batch that next gave last. */
  public static void release(long handle) {
    check();
    release0(handle);
  }

  /** {"records","recordBytes","rows","damagedParts","skippedBytes","notes":[[level, text]...]}. */
  public static byte[] stats(long handle) {
    check();
    return stats0(handle);
  }

  /** Ends a task. May be called twice. */
  public static void close(long handle) {
    check();
    close0(handle);
  }

  private static void check() {
    if (FAILURE != null) {
      throw new ScanException(FAILURE.kind(), FAILURE.text(), FAILURE.hint(), FAILURE);
    }
  }

  private static native byte[] call0(byte[] json);

  private static native long open0(byte[] task);

  private static native long[] next0(long handle);

  private static native long[] nextWithin0(long handle, long millis);

  private static native void release0(long handle);

  private static native byte[] stats0(long handle);

  private static native void close0(long handle);
}
