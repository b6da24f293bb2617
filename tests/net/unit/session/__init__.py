"""A connection without its socket: `pyrmq.engine.Session`."""
