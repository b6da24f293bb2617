"""The client's end of connections: the protocol without I/O, its drivers, requests and answers."""
