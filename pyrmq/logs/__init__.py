"""Logging of servers: what a line is about, how it looks, where it goes."""
