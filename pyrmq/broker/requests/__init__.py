"""Processors: what the broker does for each request code."""
