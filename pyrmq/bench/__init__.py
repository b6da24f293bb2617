"""The benchmark harness: `pyrmq bench …`, a load generator for any broker that speaks remoting."""
