"""Connections: frames, the server's and the client's ends."""
