"""Statistics of the broker: what it counts, and what operators see of it."""
