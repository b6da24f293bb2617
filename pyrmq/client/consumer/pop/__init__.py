"""Consuming with POP: a broker hands messages out for a time, and each is acknowledged."""
