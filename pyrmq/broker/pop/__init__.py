"""POP consumption: which queues are popped, what waits for messages, who gets which queues."""
