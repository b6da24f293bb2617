"""The server's end of connections: accepting, reading, processors by code, parked pulls."""
