"""The broker: its requests, tables, replication and figures."""
