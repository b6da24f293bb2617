"""The real Prometheus: its programs, and a server of a test's own."""
