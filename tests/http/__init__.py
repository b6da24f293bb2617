"""The HTTP server of metrics and health."""
