"""Replication: pairs of brokers, as processes and inside of the test."""
