"""POP consumption: what is popped from which queue, what waits for messages, who gets which queues."""
