"""Requests that a server makes of its clients, and their answers. [Broker2Client.callClient]"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import trio

from pyrmq.engine import Command
from pyrmq.errors import ConnectError, RequestTimeoutError, SystemBusyError
from pyrmq.net.command import encode_request
from pyrmq.net.server.connection import Connection

MAX_OPEN = 64
"""Questions to one client that are not answered; one more is refused."""
FIRST_OPAQUE = 1
"""One-way requests have 0."""


@dataclass(slots=True, eq=False)
class _Question:
    done: trio.Event = field(default_factory=trio.Event)
    answer: Command | None = None
    """None: the connection ended."""


class Questions:
    """What was asked and is not answered yet, by connection and opaque."""

    def __init__(self) -> None:
        self._open: dict[Connection, dict[int, _Question]] = {}
        self._opaque = itertools.count(FIRST_OPAQUE)

    async def ask(
        self,
        connection: Connection,
        code: int,
        ext: Mapping[str, str | int | bool],
        body: bytes = b"",
        *,
        timeout: float,
    ) -> Command:
        """The client's answer, whatever its code. SystemBusyError if it takes no more now,
        ConnectError if the connection ends, RequestTimeoutError after `timeout` seconds."""
        mine = self._open.setdefault(connection, {})
        if not connection.has_room or len(mine) >= MAX_OPEN:
            self._clean(connection)
            raise SystemBusyError(f"the client at {connection.peer} takes no more requests now")
        opaque = next(self._opaque) & 0x7FFFFFFF
        question = mine[opaque] = _Question()
        connection.call_on_close(self.connection_gone)
        try:
            connection.send(encode_request(code, opaque, ext, body))
            with trio.move_on_after(timeout):
                await question.done.wait()
                if question.answer is None:
                    raise ConnectError(f"the client at {connection.peer} is gone")
                return question.answer
            raise RequestTimeoutError(
                f"the client at {connection.peer} did not answer within {timeout:g} s"
            )
        finally:
            mine.pop(opaque, None)
            self._clean(connection)

    def _clean(self, connection: Connection) -> None:
        if not self._open.get(connection, True):
            del self._open[connection]

    def answered(self, connection: Connection, command: Command) -> None:
        """A client answers; what nobody waits for is left alone."""
        question = self._open.get(connection, {}).get(command.opaque)
        if question is not None:
            question.answer = command
            question.done.set()

    def connection_gone(self, connection: Connection) -> None:
        for question in self._open.pop(connection, {}).values():
            question.done.set()
