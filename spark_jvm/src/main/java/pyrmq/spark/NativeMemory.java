package pyrmq.spark;

import org.apache.spark.TaskContext;
import org.apache.spark.memory.MemoryConsumer;
import org.apache.spark.memory.TaskMemoryManager;

/**
 * States the native bytes of a task to Spark's memory manager, so that others spill for them.
 *
 * <p>The bytes are needed in any case, and small: one batch (batchBytes and one record) and a window on
 * a file. So a read goes on if the manager grants less.
 */
final class NativeMemory extends MemoryConsumer {
  private NativeMemory(TaskMemoryManager manager) {
    super(manager, manager.pageSizeBytes(), manager.getTungstenMemoryMode());
  }

  /** Of the running task; null outside of one, as in a unit test. */
  static NativeMemory ofTask() {
    TaskContext task = TaskContext.get();
    TaskMemoryManager manager = task == null ? null : task.taskMemoryManager();
    return manager == null ? null : new NativeMemory(manager);
  }

  /** At least so many bytes are in use from now on, as far as they are granted. */
  void use(long bytes) {
    long more = bytes - getUsed();
    if (more > 0) {
      acquireMemory(more);
    }
  }

  /** Nothing is in use any more. */
  void done() {
    freeMemory(getUsed());
  }

  /** Native bytes are those of the batch that is being read: nothing can be given back. */
  @Override
  public long spill(long size, MemoryConsumer trigger) {
    return 0;
  }
}
