"""A small HTTP server for metrics and health: GET and HEAD, one request for each connection."""
