package pyrmq.spark;

/**
 * The engine's functions. Every text is JSON in UTF-8; every error is a {@link ScanException}.
 *
 * <p>Handles are numbers of a table in the library. One that is closed or was never given is an error,
 * never a bad read.
 */
public final class Native {
  static {
    NativeLoader.load();
  }

  private Native() {}

  /** Everything that is not hot: {"op": "...", ...} to an answer of that op. */
  public static native byte[] call(byte[] json);

  /** Begins a task, as {@code plan} gave it; its handle. */
  public static native long open(byte[] task);

  /**
   * The next batch, or null at the end: rows, bytes, then of each column depth first: number of nulls,
   * number of buffers, (address, bytes) of each, number of children. Its memory stays until release,
   * the next call of next, or close.
   */
  public static native long[] next(long handle);

  /**
   * The next batch of a tail (real-time mode), as {@link #next} has it: what is there, or what comes
   * within so many milliseconds; null if nothing comes.
   */
  public static native long[] nextWithin(long handle, long millis);

  /** Frees the batch that next gave last. */
  public static native void release(long handle);

  /** {"records","recordBytes","rows","damagedParts","skippedBytes","notes":[[level, text]...]}. */
  public static native byte[] stats(long handle);

  /** Ends a task. May be called twice. */
  public static native void close(long handle);
}
