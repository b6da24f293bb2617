"""Admin, `pyrmq mqadmin` and `pyrmq admin` against an embedded server."""
