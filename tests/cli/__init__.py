"""The command line, without `pyrmq admin` and `pyrmq mqadmin`."""
