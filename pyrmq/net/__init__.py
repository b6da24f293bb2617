"""Remoting on trio: the command codec's Python side, the server's reader task, client channels."""
