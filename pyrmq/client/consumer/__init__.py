"""Consumers: rebalance, pulling, consuming, offsets."""
