"""Message trace: what producers and consumers record, and how it is sent."""
