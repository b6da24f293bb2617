package pyrmq.spark;

import java.util.function.LongSupplier;
import java.util.function.LongUnaryOperator;

/**
 * When a micro-batch is due that waits for messages: minOffsetsPerTrigger and maxTriggerDelay.
 *
 * <p>Holds micro-batches back until there are {@code least} messages, but none longer than the delay
 * since the last one that was let go. The first one of a query waits for nothing, nor does any of
 * Trigger.AvailableNow: what is there then is all that it may read.
 */
final class Pace {
  private final Long least;
  private final long delayNanos;
  private final LongSupplier clock;
  private Long letGo;
  private boolean pinned;

  Pace(Long least, long delayMillis) {
    this(least, delayMillis, System::nanoTime);
  }

  Pace(Long least, long delayMillis, LongSupplier clock) {
    this.least = least;
    this.delayNanos = Math.multiplyExact(delayMillis, 1_000_000L);
    this.clock = clock;
  }

  /** Whether there is a number of messages to wait for. */
  boolean waits() {
    return least != null;
  }

  /** From now on everything that is there is read. */
  void pin() {
    pinned = true;
  }

  /** Whether to wait. {@code count} gives how many messages there are, counted up to its argument. */
  boolean holds(LongUnaryOperator count) {
    if (least == null || pinned) {
      return false;
    }
    long now = clock.getAsLong();
    boolean late = letGo == null || now - letGo >= delayNanos;
    long wanted = late ? 1 : least;
    if (count.applyAsLong(wanted) < wanted) {
      return true;
    }
    letGo = now;
    return false;
  }
}
