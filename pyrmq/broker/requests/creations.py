"""How many topics or groups each connection has made by using them.

A program that makes up names, by accident or not, gets errors of its own before the broker is full
for everybody else.
"""

from __future__ import annotations

import time

from pyrmq.net.server.connection import Connection

SILENCE = 1.0
"""Seconds between two lines of the log about what is not created."""


class Creations:
    """`what` is the word for them in texts, `key` the configuration key of the bound."""

    def __init__(self, what: str, key: str) -> None:
        self._what = what
        self._key = key
        self._made: dict[Connection, int] = {}
        self._silent_until = 0.0

    def why_not(self, connection: Connection | None, most: int) -> str | None:
        """Why a connection may make no more, None if it may."""
        made = 0 if connection is None else self._made.get(connection, 0)
        if made < most:
            return None
        return f"this connection has made {made} {self._what} already, {self._key}={most}"

    def count(self, connection: Connection | None) -> None:
        """The connection has made one."""
        if connection is not None:
            self._made[connection] = self._made.get(connection, 0) + 1
            connection.call_on_close(self.connection_gone)

    def may_log(self) -> bool:
        """Whether a refusal is to be logged: those of a program in a loop are not, one by one."""
        now = time.monotonic()
        if now < self._silent_until:
            return False
        self._silent_until = now + SILENCE
        return True

    def connection_gone(self, connection: Connection) -> None:
        self._made.pop(connection, None)
