"""Rolling restarts of brokers under load."""
