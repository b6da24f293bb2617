"""`async for` over consumers."""

from __future__ import annotations

from collections import deque
from typing import Protocol, Self

from pyrmq.client.process_queue import ProcessQueue
from pyrmq.model.message import ReceivedMessage


class Source(Protocol):
    """What messages of a queue are taken from."""

    def check_entered(self) -> None: ...

    async def take(self) -> tuple[ProcessQueue, list[ReceivedMessage]]: ...


class MessageIterator:
    """One loop over a consumer. Asking for the next message counts the one before as consumed."""

    def __init__(self, consumer: Source) -> None:
        self._consumer = consumer
        self._left: deque[tuple[ProcessQueue, ReceivedMessage]] = deque()
        self._current: tuple[ProcessQueue, ReceivedMessage] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        self._consumer.check_entered()
        if self._current is not None:
            process, message = self._current
            self._current = None
            process.finish(message.queue_offset)
        while self._left and self._left[0][0].dropped:
            self._left.popleft()
        if not self._left:
            process, chunk = await self._consumer.take()
            self._left.extend((process, message) for message in chunk)
        self._current = self._left.popleft()
        return self._current[1]
