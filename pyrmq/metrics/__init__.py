"""Metrics of a server: families, what is folded, and the text that Prometheus reads."""
