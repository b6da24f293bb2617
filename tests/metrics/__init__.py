"""Metrics: families, folding, pages, what the servers show."""
