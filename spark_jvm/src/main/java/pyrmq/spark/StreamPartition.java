package pyrmq.spark;

import org.apache.spark.sql.connector.read.InputPartition;

/** A task of a stream. {@code tail}: it waits for more, in real-time mode. */
record StreamPartition(byte[] task, boolean tail) implements InputPartition {}
