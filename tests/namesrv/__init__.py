"""The name server."""
