"""Limits the messages of a producer that wait for brokers' answers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import trio

from pyrmq.errors import ClientError


@dataclass(slots=True, eq=False)
class _Waiter:
    size: int
    event: trio.Event


class InFlight:
    """Admits so many messages with so many bytes at once; others wait in the order of their
    arrival. A message larger than the limit goes alone."""

    def __init__(self, messages: int, size: int) -> None:
        if messages < 1 or size < 1:
            raise ClientError("max_in_flight and max_in_flight_bytes must be at least 1")
        self.messages = self.bytes = 0
        self._most_messages = messages
        self._most_bytes = size
        self._waiting: deque[_Waiter] = deque()

    def try_enter(self, size: int) -> bool:
        """Whether there was room and nobody else waits for it; then call `leave` afterwards."""
        return not self._waiting and self._enter(size)

    def _enter(self, size: int) -> bool:
        if self.messages and (
            self.messages >= self._most_messages or self.bytes + size > self._most_bytes
        ):
            return False
        self.messages += 1
        self.bytes += size
        return True

    async def enter(self, size: int) -> None:
        """Returns when there is room; then call `leave` afterwards."""
        if self.try_enter(size):
            return
        waiter = _Waiter(size, trio.Event())
        self._waiting.append(waiter)
        try:
            await waiter.event.wait()
        except trio.Cancelled:
            if waiter.event.is_set():
                self.leave(size)
            else:
                self._waiting.remove(waiter)
                self._let_in()
            raise

    def leave(self, size: int) -> None:
        self.messages -= 1
        self.bytes -= size
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._enter(self._waiting[0].size):
            self._waiting.popleft().event.set()
