"""Access control: who asks, and what they may do."""
