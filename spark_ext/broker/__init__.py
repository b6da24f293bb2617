"""Reading through brokers: which queues, how far they reach, and pulling them."""
